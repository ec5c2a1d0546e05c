package import UbiquityCore

/// Hard links. An item has one entry of its own; each further name is an item of kind `hardLink` that refers to it by
/// id. Links are created, moved, deleted and sent like any item, and the cloud decides about each separately. The names
/// of one item must all be synced or all excluded (else EXDEV: copy instead).
///
/// When the item's own entry is removed while other names exist, the item takes over the place of one of them.
package struct HardLinks: TransactionPart {
    let transaction: IndexTransaction

    /// Makes a hard link to an item, by inode numbers.
    func link(ino: UInt64, in parent: UInt64, named name: ItemName) throws -> ItemRow {
        let folder = try tree.liveDirectory(ino: parent)
        guard let row = try transaction.row(ino: ino), !row.isDeleted else {
            throw UbiquityError(.stale, "the file is gone")
        }
        guard row.kind != .directory else { throw UbiquityError(.notPermitted, "a folder cannot have hard links") }
        guard try transaction.child(of: folder.key, named: name) == nil else {
            throw UbiquityError(.alreadyExists, "an item with this name exists already", at: "\(name)")
        }
        return try link(row, in: folder, named: name)
    }

    func link(_ row: ItemRow, in folder: ItemRow, named name: ItemName) throws -> ItemRow {
        let now = index.timekeeper.now()
        let place = ItemRow.Entry(parent: folder.key, name: name)
        let staysLocal = try row.isExcluded || exclusion.keepsLocal(name, row.kind, in: folder)
        if !row.kind.isSpecial { try requireSameSide(row, folder, name) }
        try insertLink(to: row, at: place, isExcluded: staysLocal, now: now)
        try tree.touchFolder(folder, now: now, isSynced: !staysLocal || row.kind.isSpecial)
        let linked = try touchLinked(row.id, now: now) ?? row
        // A file that is excluded only for its name, such as a temporary file, is uploaded under its other name.
        guard row.isExcluded, !row.kind.isSpecial, try !exclusion.keepsLocal(name, row.kind, in: folder) else {
            return linked
        }
        return try changePlaces(linked, with: place, now: now)
    }

    /// Throws if one name lies in an excluded folder and the other does not.
    private func requireSameSide(_ row: ItemRow, _ folder: ItemRow, _ name: ItemName) throws {
        guard let entry = row.entry, let other = try transaction.row(key: entry.parent) else { return }
        let isLocal = other.isExcluded || entry.name.isAlwaysLocal
        // A backup's name belongs to this device alone. A program that cannot link its backup renames or copies it.
        let leavesSync = try !row.isExcluded && exclusion.keepsLocal(name, row.kind, in: folder)
        guard isLocal == (folder.isExcluded || name.isAlwaysLocal), !leavesSync else {
            throw UbiquityError(.crossesContainers, "a hard link cannot connect synced and excluded items")
        }
    }

    private func insertLink(to row: ItemRow, at place: ItemRow.Entry, isExcluded: Bool, now: Timestamp) throws {
        let number = transaction.newNumber()
        var link = ItemRow(
            key: ItemKey(number), ino: UInt64(number), id: transaction.newItemID(), kind: .hardLink, mode: 0o777,
            uid: row.uid, gid: row.gid, size: 0, createdAt: now, modifiedAt: now, changedAt: now,
            linkTarget: row.id.bytes, xattrs: [], localXattrs: [], entry: place, version: nil, content: nil,
            contentState: .none, flags: .madeHere, dirty: [], dirtyOrder: 0, dirtyBase: .zero, dirtyAt: now,
            generation: 0, nextVersion: nil, usedAt: now)
        if isExcluded { link.flags.insert(.excluded) }
        try transaction.pins.inheritPin(&link)
        try tree.markDirty(&link, .created, now: now)
        try transaction.insert(link)
        transaction.note(.added, before: nil, after: link)
        index.tunnels.noteTaker(link.key, of: place)
    }

    /// Swaps the item's entry with that of a link to it.
    private func changePlaces(_ row: ItemRow, with place: ItemRow.Entry, now: Timestamp) throws -> ItemRow {
        guard let old = row.entry, let link = try transaction.child(of: place.parent, named: place.name) else {
            return row
        }
        var away = link
        away.entry = nil
        try transaction.update(away, before: link)
        let moved = try transaction.renaming.relocate(row, to: place, excluded: false, now: now)
        var exchanged = away
        exchanged.entry = old
        try transaction.update(exchanged, before: away)
        transaction.note(.moved, before: link, after: exchanged)
        return moved
    }

    /// Updates the item's ctime and `linked` flag when a name was added or removed.
    ///
    /// - Returns: The item as it is now; nil if it does not exist.
    @discardableResult
    package func touchLinked(_ id: ItemID?, now: Timestamp) throws -> ItemRow? {
        guard let id, let before = try items.row(id: id) else { return nil }
        var row = before
        if try items.hasLinks(id) {
            row.flags.insert(.linked)
        } else {
            row.flags.remove(.linked)
        }
        row.changedAt = now
        guard !row.isDeleted else { return row }
        try transaction.update(row, before: before)
        transaction.note(.attributes, before: before, after: row)
        return row
    }

    /// Moves an item to the place of one of its other names, when its own entry is removed.
    ///
    /// - Parameter inside: Names that are being removed too.
    /// - Returns: False if there is no other name.
    package func moveToOtherName(_ row: ItemRow, than inside: Set<ItemKey> = [], now: Timestamp) throws -> Bool {
        guard row.isLinked else { return false }
        for link in try items.links(to: row.id) where !inside.contains(link.key) {
            guard let place = link.entry, let folder = try transaction.row(key: place.parent) else { continue }
            try tree.remove(link, now: now)
            let local = try row.isExcluded ? exclusion.keepsLocal(place.name, row.kind, in: folder) : link.isExcluded
            // A placeholder cannot be excluded. Below an ignored name it may stay synced; in an excluded folder it may
            // not.
            let isExcluded = local && (row.isExcluded || row.canLeaveSync)
            guard isExcluded || !folder.isExcluded else { continue }
            guard let current = try transaction.row(key: row.key) else { return false }
            let moved = try transaction.renaming.relocate(current, to: place, excluded: isExcluded, now: now)
            try touchLinked(moved.id, now: now)
            return true
        }
        return false
    }

    /// Points the links to the new id of the same item.
    package func retargetLinks(from old: ItemID, to new: ItemID) throws {
        for link in try items.allLinks(to: old) {
            var next = link
            next.linkTarget = new.bytes
            try transaction.update(next, before: link)
        }
    }

    /// Includes the links of an item that is now synced, except those that are excluded for themselves.
    func includeLinks(of row: ItemRow, now: Timestamp) throws {
        guard row.isLinked else { return }
        for link in try items.links(to: row.id) where link.isExcluded {
            guard let place = link.entry, let folder = try transaction.row(key: place.parent),
                try !exclusion.keepsLocal(place.name, row.kind, in: folder)
            else { continue }
            var included = link
            try exclusion.include(&included, now: now)
            try transaction.update(included, before: link)
            transaction.note(.attributes, before: link, after: included)
        }
    }
}
