import UbiquityContent
import UbiquityControl
import UbiquityCoordination
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquitySystem
import UbiquityVFS
import UbiquityWire

// Versions and the trash, for the commands.
extension MountController {
    /// A file's or package's row. Throws for items without versions.
    private func file(at path: String) async throws -> ItemRow {
        let row = try await pool.run { [self] in try parts.tree.row(at: path) }
        if row.kind == .file || parts.index.isPackage(row) { return row }
        // A package in conflict may have become a plain folder since.
        let conflicts = try await pool.run { [index = parts.index] in try index.read { try $0.conflicts(of: row.id) } }
        guard !conflicts.isEmpty else {
            throw UbiquityError(.invalid, "only files and packages have versions", at: path)
        }
        return row
    }

    func versions(_ request: PathsRequest) async throws -> VersionsReport {
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

    private func report(_ version: RemoteVersion, name: String?) -> VersionReport {
        let kind: VersionReport.Kind =
            switch version.kind {
            case .current: .current
            case .history: .history
            case .conflict: .conflict
            case .resolved: .resolved
            }
        return VersionReport(
            id: version.id.description, kind: kind, name: kind == .current ? nil : name,
            displayName: version.savedName.description, device: version.content.deviceName,
            modifiedAt: seconds(version.modifiedAt), size: version.content.size,
            isAvailable: version.content.isAvailable, mergeError: merges.failure(of: version.id))
    }

    /// The versions with their names in `.versions`.
    private func named(_ versions: [RemoteVersion], of row: ItemRow) -> [(ItemName, RemoteVersion)] {
        parts.fileSystem.versionNames.named(versions, of: row.id, row.entry?.name ?? ItemName(stored: []))
    }

    /// The version that the user named: by its name in `.versions`, its id, or the beginning of its id.
    private func version(_ text: String, of row: ItemRow) async throws -> RemoteVersion {
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

    // MARK: Deciding

    /// Throws on a read-only mount: commands must not do what programs may not.
    private func requireWritable() throws {
        guard !parts.settings.options.contains(where: { $0.split(separator: ",").contains("ro") }) else {
            throw UbiquityError(.notPermitted, "this mount is read-only", at: parts.settings.mountPoint)
        }
    }

    func resolve(_ request: ResolveRequest) async throws -> ResolveReport {
        try requireWritable()
        let row = try await file(at: request.path)
        return try await claiming(row, for: request.process) { [self] in try await resolve(request, row) }
    }

    private func resolve(_ request: ResolveRequest, _ row: ItemRow) async throws -> ResolveReport {
        let conflicts = try await unresolved(row)
        switch request.keep {
        case ResolveRequest.current:
            return try await keepCurrent(conflicts, request, row)
        case ResolveRequest.both:
            var report = ResolveReport(path: request.path, resolved: conflicts.count)
            for conflict in conflicts { report.kept.append(try await keep(conflict, of: row)) }
            for (member, conflicts) in try await unresolvedMembers(of: row) {
                for conflict in conflicts { report.kept.append(try await keep(conflict, of: member)) }
                report.resolved += conflicts.count
            }
            return report
        default:
            let chosen = try await version(request.keep, of: row)
            if chosen.kind == .current { return try await keepCurrent(conflicts, request, row) }
            try requireAvailable(chosen)
            if row.kind == .directory { try await putBack(chosen, of: row) }
            let others = conflicts.filter { $0.id != chosen.id }
            let restored = row.kind == .file ? [(kind: PendingVersionAction.Kind.restore, version: chosen.id)] : []
            let new = try await decide(restored + others.map { (.resolve, $0.id) }, of: row.key)
            let members = try await resolveMembers(of: row)
            let awaits = try await waitUntilShown(row, new)
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
        _ = try await decide(conflicts.map { (.resolve, $0.id) }, of: row.key)
        report.resolved += try await resolveMembers(of: row)
        return report
    }

    /// - Returns: the number of conflicts that the members had.
    private func resolveMembers(of row: ItemRow) async throws -> Int {
        var count = 0
        for (member, conflicts) in try await unresolvedMembers(of: row) {
            _ = try await decide(conflicts.map { (.resolve, $0.id) }, of: member.key)
            count += conflicts.count
        }
        return count
    }

    /// Members of a package that are in conflict by themselves. The package is one document now, and is decided about
    /// as one.
    private func unresolvedMembers(of row: ItemRow) async throws -> [(ItemRow, [RemoteVersion])] {
        // A plain folder may have been a package when it came into conflict; its contents are separate documents now.
        guard row.kind == .directory, parts.index.isPackage(row) else { return [] }
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

    /// Keeps a conflict version as a document beside the file: "report (laptop).txt".
    private func keep(_ version: RemoteVersion, of row: ItemRow) async throws -> String {
        guard let entry = row.entry else { throw UbiquityError(.notFound, "the file is gone") }
        let name = VersionNames.document(version, of: entry.name)
        // A synced file stays synced under an ignored name, but a new document does not: other devices would have
        // neither the version nor the document.
        if !row.isExcluded {
            try await pool.run { [parts] in
                // A rule may have just been written.
                parts.fileSystem.refreshIgnoreFiles()
                try parts.index.requireSynced(name, row.kind, in: entry.parent)
            }
        }
        return try await place(version, of: row, in: entry.parent, named: name, orNumbered: true)
    }

    func restore(_ request: RestoreRequest) async throws -> RestoreReport {
        try requireWritable()
        let row = try await file(at: request.path)
        let chosen = try await version(request.version, of: row)
        guard chosen.kind != .current else {
            throw UbiquityError(
                .invalid, "it is the current version", at: request.version, remedy: "'cp' makes a copy of it")
        }
        try requireAvailable(chosen)
        guard let target = request.to else {
            let awaits = try await claiming(row, for: request.process) { [self] in
                guard row.kind == .directory else {
                    return try await waitUntilShown(row, decide([(.restore, chosen.id)], of: row.key))
                }
                try await putBack(chosen, of: row)
                return try await waitUntilShown(row, nil)
            }
            return RestoreReport(path: request.path, version: chosen.id.description, awaits: awaits)
        }
        let (folder, name) = try await pool.run { [self] in try newPlace(target) }
        let path = try await place(chosen, of: row, in: folder.key, named: name, orNumbered: false)
        return RestoreReport(path: path, version: chosen.id.description)
    }

    /// The folder and the name of a new path. Throws `.notFound`, `.alreadyExists`.
    private func newPlace(_ path: String) throws -> (ItemRow, ItemName) {
        var names = try ItemTree.names(of: path)
        guard !names.contains(.versionsFolder) else {
            throw UbiquityError(.notPermitted, "a '.versions' folder contains only versions", at: path)
        }
        guard let name = names.popLast() else { throw UbiquityError(.alreadyExists, "the path exists", at: path) }
        guard let folder = try parts.index.read({ try $0.row(path: names) }), folder.kind == .directory,
            !folder.isDeleted
        else { throw UbiquityError(.notFound, "the target folder does not exist", at: path) }
        guard try parts.index.child(of: folder.key, named: name) == nil else {
            throw UbiquityError(.alreadyExists, "an item of this name exists", at: path)
        }
        return (folder, name)
    }

    /// Downloads a version and places it as a document.
    private func place(
        _ version: RemoteVersion, of row: ItemRow, in folder: ItemKey, named name: ItemName, orNumbered: Bool
    ) async throws -> String {
        if row.kind == .directory {
            return try await placePackage(version, of: row, in: folder, named: name, orNumbered: orNumbered)
        }
        let content = try await engine.versionDownloads.copy(version)
        return try await pool.run(evenIfCancelled: true) { [self] in
            let placed: ItemName
            do {
                guard let parent = try parts.index.row(key: folder) else {
                    throw UbiquityError(.notFound, "the folder is gone")
                }
                var candidate = name, number = 2
                while orNumbered, try parts.index.child(of: folder, named: candidate) != nil {
                    candidate = name.numbered(number)
                    number += 1
                }
                try parts.contents.noteReplacement(content)
                let place = VersionPlace(parent: parent.ino, name: candidate, isExclusive: true)
                _ = try parts.index.place(version, of: row.key, content: content, ino: nil, at: place)
                placed = candidate
            } catch {
                try parts.contents.remove(content)
                throw error
            }
            let above = try parts.tree.path(of: folder) ?? ""
            return above.isEmpty ? placed.description : "\(above)/\(placed)"
        }
    }

    // MARK: The trash

    func trash(_ request: TrashRequest) async throws -> TrashReport {
        var folder: ItemID?
        if let text = request.folder {
            guard let id = ItemID(hex: text) else { throw UbiquityError(.invalid, "not an item's id", at: text) }
            folder = id
        }
        let page = try await engine.trash.items(in: folder, limit: request.limit)
        return TrashReport(
            items: page.items.map { entry in
                TrashEntry(
                    id: entry.item.id.description, path: entry.path, kind: "\(entry.item.kind)",
                    size: entry.item.content?.size ?? 0, deletedAt: seconds(entry.deletedAt),
                    conflicts: entry.item.conflictCount)
            }, hasMore: page.hasMore)
    }

    /// How long a restored item is waited for; after that it is still on its way.
    private static let restoredLimit = Duration.seconds(10)

    func restoreFromTrash(_ request: TrashRestoreRequest) async throws -> TrashRestoreReport {
        try requireWritable()
        guard let item = try await trashed(request.item) else {
            if let report = try await restoreWhatIsLeft(of: request) { return report }
            throw UbiquityError(
                .notFound, "no deleted item has this name or id, or it is no longer kept", at: request.item,
                remedy: "'ubiquity trash list' lists the deleted items")
        }
        var place: Place?
        if let target = request.to {
            let (folder, name) = try await pool.run { [self] in try newPlace(target) }
            guard !folder.dirty.contains(.created) else {
                throw UbiquityError(.busy, "the target folder has not been uploaded yet", at: target)
            }
            place = Place(parent: folder.id, name: name)
        }
        let count: Int
        do { count = try await engine.trash.undelete(item, to: place) } catch let error as UbiquityError
            where error.code == .notFound
        {
            // The cloud's answer names the cloud as its place.
            throw UbiquityError(.notFound, error.message, at: request.to ?? item.path, remedy: error.remedy)
        }
        // Folders restored with the item are in the feed.
        let isThere = try await pool.run { [self] in
            let row = try parts.index.read { try $0.row(id: item.item.id) }
            return try row.flatMap { try parts.tree.path(of: $0.key) } != nil
        }
        if !isThere { _ = try await readFeedToEnd(within: Self.restoredLimit) }
        let path = try await pool.run { [self] in try shownPath(of: item.item.id, wanted: request.to ?? item.path) }
        return TrashRestoreReport(path: path, items: count)
    }

    /// The path of a restored item. Its folder may have been restored too and not be here yet. Then it is the intended
    /// path, with the name that the cloud has given.
    private func shownPath(of id: ItemID, wanted: String) throws -> String {
        let (row, record) = try parts.index.read { (try $0.row(id: id), try $0.remote(id: id)) }
        if let path = try row.flatMap({ try parts.tree.path(of: $0.key) }) { return path }
        guard let name = record?.name.description, name != Path.name(of: wanted) else { return wanted }
        return wanted.contains("/") ? Path.join(Path.parent(of: wanted), name) : name
    }

    /// Restores the deleted contents of a folder that exists; nil if it does not, or nothing was deleted.
    private func restoreWhatIsLeft(of request: TrashRestoreRequest) async throws -> TrashRestoreReport? {
        let folder = request.item, left = try await engine.trash.items(deletedIn: folder)
        guard !left.isEmpty else { return nil }
        guard request.to == nil else {
            throw UbiquityError(
                .invalid, "the folder itself was not deleted, only items in it", at: folder,
                remedy: "omit the new path to restore them there, or restore each one separately")
        }
        return TrashRestoreReport(path: folder, items: try await engine.trash.undelete(left))
    }

    private func trashed(_ text: String) async throws -> TrashedItem? {
        if let found = try await engine.trash.item(at: text) { return found }
        guard let id = ItemID(hex: text) else { return nil }
        return try await engine.trash.item(id)
    }
}
