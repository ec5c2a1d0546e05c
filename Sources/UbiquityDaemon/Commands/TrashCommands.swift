import UbiquityControl
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquitySystem
import UbiquityWire

/// Commands on the trash: `trash list`, `trash restore`.
struct TrashCommands: MountCommand {
    let parts: MountParts

    func list(_ request: TrashRequest) async throws -> TrashReport {
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
                    size: entry.item.content?.size ?? 0, deletedAt: entry.deletedAt.seconds,
                    conflicts: entry.item.conflictCount)
            }, hasMore: page.hasMore)
    }

    /// How long a restored item is waited for; after that it is still on its way.
    private static let restoredLimit = Duration.seconds(10)

    func restore(_ request: TrashRestoreRequest) async throws -> TrashRestoreReport {
        try requireWritable()
        guard let item = try await trashed(request.item) else {
            if let report = try await restoreWhatIsLeft(of: request) { return report }
            throw UbiquityError(
                .notFound, "no deleted item has this name or id, or it is no longer kept", at: request.item,
                remedy: "'ubiquity trash list' lists the deleted items")
        }
        var place: Place?
        if let target = request.to {
            let (folder, name) = try await pool.run { [self] in try VersionPlacement(parts: parts).newPlace(target) }
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
        if !isThere { _ = try await FeedEnd(parts: parts).reach(within: Self.restoredLimit) }
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
