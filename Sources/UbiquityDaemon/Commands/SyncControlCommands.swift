import UbiquityContent
import UbiquityControl
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquitySystem

/// Commands of programs on the sync of one file: pause, resume, upload and fetch.
struct SyncControlCommands: MountCommand {
    /// How long one look for the end of an upload lasts; then the connection is checked.
    private static let look = Duration.seconds(10)

    let parts: MountParts
    let catalog: VersionCatalog

    func control(_ wanted: SyncControlRequest) async throws -> SyncControlReport {
        let row = try await pool.run { [tree = parts.tree] in try tree.row(at: wanted.path) }
        guard row.kind == .file, !row.isExcluded else {
            throw UbiquityError(.notSupported, "only synced files have sync controls", at: wanted.path)
        }
        if wanted.failsOnConflict == true, try await isBehind(row) {
            return SyncControlReport(isPaused: engine.control.isPaused(row.key), isConflict: true)
        }
        switch wanted.action {
        case .pause: try await setPaused(row.key, true)
        case .resume: try await setPaused(row.key, false)
        case .upload:
            try await upload(row)
            return SyncControlReport(
                isPaused: engine.control.isPaused(row.key), version: try await catalog.currentReport(of: row))
        case .fetch: return try await fetch(row)
        }
        return SyncControlReport(isPaused: engine.control.isPaused(row.key))
    }

    private func setPaused(_ key: ItemKey, _ isPaused: Bool) async throws {
        try await pool.run { [engine] in _ = try engine.control.setPaused(key, isPaused) }
    }

    /// Asks the cloud first: the feed may not be read to its end.
    private func isBehind(_ row: ItemRow) async throws -> Bool {
        if let current = try await engine.versions.allVersions(of: row.id).first(where: { $0.kind == .current }) {
            return current.id != row.version
        }
        return try await pool.run { [engine] in try engine.control.isBehind(row) }
    }

    /// Ends the pause until the content is at the cloud.
    private func upload(_ row: ItemRow) async throws {
        let wasPaused = engine.control.isPaused(row.key)
        if wasPaused { try await setPaused(row.key, false) }
        do {
            while try await !engine.wait(atMost: Self.look, until: { try await isUploaded(row.key) }) {
                if let absence = engine.connection.absence { throw absence }
            }
        } catch {
            if wasPaused { try await setPaused(row.key, true) }
            throw error
        }
        if wasPaused { try await setPaused(row.key, true) }
    }

    private func isUploaded(_ key: ItemKey) async throws -> Bool {
        try await pool.run { [self] in
            guard let row = try parts.index.row(key: key), !row.isDeleted else {
                throw UbiquityError(.notFound, "the item was deleted meanwhile")
            }
            if let error = try engine.status(of: row).uploadingError { throw error }
            return row.dirty.isEmpty
        }
    }

    /// Copies the cloud's present content into the folder that the client reads.
    private func fetch(_ row: ItemRow) async throws -> SyncControlReport {
        let versions = try await engine.versions.allVersions(of: row.id)
        guard let current = versions.first(where: { $0.kind == .current }) else {
            throw UbiquityError(.notFound, "the cloud does not have this file yet")
        }
        if let error = current.content.whyNotHere { throw error }
        let copy = try await engine.versionDownloads.copy(current)
        let name = "fetched-" + String(SystemRandom().next(), radix: 36)
        let target = Path.join(parts.folder.incoming, name)
        try await pool.run(evenIfCancelled: true) { [parts] in
            defer { try? parts.contents.remove(copy) }
            try describing("pass the content to the program", at: target) { () throws(Errno) in
                try FileSystem.makeDirectories(parts.folder.incoming)
                let output = try FileDescriptor.open(target, [.readWrite, .create, .exclusive])
                let input = try FileDescriptor.open(parts.contents.path(of: copy), .readOnly)
                _ = try output.copy(from: input, at: 0, to: 0, count: .max)
            }
        }
        return SyncControlReport(
            isPaused: engine.control.isPaused(row.key), version: catalog.report(current), content: name)
    }
}
