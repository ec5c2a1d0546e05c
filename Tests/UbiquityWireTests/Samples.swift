import Testing
import UbiquityCore
import UbiquityWire

/// Values with every field set, for round trips.
enum Sample {
    static func chunk(_ seed: UInt8) throws -> ChunkID {
        try #require(ChunkID(bytes: [UInt8](repeating: seed, count: 32)))
    }

    static let device = DeviceID(high: 3, low: 4)

    static func manifest() throws -> Manifest {
        [ChunkReference(id: try chunk(1), length: 1000), ChunkReference(id: try chunk(2), length: 24)]
    }

    static func file() throws -> RemoteItem {
        RemoteItem(
            id: ItemID(high: 1, low: 2), kind: .file, revision: Revision(77), parent: .root,
            name: try ItemName("cafe\u{301}.txt"), mode: 0o644, createdAt: Timestamp(nanoseconds: -5),
            modifiedAt: Timestamp(nanoseconds: 1_700_000_000_123_456_789),
            xattrs: [Xattr(name: Array("user.a".utf8), value: [0, 255]), Xattr(name: Array("user.b".utf8), value: [])],
            content: RemoteContent(
                version: VersionID(high: 9, low: 9), size: 1024, isAvailable: true, device: device,
                deviceName: "laptop", manifest: try manifest()),
            conflictCount: 2, conflicts: [try version(.conflict)], hasHistory: true)
    }

    static func version(_ kind: RemoteVersion.Kind) throws -> RemoteVersion {
        RemoteVersion(
            content: RemoteContent(
                version: VersionID(high: 8, low: 8), size: 1024, isAvailable: true, device: device,
                deviceName: "d\u{e4}sk", manifest: try manifest()),
            kind: kind, modifiedAt: Timestamp(nanoseconds: -7), savedAt: Timestamp(nanoseconds: 8),
            savedName: try ItemName("old.txt"), baseVersion: kind == .history ? nil : VersionID(high: 9, low: 8))
    }

    static func items() throws -> [RemoteItem] {
        let root = RemoteItem(
            id: .root, kind: .directory, revision: Revision(1), parent: .root, name: ItemName(stored: []), mode: 0o755,
            createdAt: .zero, modifiedAt: .zero)
        let folder = RemoteItem(
            id: ItemID(high: 5, low: 5), kind: .directory, revision: Revision(2), isDeleted: true, parent: .root,
            name: try ItemName("d"), mode: 0o7777, createdAt: .zero, modifiedAt: .zero)
        var link = folder
        link.id = ItemID(high: 6, low: 6)
        link.kind = .symlink
        link.linkTarget = [0xFF, 0xFE, 0x2F]
        var announced = try file()
        announced.content?.isAvailable = false
        announced.content?.manifest = nil
        return [root, folder, link, announced, try file()]
    }

    static func request() throws -> CommitRequest {
        let put = ItemChange(
            id: ItemID(high: 1, low: 2), kind: .file, baseRevision: Revision(4), changedAt: Timestamp(nanoseconds: 12),
            action: .put(
                ChangedFields(
                    place: Place(parent: .root, name: try ItemName("a")), mode: 0, createdAt: .zero,
                    modifiedAt: Timestamp(nanoseconds: .max),
                    xattrsSet: [Xattr(name: Array("user.x".utf8), value: [1])], xattrsRemoved: [Array("user.y".utf8)],
                    content: ContentChange(
                        version: VersionID(high: 1, low: 1), baseVersion: VersionID(high: 0, low: 0), size: 1024,
                        manifest: try manifest()),
                    earlier: [
                        FieldTime(.place, at: .zero), FieldTime(.mode, at: Timestamp(nanoseconds: -1)),
                        FieldTime(.times, at: .zero), FieldTime(.content, at: .zero),
                        FieldTime(.xattr(Array("user.y".utf8)), at: Timestamp(nanoseconds: 11)),
                    ])))
        let empty = ItemChange(
            id: ItemID(high: 1, low: 3), kind: .symlink, baseRevision: .zero, changedAt: .zero,
            action: .put(ChangedFields(linkTarget: [1])))
        let delete = ItemChange(
            id: ItemID(high: 1, low: 4), kind: .directory, baseRevision: .zero, changedAt: .zero, action: .delete)
        let version = VersionID(high: 1, low: 9)
        let decide = ItemChange(
            id: ItemID(high: 1, low: 5), kind: .file, baseRevision: Revision(4), changedAt: .zero,
            action: .versions([
                .resolve(version), .remove(version), .restore(version, as: VersionID(high: 1, low: 10), base: nil),
                .restore(version, as: VersionID(high: 1, low: 11), base: version),
            ]))
        let back = ItemChange(
            id: ItemID(high: 1, low: 6), kind: .directory, baseRevision: .zero, changedAt: .zero,
            action: .undelete(Place(parent: .root, name: try ItemName("back"))))
        let backInPlace = ItemChange(
            id: ItemID(high: 1, low: 7), kind: .file, baseRevision: .zero, changedAt: .zero, action: .undelete(nil))
        return CommitRequest(
            id: RequestID(high: 7, low: 8), device: device, deviceName: "laptop",
            changes: [put, empty, delete, decide, back, backInPlace],
            chunks: [Chunk(id: try chunk(1), bytes: [1, 2, 3])], sentAt: Timestamp(nanoseconds: 44), number: 17)
    }

    static func response() throws -> CommitResponse {
        let item = try file()
        return CommitResponse(
            revision: Revision(9),
            results: [
                ChangeResult(outcome: .applied, item: item), ChangeResult(outcome: .merged(into: item.id), item: item),
                ChangeResult(outcome: .unknownItem, item: nil),
            ])
    }
}
