package import UbiquityCore

// Hard links. An item has its entry, and further names are items of kind `hardLink` that lead to it by its id: each is
// made, moved, deleted and sent like any item, and the cloud decides about each by itself. What has several names does
// not cross the border of what is kept local (EXDEV: copy instead).
//
// When the item's own entry goes while other names are left, it takes the place of one of them.

extension IndexReader {
    /// What stands at a name: the row itself, or what the link leads to, if that is here.
    package func named(_ row: ItemRow) throws -> ItemRow? {
        guard let id = row.linkedID else { return row }
        guard let linked = try self.row(id: id), !linked.isDeleted else { return nil }
        return linked
    }

    /// The hard links to an item that have a place, the ones that are synced first.
    package func links(to id: ItemID) throws -> [ItemRow] {
        try rows(Self.linksToItem, [.bytes(id.bytes)]).filter { $0.entry != nil }
    }

    /// The same, with those that are deleted or wait for their place.
    package func allLinks(to id: ItemID) throws -> [ItemRow] { try rows(Self.linksToItem, [.bytes(id.bytes)]) }

    private static let linksToItem = RowCoding.select("items.kind = 4 AND items.link = ?")
        + " ORDER BY items.flags & 4, items.key"

    /// Whether a link that has a place leads to the item.
    func hasLinks(_ id: ItemID) throws -> Bool {
        try exists(
            "SELECT 1 FROM items JOIN entries ON entries.item = items.key WHERE kind = 4 AND link = ? LIMIT 1",
            [.bytes(id.bytes)])
    }

    /// How many names an item has besides its entry.
    package func linkCount(of row: ItemRow) throws -> Int {
        guard row.isLinked else { return 0 }
        return Int(
            try number(
                "SELECT count(*) FROM items JOIN entries ON entries.item = items.key WHERE kind = 4 AND link = ?",
                [.bytes(row.id.bytes)]) ?? 0)
    }

    /// Records of links to an item that wait for it.
    package func linksWaiting(for id: ItemID) throws -> [ItemID] {
        var result = [ItemID]()
        try db.run(
            "SELECT id FROM remote WHERE kind = 4 AND link = ? AND deleted = 0 AND unsettled IN (1, 3)",
            [.bytes(id.bytes)]
        ) { if let id: ItemID = $0.id(0) { result.append(id) } }
        return result
    }
}

extension ItemIndex {
    /// Gives a file, symlink or special file (by inode number) another name in the folder `parent`.
    /// Throws `.stale` if it is gone, what `create` throws, `.notPermitted` for a folder, `.crossesContainers` (EXDEV)
    /// if one of the names would lie in what is kept local and the other not.
    /// - Returns: the item.
    package func link(ino: UInt64, in parent: UInt64, named name: ItemName) throws -> ItemRow {
        try requireRoom(for: .all)
        return try write(.local) { transaction in
            let folder = try transaction.liveDirectory(ino: parent)
            guard let row = try transaction.row(ino: ino), !row.isDeleted else {
                throw UbiquityError(.stale, "the file is gone")
            }
            guard row.kind != .directory else { throw UbiquityError(.notPermitted, "a folder has one name") }
            guard try transaction.child(of: folder.key, named: name) == nil else {
                throw UbiquityError(.alreadyExists, "there is an item of this name", at: "\(name)")
            }
            return try transaction.link(row, in: folder, named: name)
        }
    }
}

extension IndexTransaction {
    fileprivate func link(_ row: ItemRow, in folder: ItemRow, named name: ItemName) throws -> ItemRow {
        let now = index.timekeeper.now()
        let place = ItemRow.Entry(parent: folder.key, name: name)
        let staysLocal = try row.isExcluded || keepsLocal(name, row.kind, in: folder)
        if !row.kind.isSpecial { try requireSameSide(row, folder, name) }
        try insertLink(to: row, at: place, isExcluded: staysLocal, now: now)
        try touchFolder(folder, now: now, isSynced: !staysLocal || row.kind.isSpecial)
        let linked = try touchLinked(row.id, now: now) ?? row
        // A file that is kept local only for its name, as a temporary one is, goes up under the one that is not.
        guard row.isExcluded, !row.kind.isSpecial, try !keepsLocal(name, row.kind, in: folder) else { return linked }
        return try changePlaces(linked, with: place, now: now)
    }

