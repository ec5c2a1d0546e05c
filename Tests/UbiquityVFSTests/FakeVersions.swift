import UbiquityContent
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityVFS

/// Versions of files, as if made earlier or by another device.
extension FakeCloud: VersionSource {
    /// Adds a version: a conflict is in the index, history only at the cloud.
    @discardableResult
    func addVersion(
        of key: ItemKey, _ number: UInt64, _ kind: RemoteVersion.Kind, at seconds: Int64, device: String,
        _ text: String
    ) throws -> VersionID {
        let id = VersionID(high: 7, low: number)
        try index.write(.remote) { transaction in
            guard let row = try transaction.row(key: key), let name = row.entry?.name else { return }
            let version = RemoteVersion(
                content: RemoteContent(
                    version: id, size: Int64(text.utf8.count), isAvailable: true, device: DeviceID(high: 1, low: number),
                    deviceName: device, manifest: nil),
                kind: kind, modifiedAt: Timestamp(seconds: seconds, nanoseconds: 0), savedAt: .zero, savedName: name,
                baseVersion: nil)
            versions.withLock { $0[id] = (row.id, version, Array(text.utf8)) }
            let all = versions.withLock { $0.values.filter { $0.item == row.id }.map(\.version) }
            let conflicts = all.filter { $0.kind == .conflict }
            let known = try transaction.remote(id: row.id)?.revision ?? .zero
            try transaction.setRemote(
                RemoteItem(
                    id: row.id, kind: .file, revision: known.next, parent: .root, name: name, mode: row.mode,
                    createdAt: .zero, modifiedAt: .zero, content: version.content, conflictCount: conflicts.count,
                    conflicts: conflicts, hasHistory: all.contains { $0.kind == .history }),
                state: .settled)
        }
        return id
    }

    func otherVersions(of item: ItemID) async throws -> [RemoteVersion] {
        let (conflicts, decided) = try index.read { (try $0.conflicts(of: item), try $0.decidedVersions(of: item)) }
        let history = versions.withLock { versions in
            versions.values.filter { $0.item == item && $0.version.kind == .history }.map(\.version)
        }
        return conflicts + history.filter { decided[$0.id] != .remove }
    }

    func begin(_ version: RemoteVersion) async throws -> PartialContent {
        guard let text = versions.withLock({ $0[version.id]?.text }) else { throw UbiquityError(.notFound, "none") }
        let id = ContentID(try index.newContentNumber())
        let content = try PartialContent(
            id: id, file: try contents.create(id),
            manifest: text.isEmpty ? [] : [ChunkReference(id: ChunkNaming.name(of: text), length: text.count)],
            size: Int64(text.count))
        if !text.isEmpty { _ = try content.store(0, text) }
        return content
    }

    func tree(of version: RemoteVersion) async throws -> PackageTree {
        guard let tree = trees.withLock({ $0[version.id] }) else { throw UbiquityError(.notFound, "none") }
        return tree
    }

    func copy(_ version: RemoteVersion) async throws -> ContentID {
        let content = try await begin(version)
        let id = ContentID(try index.newContentNumber())
        _ = try contents.duplicate(content.id, as: id)
        return id
    }
}
