internal import UbiquityCore
internal import UbiquityIndex

/// Folders that were deleted elsewhere while something that never leaves this device lies in them.
struct AbandonedFolders {
    let transaction: IndexTransaction
    let now: Timestamp
    let trustsPrivileges: Bool

    /// What lies in a folder that the cloud has no more.
    enum Rest {
        /// Nothing that would not leave with the feed.
        case nothing
        /// Beside that, what is kept local.
        case keptLocal
        /// Something that was changed here, or is being. A folder with much in it counts as that, so that no look costs
        /// much; so does what is no folder.
        case changed
    }

    func rest(in folder: ItemRow) throws -> Rest {
        guard folder.kind == .directory else { return .changed }
        var waiting = [folder], seen = 0, rest = Rest.nothing
        while let next = waiting.popLast() {
            if next.isExcluded {
                rest = .keptLocal
                continue
            }
            guard next.dirty.isEmpty, !next.isWriting else { return .changed }
            guard next.kind == .directory else { continue }
            let children = try transaction.children(of: next.key, after: nil, limit: SyncLimits.abandonedItems)
            waiting += children
            seen += children.count
            guard seen < SyncLimits.abandonedItems else { return .changed }
        }
        return rest
    }

    /// A folder in which nothing is left but what is kept local stays for that, on this device only, until that is gone
    /// or something new in it brings the folder back.
    /// - Returns: false if there is more in it.
    func linger(_ row: ItemRow) throws -> Bool {
        guard try !transaction.hasSyncedChildren(row.key) else { return false }
        var next = row
        next.flags.insert(.lingering)
        try transaction.update(next, before: row)
        return true
    }

    /// Removes the folders that nothing keeps any more.
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

    /// A folder of that name is here: what was kept for local things, or is ignored by an ignore file, is that one now.
    /// What is in it stays local.
    func adopt(_ item: RemoteItem) throws -> Bool {
        guard item.kind == .directory, let parent = try transaction.row(id: item.parent), !parent.isExcluded,
            let other = try transaction.child(of: parent.key, named: item.name), other.kind == .directory,
            other.flags.contains(.lingering) || isIgnoredByFile(other, item.name), other.dirty.isEmpty
        else { return false }
        try transaction.forgetRemote(other.id)
        // What has been changed in it brings it back, at another name: that leaves with it.
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

    /// The folder is no more open than it was here, and keeps its attributes, on all devices.
    private func keepOwn(_ row: inout ItemRow, _ item: RemoteItem) throws {
        let arriving = trustsPrivileges ? item.mode : Privileges.arriving(item.mode, over: row.mode)
        if row.mode & arriving != arriving { try transaction.markDirty(&row, .mode, now: now) }
        row.mode &= item.mode
        if !row.xattrs.isEmpty { try transaction.markDirty(&row, .xattrs, now: now) }
    }

    /// Such a rule holds for all that is in a folder too; one of the standard list is about names.
    private func isIgnoredByFile(_ row: ItemRow, _ name: ItemName) -> Bool {
        row.isExcluded && !transaction.isLocalEverywhere(name, row.kind)
    }
}
