internal import UbiquityCore
internal import UbiquitySystem

/// Tunnelling: saves that give a name up and take it again. The document stays the same item: identity, attributes,
/// versions and the base of the next version remain with the name.
///
/// - A document is renamed to an ignored name (a backup), then an item is created at, or renamed to, the free name:
///   joined at once. The backup stays on this device only. A document that was never uploaded becomes the backup
///   itself; until the join it counts as deleted.
/// - The same with a backup of any name, by one process, if the item that takes the name is new: joined likewise. The
///   backup is a new item.
/// - A document is deleted, then an item is created or renamed there, by one process: joined likewise, even if the
///   deletion has been uploaded meanwhile. Then the next content brings the document back on all devices.
/// - A document gets a further name, then an item is renamed over the first: joined likewise, for any process. The
///   further name is the backup's, a new item.
/// - In each of these, a hard link at the free name to a file saved elsewhere counts like a rename: joined when that
///   file has lost its own name.
/// - A document is renamed to any name, an item is created or renamed there, then the renamed document is deleted:
///   joined at the deletion.
/// - A document is exchanged with a new file, then the former document is deleted: joined at the deletion.
///
/// In the first case the rename is uploaded only after the window ends, so other devices never see it. In the others it
/// is uploaded at once, like any rename, and so is a new item. In the last two cases the later deletion removes that
/// new item, and the document returns to its name with the new content. No case loses anything: the index gives up only
/// a name, and a content only with a deleted item.
struct Tunnelling: TransactionPart {
    let transaction: IndexTransaction

    /// Records that a document has lost its name.
    ///
    /// - Parameter after: The item as it is now; nil if it was deleted.
    func giveUp(_ before: ItemRow, after: ItemRow?, process: Int32) throws {
        guard let place = before.entry, before.kind == .file, !before.isExcluded, !before.isLinked else {
            return
        }
        // An item the cloud never had needs neither a deletion nor a return.
        if after == nil, before.dirty.contains(.created) { return }
        var isHeld = false
        if let after, let entry = after.entry, let folder = try transaction.row(key: entry.parent) {
            isHeld = try exclusion.isIgnored(entry.name, .file, in: folder)
        }
        // A new file that is renamed was a temporary file; its first name belongs to no document.
        if after != nil, !isHeld, before.dirty.contains(.created) { return }
        index.tunnels.giveUp(
            Tunnels.GivenUp(
                place: place, key: before.key, id: before.id, process: process, at: index.timekeeper.uptime(),
                isHeld: isHeld, removed: after?.isExcluded ?? true ? remembered(before) : nil),
            for: after?.entry)
    }

    /// Puts the document that recently had the name back there, without content, if its next content is about to take
    /// the name.
    ///
    /// - Parameter taker: The item being renamed to the name. The document itself, renamed back, is not joined.
    func documentComingBack(
        to place: ItemRow.Entry, taker: ItemRow? = nil, process: Int32, now: Timestamp
    ) throws -> ItemRow? {
        guard !index.tunnels.isEmpty, let given = index.tunnels.owner(of: place, at: index.timekeeper.uptime()),
            given.key != taker?.key
        else { return nil }
        guard given.isHeld || ProcessHost.isSame(given.process, process) else { return nil }
        guard let row = try transaction.row(id: given.id) else { return try bringBackForgotten(given, now: now) }
        guard row.kind == .file, !row.isExcluded, !row.isLinked else { return nil }
        if row.isDeleted {
            // A tunnelled document that is deleted was never uploaded and has its backup, or was renamed again.
            guard given.removed != nil || ProcessHost.isSame(given.process, process) else { return nil }
            index.tunnels.forget(given.key)
            return try bringBack(row, to: place, now: now)
        }
        // Two documents that swap names keep their identities, whether their contents are here or not.
        guard given.isHeld || taker.map({ isNew($0, for: place.name, now) }) ?? true else { return nil }
        guard row.key == given.key, let backup = row.entry, row.contentState == .complete,
            let folder = try transaction.row(key: backup.parent)
        else { return nil }
        let isLocal = try exclusion.isIgnored(backup.name, .file, in: folder)
        return try leaveBackup(row, isLocal: isLocal, for: place, now: now)
    }

