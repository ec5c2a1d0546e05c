import Testing
import UbiquityCloudStore
import UbiquityCore
import UbiquityTestSupport
import UbiquityWire

/// Two devices and the engine over tables in memory.
final class EngineBench {
    static let here = DeviceID(high: 0, low: 1)
    static let there = DeviceID(high: 0, low: 2)

    private(set) var container = MemoryContainer()
    var now = Timestamp(seconds: 1000, nanoseconds: 0)
    private var requests: UInt64 = 0

    var items: [ItemID: ItemRecord] { container.items }
    var versions: [VersionID: VersionRecord] { container.versions }
    var revision: Revision { container.revision }
    var usedBytes: Int64 { container.usedBytes }

    /// Commits and keeps the result.
    @discardableResult
    func commit(_ device: DeviceID = here, _ changes: ItemChange...) throws -> CommitPlan {
        try commit(device, changes)
    }

    @discardableResult
    func commit(
        _ device: DeviceID = here, _ changes: [ItemChange], sentAt: Timestamp? = nil, packages: [PackageEdit] = []
    ) throws -> CommitPlan {
        requests += 1
        let request = CommitRequest(
            id: RequestID(high: 0, low: requests), device: device, deviceName: "\(device.low)", changes: changes,
            sentAt: sentAt, packages: packages)
        let plan = try CommitEngine.plan(request, on: container, revision: revision, now: now)
        container.apply(plan)
        container.deviceNames[device] = request.deviceName
        try checkInvariants()
        return plan
    }

    /// Invariants after any commit, whatever the request.
    private func checkInvariants() throws {
        var places = Set<Place>()
        for item in items.values where item.isLive && item.id != .root {
            #expect(places.insert(Place(parent: item.parent, name: item.name)).inserted, "two items are \(item.name)")
            #expect(item.parent == .root || items[item.parent]?.isLive == true, "\(item.name) is in a deleted folder")
            #expect(depth(of: item) != nil, "\(item.name) lies in itself")
        }
        for item in items.values where item.kind == .file {
            let version = try #require(item.version.flatMap { versions[$0] })
            #expect(version.role == .current && version.size == item.size)
            let conflicts = container.conflicts(of: item.id)
            #expect(conflicts.count == item.conflictCount)
            #expect(conflicts.reduce(0) { $0 + $1.size } == item.conflictBytes)
        }
        #expect(usedBytes == items.values.reduce(0) { $0 + $1.usedBytes })
    }

    private func depth(of item: ItemRecord) -> Int? {
        var parent = item.parent
        for depth in 0...items.count {
            if parent == .root { return depth }
            parent = items[parent]?.parent ?? .root
        }
        return nil
    }

    // MARK: Inspection

    func item(_ id: ItemID) -> ItemRecord? { container.item(id) }
    func version(_ id: VersionID) -> VersionRecord? { container.version(id) }
    func conflicts(of item: ItemID) -> [VersionRecord] { container.conflicts(of: item) }

    func path(_ id: ItemID) -> String? {
        guard let item = items[id], item.isLive else { return nil }
        return item.parent == .root ? "\(item.name)" : (path(item.parent) ?? "?") + "/\(item.name)"
    }

    func find(_ path: String) -> ItemRecord? { items.values.first { self.path($0.id) == path } }

    var livePaths: [String] { items.keys.compactMap(path).sorted() }
}

// MARK: Short forms of changes

extension Timestamp {
    static func at(_ seconds: Int64) -> Timestamp { Timestamp(seconds: seconds, nanoseconds: 0) }
}

extension ItemID {
    static func number(_ number: UInt64) -> ItemID { ItemID(high: 1, low: number) }
}

extension VersionID {
    static func number(_ number: UInt64) -> VersionID { VersionID(high: 2, low: number) }
}

