internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySync
internal import UbiquitySystem
internal import UbiquityWire

/// Checks the index's manifests of local contents and the positions of their chunks.
///
/// Without them, damage to a content is not detected, and equal chunks are downloaded again.
struct ManifestCheck: Check {
    let context: CheckContext

    /// - Parameter asksCloud: whether the cloud is reachable.
    func run(asksCloud: Bool) async throws -> [Finding] {
        var findings = [Finding](), key = ItemKey(0)
        while true {
            let rows = try await pool.run { [index, key] in
                try index.read { try $0.rowsOfUnknownContents(after: key, limit: SyncLimits.rowsPerRead) }
            }
            guard let last = rows.last else { return findings }
            key = last.key
            for row in rows where findings.count < Diagnosis.maximumFindings {
                if let finding = try await examineManifest(of: row, asksCloud: asksCloud) {
                    findings.append(finding)
                }
            }
        }
    }

    private func examineManifest(
        of row: ItemRow, asksCloud: Bool
    ) async throws -> Finding? {
        guard let content = row.content, let version = row.version else { return nil }
        guard try await pool.run({ try !self.isInUse(row) }) else { return nil }
        var outcome = Finding.Outcome.found
        if options.repairs {
            if let manifest = try await manifest(of: version, row, asksCloud: asksCloud) {
                guard try await pool.run({ try self.record(manifest, version, of: row, content) }) else { return nil }
                outcome = .repaired("taken from the cloud")
            } else {
                outcome = .unrepaired(
                    asksCloud
                        ? "the cloud does not have it either; remove the file, or write it again"
                        : "only the cloud has it, and is unreachable")
            }
        }
        let name = try await pool.run { try self.subject(row) }
        return Finding(.contentUnknown, name, "the index has no manifest of content \(content)", outcome)
    }

    /// The chunks of the local version, or nil if neither side knows them.
    private func manifest(of version: VersionID, _ row: ItemRow, asksCloud: Bool) async throws -> Manifest? {
        let known = try await pool.run { [index] in try index.read { try $0.remote(id: row.id) } }?.content
        if let known, known.version == version {
            if known.size == 0 { return [] }
            if let manifest = known.manifest { return manifest }
        }
        guard asksCloud else { return nil }
        do { return try await service.manifest(of: version) } catch let error as UbiquityError
            where error.isAboutConnection || [.notFound, .notUploadedYet, .damaged, .signedOut].contains(error.code)
        {
            return nil
        }
    }

    /// - Returns: false if the item was changed meanwhile.
    private func record(
        _ manifest: Manifest, _ version: VersionID, of row: ItemRow, _ content: ContentID
    ) throws -> Bool {
        try device.whileClosed(row.key) {
            try index.write(.remote) { transaction in
                guard let current = try transaction.row(key: row.key), current.content == content,
                    current.version == version, current.generation == row.generation, !current.isWriting,
                    !current.dirty.contains(.content)
                else { return false }
                // It is also unknown whether the content was synced to the disk.
                try transaction.setContent(
                    ContentRecord(
                        content: content, version: version, size: manifest.reduce(0) { $0 + Int64($1.length) },
                        manifest: manifest, unsyncedBoot: transaction.lastBoot() ?? configuration.boot))
                if current.contentState == .complete { try transaction.setLocations(manifest, in: content) }
                return true
            }
        } ?? false
    }
}