    /// Throws if the names lie on two sides of the border of a folder that is kept local.
    private func requireSameSide(_ row: ItemRow, _ folder: ItemRow, _ name: ItemName) throws {
        guard let entry = row.entry, let other = try self.row(key: entry.parent) else { return }
        let isLocal = other.isExcluded || entry.name.isAlwaysLocal
        // A backup's name is one of this device; a program that cannot link its backup renames or copies it.
        let leavesSync = try !row.isExcluded && keepsLocal(name, row.kind, in: folder)
        guard isLocal == (folder.isExcluded || name.isAlwaysLocal), !leavesSync else {
            throw UbiquityError(.crossesContainers, "a link cannot lead out of what is synced, or into it")
        }
    }

    private func insertLink(to row: ItemRow, at place: ItemRow.Entry, isExcluded: Bool, now: Timestamp) throws {
        let number = newNumber()
        var link = ItemRow(
            key: ItemKey(number), ino: UInt64(number), id: newItemID(), kind: .hardLink, mode: 0o777, uid: row.uid,
            gid: row.gid, size: 0, createdAt: now, modifiedAt: now, changedAt: now, linkTarget: row.id.bytes,
            xattrs: [], localXattrs: [], entry: place, version: nil, content: nil, contentState: .none,
            flags: .madeHere, dirty: [], dirtyOrder: 0, dirtyBase: .zero, dirtyAt: now, generation: 0,
            nextVersion: nil, usedAt: now)
        if isExcluded { link.flags.insert(.excluded) }
        try inheritPin(&link)
        try markDirty(&link, .created, now: now)
        try insert(link)
        note(.added, before: nil, after: link)
        index.tunnels.noteTaker(link.key, of: place)
    }

    /// The item goes to the place of a link to it, and the link to the item's.
    private func changePlaces(_ row: ItemRow, with place: ItemRow.Entry, now: Timestamp) throws -> ItemRow {
        guard let old = row.entry, let link = try child(of: place.parent, named: place.name) else { return row }
        var away = link
        away.entry = nil
        try update(away, before: link)
        let moved = try relocate(row, to: place, excluded: false, now: now)
        var exchanged = away
        exchanged.entry = old
        try update(exchanged, before: away)
        note(.moved, before: link, after: exchanged)
        return moved
    }

    /// Notes that the names of an item have become more or fewer: its ctime changes.
    /// - Returns: the item as it is now; nil if there is none.
    @discardableResult
    package func touchLinked(_ id: ItemID?, now: Timestamp) throws -> ItemRow? {
        guard let id, let before = try row(id: id) else { return nil }
        var row = before
        if try hasLinks(id) {
            row.flags.insert(.linked)
        } else {
            row.flags.remove(.linked)
        }
        row.changedAt = now
        guard !row.isDeleted else { return row }
        try update(row, before: before)
        note(.attributes, before: before, after: row)
        return row
    }

    /// Gives up the entry of an item that has other names: it takes the place of one of those.
    /// - Parameter inside: names that go as well.
    /// - Returns: false if it has no other.
    package func moveToOtherName(_ row: ItemRow, than inside: Set<ItemKey> = [], now: Timestamp) throws -> Bool {
        guard row.isLinked else { return false }
        for link in try links(to: row.id) where !inside.contains(link.key) {
            guard let place = link.entry, let folder = try self.row(key: place.parent) else { continue }
            try remove(link, now: now)
            let local = try row.isExcluded ? keepsLocal(place.name, row.kind, in: folder) : link.isExcluded
            // A placeholder cannot leave sync; below an ignored name it may stay in it, in a local folder not.
            let isExcluded = local && (row.isExcluded || row.canLeaveSync)
            guard isExcluded || !folder.isExcluded else { continue }
            guard let current = try self.row(key: row.key) else { return false }
            let moved = try relocate(current, to: place, excluded: isExcluded, now: now)
            try touchLinked(moved.id, now: now)
            return true
        }
        return false
    }

    /// The links lead to another identity of the same item.
    package func retargetLinks(from old: ItemID, to new: ItemID) throws {
        for link in try allLinks(to: old) {
            var next = link
            next.linkTarget = new.bytes
            try update(next, before: link)
        }
    }

    /// An item comes into sync, and its names with it, but for those that are kept local for themselves.
    func includeLinks(of row: ItemRow, now: Timestamp) throws {
        guard row.isLinked else { return }
        for link in try links(to: row.id) where link.isExcluded {
            guard let place = link.entry, let folder = try self.row(key: place.parent),
                try !keepsLocal(place.name, row.kind, in: folder)
            else { continue }
            var included = link
            try include(&included, now: now)
            try update(included, before: link)
            note(.attributes, before: link, after: included)
        }
    }
}