enum Make {
    /// A content of one chunk of 10 bytes, named by a letter.
    static func manifest(_ letter: Character) throws -> Manifest {
        let byte = try #require(letter.asciiValue)
        return [ChunkReference(id: try #require(ChunkID(bytes: [UInt8](repeating: byte, count: 32))), length: 10)]
    }

    static func content(
        _ version: UInt64, on base: UInt64? = nil, _ letter: Character?
    ) throws -> ContentChange {
        ContentChange(
            version: .number(version), baseVersion: base.map(VersionID.number), size: 10,
            manifest: try letter.map(manifest))
    }

    static func put(
        _ id: UInt64, kind: ItemKind = .file, base: Int64 = 0, at time: Int64 = 100, _ fields: ChangedFields
    ) -> ItemChange {
        ItemChange(
            id: .number(id), kind: kind, baseRevision: Revision(base), changedAt: .at(time), action: .put(fields))
    }

    static func delete(_ id: UInt64, _ kind: ItemKind = .file, base: Int64) -> ItemChange {
        ItemChange(id: .number(id), kind: kind, baseRevision: Revision(base), changedAt: .at(500), action: .delete)
    }

    static func place(_ name: String, in parent: ItemID = .root) throws -> Place {
        Place(parent: parent, name: try ItemName(name))
    }

    static func file(
        _ id: UInt64, _ name: String, in parent: ItemID = .root, version: UInt64, _ letter: Character? = "x",
        at time: Int64 = 100
    ) throws -> ItemChange {
        put(
            id, at: time,
            ChangedFields(
                place: try place(name, in: parent), mode: 0o644, createdAt: .at(time), modifiedAt: .at(time),
                content: try content(version, letter)))
    }

    static func folder(_ id: UInt64, _ name: String, in parent: ItemID = .root, at time: Int64 = 100) throws
        -> ItemChange
    {
        put(
            id, kind: .directory, at: time,
            ChangedFields(
                place: try place(name, in: parent), mode: 0o755, createdAt: .at(time), modifiedAt: .at(time)))
    }

    static func link(_ id: UInt64, _ name: String, in parent: ItemID = .root, to target: String) throws -> ItemChange {
        put(
            id, kind: .symlink,
            ChangedFields(
                place: try place(name, in: parent), mode: 0o777, createdAt: .at(100), modifiedAt: .at(100),
                linkTarget: Array(target.utf8)))
    }

    static func hardLink(_ id: UInt64, _ name: String, in parent: ItemID = .root, to target: UInt64) throws -> ItemChange {
        put(
            id, kind: .hardLink,
            ChangedFields(
                place: try place(name, in: parent), mode: 0o777, createdAt: .at(100), modifiedAt: .at(100),
                linkTarget: ItemID.number(target).bytes))
    }

    static func move(
        _ id: UInt64, _ kind: ItemKind = .file, base: Int64, at time: Int64 = 100, to name: String,
        in parent: ItemID = .root
    ) throws -> ItemChange {
        put(id, kind: kind, base: base, at: time, ChangedFields(place: try place(name, in: parent)))
    }

    static func versions(_ id: UInt64, base: Int64 = 0, at time: Int64 = 900, _ actions: VersionAction...) -> ItemChange {
        ItemChange(
            id: .number(id), kind: .file, baseRevision: Revision(base), changedAt: .at(time), action: .versions(actions))
    }

    static func undelete(_ id: UInt64, _ kind: ItemKind = .file, to place: Place? = nil) -> ItemChange {
        ItemChange(
            id: .number(id), kind: kind, baseRevision: .zero, changedAt: .at(900), action: .undelete(place))
    }

    /// - Parameter mtime: the file's own time, if it differs from that of the change.
    static func save(
        _ id: UInt64, base: Int64, at time: Int64 = 200, mtime: Int64? = nil, version: UInt64, on baseVersion: UInt64?,
        _ letter: Character?, size: Int64? = nil
    ) throws -> ItemChange {
        var content = try content(version, on: baseVersion, letter)
        if let size {
            // A different content for each size.
            let id = [UInt8](repeating: 1, count: 24) + (0..<8).map { UInt8(truncatingIfNeeded: size >> ($0 * 8)) }
            content.size = size
            content.manifest = [ChunkReference(id: try #require(ChunkID(bytes: id)), length: Int(size))]
        }
        return put(id, base: base, at: time, ChangedFields(modifiedAt: .at(mtime ?? time), content: content))
    }
}

extension CommitRequest {
    static func of(_ changes: [ItemChange]) -> CommitRequest {
        CommitRequest(
            id: RequestID(high: 9, low: 9), device: EngineBench.here, deviceName: "here", changes: changes)
    }
}
