import UbiquityControl
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquitySystem
import UbiquityVFS

/// Commands on versions: `versions`, `resolve`, `restore`.
struct VersionCommands: MountCommand {
    let parts: MountParts
    private let catalog: VersionCatalog

    init(parts: MountParts, merges: MergeRunner) {
        self.parts = parts
        catalog = VersionCatalog(parts: parts, merges: merges)
    }

    private var decisions: VersionDecisions { VersionDecisions(parts: parts) }
    private var packages: PackageVersions { PackageVersions(parts: parts) }
    var additions: VersionAdditions { VersionAdditions(parts: parts, catalog: catalog) }
    var syncControl: SyncControlCommands { SyncControlCommands(parts: parts, catalog: catalog) }
    private var placement: VersionPlacement { VersionPlacement(parts: parts) }

    func list(_ request: PathsRequest) async throws -> VersionsReport { try await catalog.report(request) }

    func resolve(_ request: ResolveRequest) async throws -> ResolveReport {
        try requireWritable()
        let row = try await catalog.file(at: request.path)
        return try await decisions.claiming(row, for: request.process) { [self] in try await resolve(request, row) }
    }

    private func resolve(_ request: ResolveRequest, _ row: ItemRow) async throws -> ResolveReport {
        let conflicts = try await unresolved(row)
        switch request.keep {
        case ResolveRequest.current:
            return try await keepCurrent(conflicts, request, row)
        case ResolveRequest.both:
            var report = ResolveReport(path: request.path, resolved: conflicts.count)
            for conflict in conflicts { report.kept.append(try await placement.keep(conflict, of: row)) }
            for (member, conflicts) in try await unresolvedMembers(of: row) {
                for conflict in conflicts { report.kept.append(try await placement.keep(conflict, of: member)) }
                report.resolved += conflicts.count
            }
            return report
        default:
            let chosen = try await catalog.version(request.keep, of: row)
            if chosen.kind == .current { return try await keepCurrent(conflicts, request, row) }
            try requireAvailable(chosen)
            if row.kind == .directory { try await packages.putBack(chosen, of: row) }
            let others = conflicts.filter { $0.id != chosen.id }
            let restored = row.kind == .file ? [(kind: PendingVersionAction.Kind.restore, version: chosen.id)] : []
            let new = try await decisions.decide(restored + others.map { (.resolve, $0.id) }, of: row.key)
            let members = try await resolveMembers(of: row)
            let awaits = try await decisions.waitUntilShown(row, new)
            return ResolveReport(path: request.path, resolved: conflicts.count + members, awaits: awaits)
        }
    }

    /// The unresolved conflicts. If there are more than the record contains, asks the cloud; if it is unreachable,
    /// returns the known ones.
    private func unresolved(_ row: ItemRow) async throws -> [RemoteVersion] {
        let (known, count) = try await pool.run { [index = parts.index] in
            try index.read { (try $0.conflicts(of: row.id), try $0.conflictCount(of: row)) }
        }
        guard row.kind == .file, count > known.count else { return known }
        return try await engine.versions.otherVersions(of: row.id).filter { $0.kind == .conflict }
    }

    private func keepCurrent(
        _ conflicts: [RemoteVersion], _ request: ResolveRequest, _ row: ItemRow
    ) async throws -> ResolveReport {
        var report = ResolveReport(path: request.path, resolved: conflicts.count)
        _ = try await decisions.decide(conflicts.map { (.resolve, $0.id) }, of: row.key)
        report.resolved += try await resolveMembers(of: row)
        return report
    }

    /// - Returns: the number of conflicts that the members had.
    private func resolveMembers(of row: ItemRow) async throws -> Int {
        var count = 0
        for (member, conflicts) in try await unresolvedMembers(of: row) {
            _ = try await decisions.decide(conflicts.map { (.resolve, $0.id) }, of: member.key)
            count += conflicts.count
        }
        return count
    }

    /// Members of a package that are in conflict by themselves. The package is one document now, and is decided about
    /// as one.
    private func unresolvedMembers(of row: ItemRow) async throws -> [(ItemRow, [RemoteVersion])] {
        // A plain folder may have been a package when it came into conflict; its contents are separate documents now.
        guard row.kind == .directory, index.isPackage(row) else { return [] }
        let members = try await pool.run { [index = parts.index] in
            try index.read { try $0.itemsInConflict(below: row.key) }
        }
        var found = [(ItemRow, [RemoteVersion])]()
        for member in members { found.append((member, try await unresolved(member))) }
        return found
    }

    private func requireAvailable(_ version: RemoteVersion) throws {
        if let error = version.content.whyNotHere { throw error }
    }

    func restore(_ request: RestoreRequest) async throws -> RestoreReport {
        try requireWritable()
        let row = try await catalog.file(at: request.path)
        let chosen = try await catalog.version(request.version, of: row)
        guard chosen.kind != .current else {
            throw UbiquityError(
                .invalid, "it is the current version", at: request.version, remedy: "'cp' makes a copy of it")
        }
        try requireAvailable(chosen)
        guard request.to != nil || engine.appVersions.version(chosen.id) == nil else {
            throw UbiquityError(
                .notSupported, "a program has added the version, and it is only on this device", at: request.version,
                remedy: "copy it from '.versions' over the file")
        }
        guard let target = request.to else {
            let awaits = try await decisions.claiming(row, for: request.process) { [self] in
                guard row.kind == .directory else {
                    let new = try await decisions.decide([(.restore, chosen.id)], of: row.key)
                    return try await decisions.waitUntilShown(row, new)
                }
                try await packages.putBack(chosen, of: row)
                return try await decisions.waitUntilShown(row, nil)
            }
            return RestoreReport(path: request.path, version: chosen.id.description, awaits: awaits)
        }
        let (folder, name) = try await pool.run { [self] in try placement.newPlace(target) }
        let path = try await placement.place(chosen, of: row, in: folder.key, named: name, orNumbered: false)
        return RestoreReport(path: path, version: chosen.id.description)
    }
}
