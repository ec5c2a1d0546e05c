internal import UbiquityCore
internal import UbiquityIndex

/// Folders that another device deleted while they contain items that never leave this device.
struct AbandonedFolders {
    let transaction: IndexTransaction
    let now: Timestamp
    let trustsPrivileges: Bool

    /// The contents of a folder that the cloud has deleted.
    enum Contents {
        /// Nothing, or only items that the feed will remove.
        case nothing
        /// Besides those, excluded items.
        case excluded
        /// An item that was changed here, or is being written. A folder with many items counts as that, so that no
        /// check costs much. So does an item that is not a folder.
        case changed
    }

    func contents(in folder: ItemRow) throws -> Contents {
        guard folder.kind == .directory else { return .changed }
        var waiting = [folder], seen = 0, contents = Contents.nothing
        while let next = waiting.popLast() {
            if next.isExcluded {
                contents = .excluded
                continue
            }
            guard next.dirty.isEmpty, !next.isWriting else { return .changed }
            guard next.kind == .directory else { continue }
            let children = try transaction.children(of: next.key, after: nil, limit: SyncLimits.abandonedItems)
            waiting += children
            seen += children.count
            guard seen < SyncLimits.abandonedItems else { return .changed }
        }
        return contents
    }

    /// Keeps a folder that contains only excluded items, on this device only. It goes when they are gone; a new item in
    /// it restores the folder.
    /// - Returns: false if it contains other items.
    func linger(_ row: ItemRow) throws -> Bool {
        guard try !transaction.hasSyncedChildren(row.key) else { return false }
        var next = row
        next.flags.insert(.lingering)
        try transaction.update(next, before: row)
        return true
    }

    /// Removes the placeholders of another cloud from a deleted folder that contains nothing else.
    /// - Returns: the backing files to drop.
    func removePlaceholders(in folder: ItemRow) throws -> [ContentID] {
        guard folder.kind == .directory else { return [] }
        let children = try transaction.children(of: folder.key, after: nil, limit: SyncLimits.abandonedItems)
        guard children.count < SyncLimits.abandonedItems,
            try children.allSatisfy({ try $0.dirty.isEmpty && !$0.isLinked && transaction.isOfAnotherCloud($0) })
        else { return [] }
        for child in children {
            try transaction.delete(child)
            transaction.note(.removed, before: child, after: nil)
        }
        return children.compactMap(\.content)
    }

    /// Removes the folders that are empty by now.
    func remove(limit: Int) throws {
        for row in try transaction.lingering(limit: limit) {
            guard row.dirty.isEmpty, try !transaction.hasChildren(row.key),
                try transaction.remote(id: row.id)?.isDeleted ?? true
            else { continue }
            try transaction.delete(row)
            transaction.note(.removed, before: row, after: nil)
            try transaction.forgetRemote(row.id)
        }
    }

    /// Gives the record's identity to a local folder of that name: one that remained for excluded items, or one that an
    /// ignore file excludes. The items in it stay local.
    func adopt(_ item: RemoteItem) throws -> Bool {
        guard item.kind == .directory, let parent = try transaction.row(id: item.parent), !parent.isExcluded,
            let other = try transaction.child(of: parent.key, named: item.name), other.kind == .directory,
            other.flags.contains(.lingering) || isIgnoredByFile(other, item.name), other.dirty.isEmpty
        else { return false }
        try transaction.forgetRemote(other.id)
        // Changed items in it restore the old folder under another name, and leave with it.
        try transaction.awaitFolder(other.id)
        var row = other
        row.id = item.id
        row.flags.subtract([.lingering, .excluded, .madeHere])
        if other.isExcluded { try keepOwn(&row, item) }
        let shown = Overlay.metadata(
            row, old: nil, new: item, keepTimes: false, trustsPrivileges: trustsPrivileges)
        try transaction.update(shown, before: other)
        transaction.note(.attributes, before: other, after: shown)
        return true
    }

    /// Keeps the folder's attributes and the narrower one of both modes, on all devices.
    private func keepOwn(_ row: inout ItemRow, _ item: RemoteItem) throws {
        let arriving = trustsPrivileges ? item.mode : Privileges.arriving(item.mode, over: row.mode)
        if row.mode & arriving != arriving { try transaction.markDirty(&row, .mode, now: now) }
        row.mode &= item.mode
        if !row.xattrs.isEmpty { try transaction.markDirty(&row, .xattrs, now: now) }
    }

    /// A rule of an ignore file also covers the items in a folder. A rule of the standard list is about names only.
    private func isIgnoredByFile(_ row: ItemRow, _ name: ItemName) -> Bool {
        row.isExcluded && !transaction.isLocalEverywhere(name, row.kind)
    }
}
