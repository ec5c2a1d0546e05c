/// The deletion of a folder with its contents. It is uploaded in several commits, innermost items first.
package enum FolderDeletion {
    /// Deletions by one device at most this far apart, in seconds, count as one.
    private static let gap = 10.0

    /// The items in a folder that were deleted with it. It omits items deleted earlier, and items whose name another
    /// had taken by then.
    ///
    /// - Parameter inside: the deleted items in the folder and in the deleted folders below it.
    package static func members(of folder: TrashedItem, among inside: [TrashedItem]) -> Set<ItemID> {
        var last = folder, members = Set<ItemID>(), names = Set<Place>()
        for child in inside.sorted(by: { ($0.deletedAt, $0.item.revision) > ($1.deletedAt, $1.item.revision) })
        where child.device == folder.device {
            guard isOne(child, last) else { break }
            last = child
            let place = Place(parent: child.item.parent, name: child.item.name)
            if names.insert(place).inserted { members.insert(child.item.id) }
        }
        return members
    }

    /// Whether one deletion removed both items.
    ///
    /// - Parameter later: the more recently deleted item of the two.
    package static func isOne(_ item: TrashedItem, _ later: TrashedItem) -> Bool {
        item.device == later.device && item.deletedAt >= later.deletedAt.advanced(bySeconds: -gap)
    }
}
