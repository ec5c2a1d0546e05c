internal import UbiquityCore
internal import UbiquitySystem

// Saving by giving a name up and taking it again. The name's document is the same before and after: identity,
// attributes, versions and the base of the next version stay with it (`design.md` section 4).
//
// - A rename to an ignored name (a backup), then something made at, or renamed to, the free name: joined when that is
//   made. The backup stays, on this device only. What never went up is a backup at once, and the document is gone till
//   then, as if it were deleted.
// - The same with a backup of any name, by one process, if what takes the name is new: joined likewise. The backup is a
//   new item.
// - A deletion, then something made or renamed, by one process: joined likewise, also if the deletion has gone up
//   meanwhile. The next content brings the document back then, on all devices.
// - A further name, then something renamed over the first: joined likewise, whatever process does it. The further name
//   is the backup's, a new item.
// - In each of these, instead of a rename to the free name, a further name there of what was saved aside: joined when
//   that has lost its own name.
// - A rename to any name, something made or renamed, then the deletion of what was renamed: joined at the deletion.
// - An exchange with a new file, then the deletion of what the document was: joined at the deletion.
//
// In the first case the rename waits for the end of the window before it goes up, so that other devices never see it.
// In the others it goes up at once, as any rename, and a new item as any new item. In the last, the deletion then
// deletes that one, and the document comes back to its name with the new content. Nothing is lost in any of them: what
// is given up in the index is a name, and a content only with the item that is deleted.

extension IndexTransaction {
    /// Notes that a document has lost its name.
    /// - Parameter after: the item as it is now; nil if it was deleted.
    func giveUp(_ before: ItemRow, after: ItemRow?, process: Int32) throws {
        guard let place = before.entry, before.kind == .file, !before.isExcluded, !before.isLinked else {
            return
        }
        // What the cloud never had is not worth a deletion and a return.
        if after == nil, before.dirty.contains(.created) { return }
        var isHeld = false
        if let after, let entry = after.entry, let folder = try row(key: entry.parent) {
            isHeld = try isIgnored(entry.name, .file, in: folder)
        }
        // A new file that gets another name was made aside, to be renamed: the name it had is no document's.
        if after != nil, !isHeld, before.dirty.contains(.created) { return }
        index.tunnels.giveUp(
            Tunnels.GivenUp(
                place: place, key: before.key, id: before.id, process: process, at: index.timekeeper.uptime(),
                isHeld: isHeld, removed: after?.isExcluded ?? true ? before.remembered : nil),
            for: after?.entry)
    }

    /// Puts the document that had the name a moment ago back there, without content, if what takes the name now is its
    /// next content.
    /// - Parameter taker: what is renamed to the name. The document itself, renamed back, is joined with nothing.
    func documentComingBack(
        to place: ItemRow.Entry, taker: ItemRow? = nil, process: Int32, now: Timestamp
    ) throws -> ItemRow? {
        guard !index.tunnels.isEmpty, let given = index.tunnels.owner(of: place, at: index.timekeeper.uptime()),
            given.key != taker?.key
        else { return nil }
        guard given.isHeld || ProcessHost.isSame(given.process, process) else { return nil }
        guard let row = try row(id: given.id) else { return try bringBackForgotten(given, now: now) }
        guard row.kind == .file, !row.isExcluded, !row.isLinked else { return nil }
        if row.isDeleted {
            // What is held and deleted is what never went up and has its backup, or else was renamed once more.
            guard given.removed != nil || ProcessHost.isSame(given.process, process) else { return nil }
            index.tunnels.forget(given.key)
            return try bringBack(row, to: place, now: now)
        }
        // Two documents that change places stay who they are, whatever of them is here.
        guard given.isHeld || taker?.isNew(for: place.name, now) ?? true else { return nil }
        guard row.key == given.key, let backup = row.entry, row.contentState == .complete,
            let folder = try self.row(key: backup.parent)
        else { return nil }
        let isLocal = try isIgnored(backup.name, .file, in: folder)
        return try leaveBackup(row, isLocal: isLocal, for: place, now: now)
    }