    private func bringBack(_ row: ItemRow, to place: ItemRow.Entry, now: Timestamp) throws -> ItemRow {
        var back = row
        back.dirty.remove(.deleted)
        back.flags.insert(.returned)
        back.entry = place
        // The document may have been renamed before its deletion, and the cloud may know that name or be about to.
        let known = try reader.remotes.remote(id: row.id)
        let folder = try transaction.row(key: place.parent)?.id
        if row.dirty.contains(.place) || known?.name != place.name || known?.parent != folder {
            try tree.markDirty(&back, .place, now: now)
        }
        try transaction.update(back, before: row)
        transaction.note(.added, before: nil, after: back)
        return back
    }

    /// Restores a document that the index has deleted after the cloud confirmed its deletion. It is uploaded with its
    /// next content.
    private func bringBackForgotten(_ given: Tunnels.GivenUp, now: Timestamp) throws -> ItemRow? {
        guard var back = given.removed else { return nil }
        let known = try reader.remotes.remote(id: back.id)
        guard known?.isDeleted ?? true else { return nil }
        index.tunnels.forget(given.key)
        // The backup of a document that was never uploaded has the row's key.
        if try transaction.row(key: back.key) != nil { back.key = ItemKey(transaction.newNumber()) }
        back.ino = UInt64(transaction.newNumber())
        back.entry = given.place
        back.flags = back.flags.intersection(.pinned).union(.returned)
        // Keeps the changes that were not uploaded before the deletion.
        back.dirty = back.dirty.intersection([.created, .mode, .times, .xattrs])
        if !back.dirty.contains(.created) { back.dirty.insert(.place) }
        back.dirtyOrder = try transaction.newDirtyOrder()
        back.dirtyBase = try known?.revision ?? reader.meta.feedPosition().revision
        back.dirtyAt = now
        try transaction.insert(back)
        if known == nil, !back.dirty.contains(.created) { try rememberDeletion(of: back) }
        transaction.note(.added, before: nil, after: back)
        return back
    }

    /// Stores a record that the item is deleted at the cloud, until its next content is uploaded.
    private func rememberDeletion(of row: ItemRow) throws {
        guard let entry = row.entry, let folder = try transaction.row(key: entry.parent) else { return }
        let record = RemoteItem(
            id: row.id, kind: row.kind, revision: row.dirtyBase, isDeleted: true, parent: folder.id, name: entry.name,
            mode: row.mode, createdAt: row.createdAt, modifiedAt: row.modifiedAt, xattrs: row.xattrs)
        try transaction.remotes.setRemote(record, state: .settled)
    }

    /// Returns the document that is being replaced at its name, without content, if it recently got a further name as a
    /// backup. The backup becomes a separate item and takes the content. The process is not compared: if a file with
    /// two names is replaced at one, the document may as well stay there.
    func documentWithLinkedBackup(_ row: ItemRow, now: Timestamp) throws -> ItemRow? {
        guard row.kind == .file, row.isLinked, !row.isExcluded, row.contentState == .complete, let place = row.entry,
            case let links = try items.allLinks(to: row.id), links.count == 1, let link = links.first, !link.isExcluded,
            let backup = link.entry, link.createdAt <= now,
            link.createdAt > now.advanced(bySeconds: -(Tunnels.window / .seconds(1)))
        else { return nil }
        try tree.remove(link, now: now)
        guard let before = try transaction.row(key: row.key) else { return nil }
        var moved = before
        moved.entry = backup
        try transaction.update(moved, before: before)
        return try leaveBackup(moved, isLocal: false, for: place, now: now)
    }

    /// Joins a file that has one name left, if it got that name as a hard link and a document recently gave it up. The
    /// file is the document's next content, as if it had been renamed there.
    func joinOnlyName(of id: ItemID, process: Int32, now: Timestamp) throws {
        guard let row = try transaction.row(id: id), row.kind == .file, !row.isLinked, !row.isExcluded, !row.isDeleted,
            row.contentState == .complete, let place = row.entry, let folder = try transaction.row(key: place.parent),
            index.tunnels.owner(of: place, at: index.timekeeper.uptime())?.taker != nil
        else { return }
        // Frees the name for the document.
        var source = row
        source.entry = nil
        try transaction.update(source, before: row)
        guard let document = try documentComingBack(to: place, taker: source, process: process, now: now) else {
            return try transaction.update(row, before: source)
        }
        let move = Move(
            source: source, target: nil, from: folder, into: folder, name: place.name, now: now, process: process)
        _ = try transaction.renaming.replaceContent(move, of: document)
    }

