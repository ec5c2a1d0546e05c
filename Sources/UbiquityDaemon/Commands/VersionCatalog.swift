import UbiquityControl
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquitySystem
import UbiquityVFS

/// Finds and lists the versions of an item.
struct VersionCatalog: MountCommand {
    let parts: MountParts
    let merges: MergeRunner

    /// A file's or package's row. Throws for items without versions.
    func file(at path: String) async throws -> ItemRow {
        let row = try await pool.run { [self] in try parts.tree.row(at: path) }
        if row.kind == .file || parts.index.isPackage(row) { return row }
        // A package in conflict may have become a plain folder since.
        let conflicts = try await pool.run { [index = parts.index] in try index.read { try $0.conflicts(of: row.id) } }
        guard !conflicts.isEmpty else {
            throw UbiquityError(.invalid, "only files and packages have versions", at: path)
        }
        return row
    }

    func report(_ request: PathsRequest) async throws -> VersionsReport {
        guard let path = request.paths.first else { throw UbiquityError(.invalid, "a path is missing") }
        let row = try await file(at: path)
        var incomplete: String?
        var all = [RemoteVersion]()
        do {
            all = try await engine.versions.allVersions(of: row.id)
        } catch let error as UbiquityError where error.code == .notFound {
            incomplete = "the cloud does not have this file yet"
        } catch let error as UbiquityError {
            incomplete = error.description
        }
        let others = try await engine.versions.otherVersions(of: row.id)
        if all.isEmpty { all = try await pool.run { [self] in try current(of: row) } + others }
        let listed = Set(all.map(\.id))
        // Versions that programs have added are on this device only.
        all += others.filter { !listed.contains($0.id) && engine.appVersions.version($0.id) != nil }
        let names = Dictionary(
            named(others, of: row).map { ($1.id, $0.description) }
        ) { first, _ in first }
        let decided = try await pool.run { [index = parts.index] in
            try index.read { try $0.decidedVersions(of: row.id) }
        }
        // Local decisions count, even before they are uploaded.
        var shown = all.filter { decided[$0.id] != .remove }
        for place in shown.indices where shown[place].kind == .conflict && decided[shown[place].id] != nil {
            shown[place].kind = .resolved
        }
        return VersionsReport(
            path: path, versions: shown.map { report($0, name: names[$0.id]) }, incomplete: incomplete)
    }

    /// The current version, as last received from the cloud.
    private func current(of row: ItemRow) throws -> [RemoteVersion] {
        guard let item = try parts.index.read({ try $0.remote(id: row.id) }), let content = item.content else {
            return []
        }
        return [
            RemoteVersion(
                content: content, kind: .current, modifiedAt: item.modifiedAt, savedAt: item.modifiedAt,
                savedName: item.name, baseVersion: nil)
        ]
    }

    /// A version that a program has added, with its name in `.versions`.
    func report(_ version: AppVersion, of row: ItemRow) async throws -> VersionReport {
        let others = try await engine.versions.otherVersions(of: row.id)
        let name = named(others, of: row).first { $0.1.id == version.id }?.0.description
        return report(version.listed, name: name)
    }

    /// The current version, as last received from the cloud; nil for a file that the cloud does not have.
    func currentReport(of row: ItemRow) async throws -> VersionReport? {
        try await pool.run { [self] in try current(of: row).first.map { report($0) } }
    }

    func report(_ version: RemoteVersion, name: String? = nil) -> VersionReport {
        let kind: VersionReport.Kind =
            switch version.kind {
            case .current: .current
            case .history: .history
            case .conflict: .conflict
            case .resolved: .resolved
            }
        let own = engine.appVersions.version(version.id)
        var report = VersionReport(
            id: version.id.description, kind: kind, name: kind == .current ? nil : name,
            displayName: version.savedName.description, device: version.content.deviceName,
            modifiedAt: version.modifiedAt.seconds, size: version.content.size,
            isAvailable: version.content.isAvailable, mergeError: merges.failure(of: version.id))
        report.origin = own.flatMap { VersionOrigin(rawValue: $0.origin.rawValue) }
        report.isDiscardable = own?.isDiscardable
        return report
    }

    /// The versions with their names in `.versions`.
    private func named(_ versions: [RemoteVersion], of row: ItemRow) -> [(ItemName, RemoteVersion)] {
        parts.fileSystem.versionNames.named(versions, of: row.id, row.entry?.name ?? ItemName(stored: []))
    }

    /// The version that the user named: by its name in `.versions`, its id, or the beginning of its id.
    func version(_ text: String, of row: ItemRow) async throws -> RemoteVersion {
        let others = try await engine.versions.otherVersions(of: row.id)
        if let found = named(others, of: row).first(where: { $0.0.description == text })?.1 { return found }
        guard text.utf8.count >= Self.shortestID else {
            throw UbiquityError(
                .invalid, "neither a version's name nor \(Self.shortestID) characters of its id", at: text,
                remedy: "'ubiquity versions' lists them")
        }
        // Resolved versions are in no folder, but can still be restored.
        var all = others, failure: (any Error)?
        do { all += try await engine.versions.allVersions(of: row.id) } catch { failure = error }
        let found = Dictionary(all.map { ($0.id, $0) }) { first, _ in first }.values
            .filter { $0.id.description.hasPrefix(text.lowercased()) }
        // The version may be one of those that the cloud did not return. For a file the cloud does not know, there are
        // none.
        if found.isEmpty, let failure, UbiquityError.from(failure).code != .notFound { throw failure }
        guard found.count == 1, let only = found.first else {
            throw UbiquityError(
                found.isEmpty ? .notFound : .invalid, found.isEmpty ? "no such version" : "several versions match",
                at: text, remedy: "'ubiquity versions' lists them")
        }
        return only
    }

    /// Smallest number of digits that may abbreviate an id.
    private static let shortestID = 4
}