    private func bringBack(_ row: ItemRow, to place: ItemRow.Entry, now: Timestamp) throws -> ItemRow {
        var back = row
        back.dirty.remove(.deleted)
        back.flags.insert(.returned)
        back.entry = place
        // It may have been renamed before it was deleted, and the cloud know it by that name, or be hearing of it now.
        let known = try remote(id: row.id)
        let folder = try self.row(key: place.parent)?.id
        if row.dirty.contains(.place) || known?.name != place.name || known?.parent != folder {
            try markDirty(&back, .place, now: now)
        }
        try update(back, before: row)
        note(.added, before: nil, after: back)
        return back
    }

    /// The deletion has gone up, and the cloud's answer has let the index forget the document: it is there again, to go
    /// up with its next content.
    private func bringBackForgotten(_ given: Tunnels.GivenUp, now: Timestamp) throws -> ItemRow? {
        guard var back = given.removed else { return nil }
        let known = try remote(id: back.id)
        guard known?.isDeleted ?? true else { return nil }
        index.tunnels.forget(given.key)
        // The backup of what never went up has the row.
        if try row(key: back.key) != nil { back.key = ItemKey(newNumber()) }
        back.ino = UInt64(newNumber())
        back.entry = given.place
        back.flags = back.flags.intersection(.pinned).union(.returned)
        // With what had not gone up before the deletion.
        back.dirty = back.dirty.intersection([.created, .mode, .times, .xattrs])
        if !back.dirty.contains(.created) { back.dirty.insert(.place) }
        back.dirtyOrder = try newDirtyOrder()
        back.dirtyBase = try known?.revision ?? feedPosition().revision
        back.dirtyAt = now
        try insert(back)
        if known == nil, !back.dirty.contains(.created) { try rememberDeletion(of: back) }
        note(.added, before: nil, after: back)
        return back
    }

    /// What the cloud is known to say of it, till it has its next content: that it is deleted.
    private func rememberDeletion(of row: ItemRow) throws {
        guard let entry = row.entry, let folder = try self.row(key: entry.parent) else { return }
        let record = RemoteItem(
            id: row.id, kind: row.kind, revision: row.dirtyBase, isDeleted: true, parent: folder.id, name: entry.name,
            mode: row.mode, createdAt: row.createdAt, modifiedAt: row.modifiedAt, xattrs: row.xattrs)
        try setRemote(record, state: .settled)
    }

    /// The document that is to be replaced at its name, without content, if it got a further name a moment ago, as a
    /// backup: that is an item of its own then, and has its content. (Who gave that name is not asked: of a file of two
    /// names that is replaced at one, the document may as well stay there.)
    func documentWithLinkedBackup(_ row: ItemRow, now: Timestamp) throws -> ItemRow? {
        guard row.kind == .file, row.isLinked, !row.isExcluded, row.contentState == .complete, let place = row.entry,
            case let links = try allLinks(to: row.id), links.count == 1, let link = links.first, !link.isExcluded,
            let backup = link.entry, link.createdAt <= now,
            link.createdAt > now.advanced(bySeconds: -(Tunnels.window / .seconds(1)))
        else { return nil }
        try remove(link, now: now)
        guard let before = try self.row(key: row.key) else { return nil }
        var moved = before
        moved.entry = backup
        try update(moved, before: before)
        return try leaveBackup(moved, isLocal: false, for: place, now: now)
    }

    /// A file has one name left, which a document gave up a moment ago, and which the file got as a further one: it is
    /// the document's next content, as if it had been renamed there.
    func joinOnlyName(of id: ItemID, process: Int32, now: Timestamp) throws {
        guard let row = try row(id: id), row.kind == .file, !row.isLinked, !row.isExcluded, !row.isDeleted,
            row.contentState == .complete, let place = row.entry, let folder = try self.row(key: place.parent),
            index.tunnels.owner(of: place, at: index.timekeeper.uptime())?.taker != nil
        else { return }
        // The document is to have the name.
        var source = row
        source.entry = nil
        try update(source, before: row)
        guard let document = try documentComingBack(to: place, taker: source, process: process, now: now) else {
            return try update(row, before: source)
        }
        let move = Move(
            source: source, target: nil, from: folder, into: folder, name: place.name, now: now, process: process)
        _ = try replaceContent(move, of: document)
    }