    /// Leaves the old content at the backup's name as a separate item, whose inode programs may have open. The document
    /// returns to its name.
    private func leaveBackup(
        _ row: ItemRow, isLocal: Bool, for place: ItemRow.Entry, now: Timestamp
    ) throws -> ItemRow {
        index.tunnels.forget(row.key)
        // From now on the content belongs to no version.
        if let content = row.content { try transaction.contents.forgetContent(content) }
        var back = row
        back.entry = place
        back.ino = UInt64(transaction.newNumber())
        back.content = nil
        back.contentState = .none
        back.flags.subtract([.writing, .fresh])
        // The rename may be on its way to the cloud, so the place is uploaded again, even if it is unchanged.
        try tree.markDirty(&back, .place, now: now)
        try transaction.update(back, before: row)
        var copy = row
        copy.key = ItemKey(transaction.newNumber())
        copy.id = transaction.newItemID()
        copy.version = nil
        copy.nextVersion = nil
        copy.dirty = []
        copy.flags.formIntersection([.writing, .keptCurrent])
        if isLocal { copy.flags.insert(.excluded) } else { try tree.markDirty(&copy, [.created, .content], now: now) }
        try transaction.insert(copy)
        transaction.note(.replaced, before: row, after: back)
        transaction.note(.added, before: nil, after: copy)
        return back
    }

    /// Handles the deletion of a recently renamed document whose name another item has taken. That item's content
    /// becomes the document's next content, and the document returns to its place.
    ///
    /// - Returns: False if this is not the case.
    func returnInsteadOfRemoving(_ row: ItemRow, now: Timestamp) throws -> Bool {
        guard !index.tunnels.isEmpty, row.kind == .file, !row.isExcluded,
            let given = index.tunnels.origin(of: row.key, at: index.timekeeper.uptime()), given.id == row.id,
            let successor = try transaction.child(of: given.place.parent, named: given.place.name),
            successor.key == given.taker, successor.key != row.key, successor.kind == .file, !successor.isExcluded,
            !successor.isLinked,
            successor.contentState == .complete, let folder = try transaction.row(key: given.place.parent)
        else { return false }
        index.tunnels.forget(row.key)
        if let content = row.content { try transaction.contents.forgetContent(content) }
        var back = row
        back.entry = nil
        back.content = nil
        back.contentState = .none
        try tree.markDirty(&back, .place, now: now)
        try transaction.update(back, before: row)
        let move = Move(
            source: successor, target: back, from: folder, into: folder, name: given.place.name, now: now)
        _ = try transaction.renaming.replaceContent(move, of: back, shown: row)
        return true
    }

    /// Gives a new file's (empty) content to the document that is at the name without content.
    func begin(_ new: NewItem, as document: ItemRow, in folder: ItemRow, now: Timestamp) throws -> ItemRow {
        var row = document
        row.ino = UInt64(transaction.newNumber())
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
            try tree.markDirty(&row, .mode, now: now)
        }
        try tree.markDirty(&row, [.content, .times], now: now)
        try transaction.update(row, before: document)
        transaction.note(.replaced, before: document, after: row)
        try tree.touchFolder(folder, now: now, isSynced: true)
        return row
    }

    /// The part of a deleted document that is remembered; nil if it is too large.
    private func remembered(_ document: ItemRow) -> ItemRow? {
        guard document.xattrs.byteCount + document.localXattrs.byteCount <= Tunnels.attributesKept else { return nil }
        var row = document
        row.content = nil
        row.contentState = .none
        row.nextVersion = nil
        return row
    }

    /// Returns whether the item is a save in progress: created recently or under an ignored name, and not a document of
    /// its own. A file that the cloud knows counts only with a temporary name, because two young documents may swap
    /// names.
    ///
    /// - Parameter document: The name that the item is about to take.
    private func isNew(_ row: ItemRow, for document: ItemName, _ now: Timestamp) -> Bool {
        if row.isExcluded || row.dirty.contains(.created) { return true }
        // An item without an entry has just lost its own name.
        if let name = row.entry?.name, !name.isMadeUp, !name.possibleDocuments.contains(document) { return false }
        return row.createdAt <= now && row.createdAt > now.advanced(bySeconds: -(Tunnels.window / .seconds(1)))
    }
}
