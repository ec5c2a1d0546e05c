internal import Logging
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

/// Finds the contents of both states of a package: their chunks and sizes.
///
/// It holds nothing. `PackageSync` calls it. It asks the index and the cloud.
struct PackageContents: SyncRoom {
    let context: SyncContext

    /// The manifests of the cloud's files. Files whose content is not uploaded yet are left out.
    func theirManifests(_ meeting: PackageMeeting) async throws -> [VersionID: Manifest] {
        var result = [VersionID: Manifest]()
        for item in (meeting.remotes ?? []) + meeting.linkedRemotes.values {
            guard let content = item.content, content.isAvailable, result[content.version] == nil else { continue }
            result[content.version] = try await manifest(of: content)
        }
        return result
    }

    /// The contents of the local files. A content that only the cloud had and has dropped is left out.
    func myContents(
        _ meeting: PackageMeeting, _ group: [PlannedChange], _ manifests: [VersionID: Manifest]
    ) async throws -> [ItemKey: MemberContent] {
        var sent = [ItemKey: ContentChange]()
        for planned in group {
            guard case .put(let fields) = planned.change.action, let content = fields.content else { continue }
            sent[planned.row.key] = content
        }
        var result = [ItemKey: MemberContent]()
        for row in meeting.rows + meeting.linked.values where row.kind == .file && !row.isExcluded {
            if let content = sent[row.key], let manifest = content.manifest {
                result[row.key] = MemberContent(version: content.version, size: content.size, manifest: manifest)
            } else if let version = row.version, !row.dirty.contains(.content),
                let manifest = try await manifest(of: row, version, manifests)
            {
                let size = manifest.reduce(Int64(0)) { $0 + Int64($1.length) }
                result[row.key] = MemberContent(version: version, size: size, manifest: manifest)
            }
        }
        return result
    }

    private func manifest(
        of row: ItemRow, _ version: VersionID, _ manifests: [VersionID: Manifest]
    ) async throws -> Manifest? {
        if let known = manifests[version] { return known }
        let record = try await pool.run { [index] in
            try index.read { reader in try row.content.flatMap { try reader.contentRecord($0) } }
        }
        if let record, record.version == version { return record.manifest }
        do { return try await service.manifest(of: version) } catch let error as UbiquityError
            where error.code == .notFound || error.code == .notUploadedYet
        {
            logger.warning("the cloud has dropped the content of a package's file", metadata: ["item": "\(row.id)"])
            return nil
        }
    }
}