    /// The old content stays at the backup's name as an item of its own, whose inode programs may have open; the
    /// document goes back to its name.
    private func leaveBackup(
        _ row: ItemRow, isLocal: Bool, for place: ItemRow.Entry, now: Timestamp
    ) throws -> ItemRow {
        index.tunnels.forget(row.key)
        // From now on that content is of no version.
        if let content = row.content { try forgetContent(content) }
        var back = row
        back.entry = place
        back.ino = UInt64(newNumber())
        back.content = nil
        back.contentState = .none
        back.flags.subtract([.writing, .fresh])
        // The rename may be on its way to the cloud: the place goes up once more, if only to say that it is the same.
        try markDirty(&back, .place, now: now)
        try update(back, before: row)
        var copy = row
        copy.key = ItemKey(newNumber())
        copy.id = newItemID()
        copy.version = nil
        copy.nextVersion = nil
        copy.dirty = []
        copy.flags.formIntersection([.writing, .keptCurrent])
        if isLocal { copy.flags.insert(.excluded) } else { try markDirty(&copy, [.created, .content], now: now) }
        try insert(copy)
        note(.replaced, before: row, after: back)
        note(.added, before: nil, after: copy)
        return back
    }

    /// A document is deleted that was renamed a moment ago, and another item has its name since: that one's content is
    /// the document's next, and the document is where it was.
    /// - Returns: false if it is not so.
    func returnInsteadOfRemoving(_ row: ItemRow, now: Timestamp) throws -> Bool {
        guard !index.tunnels.isEmpty, row.kind == .file, !row.isExcluded,
            let given = index.tunnels.origin(of: row.key, at: index.timekeeper.uptime()), given.id == row.id,
            let successor = try child(of: given.place.parent, named: given.place.name), successor.key == given.taker,
            successor.key != row.key, successor.kind == .file, !successor.isExcluded, !successor.isLinked,
            successor.contentState == .complete, let folder = try self.row(key: given.place.parent)
        else { return false }
        index.tunnels.forget(row.key)
        if let content = row.content { try forgetContent(content) }
        var back = row
        back.entry = nil
        back.content = nil
        back.contentState = .none
        try markDirty(&back, .place, now: now)
        try update(back, before: row)
        let move = Move(
            source: successor, target: back, from: folder, into: folder, name: given.place.name, now: now)
        _ = try replaceContent(move, of: back, shown: row)
        return true
    }

    /// A new file's (empty) content becomes the next one of the document that stands at the name without content.
    func begin(_ new: NewItem, as document: ItemRow, in folder: ItemRow, now: Timestamp) throws -> ItemRow {
        var row = document
        row.ino = UInt64(newNumber())
        row.content = new.content
        row.contentState = new.content == nil ? .none : .complete
        row.size = 0
        row.uid = new.uid
        row.gid = new.gid
        row.modifiedAt = now
        row.changedAt = now
        row.usedAt = now
        row.generation += 1
        row.nextVersion = nil
        row.flags.insert(.keptCurrent)
        row.flags.remove(.downloadRequested)
        if new.isWriting { row.flags.formUnion([.writing, .fresh]) }
        if row.mode != new.mode & 0o7777 {
            row.mode = new.mode & 0o7777
            try markDirty(&row, .mode, now: now)
        }
        try markDirty(&row, [.content, .times], now: now)
        try update(row, before: document)
        note(.replaced, before: document, after: row)
        try touchFolder(folder, now: now, isSynced: true)
        return row
    }
}

extension ItemRow {
    /// What is kept of a document that was deleted; nil if that is too much.
    fileprivate var remembered: ItemRow? {
        guard xattrs.byteCount + localXattrs.byteCount <= Tunnels.attributesKept else { return nil }
        var row = self
        row.content = nil
        row.contentState = .none
        row.nextVersion = nil
        return row
    }
}

extension ItemRow {
    /// Whether it is what a program makes to save, made a moment ago or of an ignored name, and no document of its own.
    /// A file that the cloud knows is that only with a temporary name: two young documents may exchange their names.
    /// - Parameter document: The name that it is about to take.
    fileprivate func isNew(for document: ItemName, _ now: Timestamp) -> Bool {
        if isExcluded || dirty.contains(.created) { return true }
        // Without an entry it has just lost its own name.
        if let name = entry?.name, !name.isMadeUp, !name.possibleDocuments.contains(document) { return false }
        return createdAt <= now && createdAt > now.advanced(bySeconds: -(Tunnels.window / .seconds(1)))
    }
}
