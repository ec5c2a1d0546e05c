import UbiquityControl
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquitySystem

/// Commands on versions that programs add to files.
struct VersionAdditions: MountCommand {
    let parts: MountParts
    let catalog: VersionCatalog

    /// Takes a content from the folder of incoming contents and makes it a version of a file.
    func add(_ wanted: VersionAddition) async throws -> VersionReport {
        guard !wanted.content.isEmpty, !wanted.content.hasPrefix("."), !wanted.content.contains("/") else {
            throw UbiquityError(.invalid, "the content's name is not one of the incoming folder", at: wanted.content)
        }
        let content = Path.join(parts.folder.incoming, wanted.content)
        do {
            let (row, version) = try await pool.run { [self] in try make(wanted, content) }
            return try await catalog.report(version, of: row)
        } catch {
            try? FileSystem.unlink(content)
            throw error
        }
    }

    private func make(_ wanted: VersionAddition, _ content: String) throws -> (ItemRow, AppVersion) {
        let row = try parts.tree.row(at: wanted.path)
        guard row.kind == .file, let name = row.entry?.name else {
            throw UbiquityError(.notSupported, "programs can add versions of files only", at: wanted.path)
        }
        let status = try describing("examine the version", at: content) { () throws(Errno) in
            try FileSystem.status(content)
        }
        guard status.isFile, status.user == ProcessHost.userID else {
            throw UbiquityError(.invalid, "the content is not a file of this user", at: wanted.content)
        }
        let now = parts.timekeeper.now()
        var random = SourcedGenerator(SystemRandom())
        let version = AppVersion(
            id: VersionID(using: &random), item: row.key,
            origin: AppVersion.Origin(rawValue: wanted.origin.rawValue) ?? .manual,
            isDiscardable: wanted.isDiscardable, name: name, size: status.size,
            modifiedAt: wanted.modifiedAt.map { Timestamp(seconds: $0) } ?? now, savedAt: now,
            device: parts.identity.id, deviceName: parts.identity.name)
        try engine.appVersions.add(version, content: content)
        return (row, version)
    }

    func change(_ wanted: VersionChange) async throws -> VersionReport {
        let row = try await catalog.file(at: wanted.path)
        let version = try await catalog.version(wanted.version, of: row)
        let changed = try await pool.run { [self] in
            try engine.appVersions.setDiscardable(version.id, wanted.isDiscardable)
        }
        return try await catalog.report(changed, of: row)
    }
}
