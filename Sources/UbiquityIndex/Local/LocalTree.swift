package import UbiquityCore

/// The POSIX rules for one item of the local tree: create, remove, mark as changed, touch the folder.
///
/// The operations of `ItemIndex` use it within their transaction. Special cases are types of their own: `LocalRename`,
/// `Tunnelling`, `HardLinks`, `Exclusion`, `PinInheritance`, `VersionPlacing`.
package struct LocalTree: TransactionPart {
    let transaction: IndexTransaction

    /// Creates an item in the folder `parent`, an inode number.
    func create(in parent: UInt64, named name: ItemName, _ new: NewItem) throws -> ItemRow {
        let folder = try liveDirectory(ino: parent)
        guard try transaction.child(of: folder.key, named: name) == nil else {
            throw UbiquityError(.alreadyExists, "an item with this name exists already", at: "\(name)")
        }
        if new.kind == .directory { try requireDepth(in: folder) }
        return try create(in: folder, named: name, new)
    }

    /// Removes the item of that name from the folder `parent`, an inode number.
    ///
    /// - Returns: The row before the removal.
    func remove(from parent: UInt64, named name: ItemName, directory: Bool, process: Int32) throws -> ItemRow {
        let folder = try liveDirectory(ino: parent)
        guard let row = try transaction.child(of: folder.key, named: name) else {
            throw UbiquityError(.notFound, "no such item", at: "\(name)")
        }
        try requireKind(of: row, directory: directory)
        let now = index.timekeeper.now()
        if try hardLinks.moveToOtherName(row, now: now) {
            try touchFolder(folder, now: now, isSynced: !row.isExcluded || row.kind.isSpecial)
            try transaction.tunnelling.joinOnlyName(of: row.id, process: process, now: now)
            // The content still has another name, and the caller deletes the contents of removed rows.
            var removed = row
            removed.content = nil
            return removed
        }
        if try !transaction.tunnelling.returnInsteadOfRemoving(row, now: now) {
            try remove(row, now: now)
            try transaction.tunnelling.giveUp(row, after: nil, process: process)
            if let linked = row.linkedID {
                try transaction.tunnelling.joinOnlyName(of: linked, process: process, now: now)
            }
        }
        try touchFolder(folder, now: now, isSynced: !row.isExcluded || row.kind.isSpecial)
        return row
    }

    func take(_ changed: ItemRow, in row: inout ItemRow, now: Timestamp) throws {
        let before = row.xattrs
        row = changed
        try markXattrs(&row, from: before, now: now)
    }

    /// Returns the folder with this inode number. Throws `.notFound` if it is gone, `.notDirectory`.
    func liveDirectory(ino: UInt64) throws -> ItemRow {
        guard let row = try transaction.row(ino: ino), !row.isDeleted else {
            throw UbiquityError(.notFound, "the folder is gone")
        }
        guard row.kind == .directory else { throw UbiquityError(.notDirectory, "not a folder") }
        return row
    }

    /// Throws if a folder in `folder` would be nested so deep that it could hold nothing.
    ///
    /// - Parameter moved: An existing folder that moves there with everything in it.
    func requireDepth(of moved: ItemRow? = nil, in folder: ItemRow) throws {
        let height = try moved.map { try items.height(of: $0.key) } ?? 0
        guard try items.depth(of: folder.key) + height < Limits.maximumDepth - 1 else {
            throw UbiquityError(.nameTooLong, "folders can be nested at most \(Limits.maximumDepth - 1) levels deep")
        }
    }

    func create(in folder: ItemRow, named name: ItemName, _ new: NewItem) throws -> ItemRow {
        let now = index.timekeeper.now()
        let entry = ItemRow.Entry(parent: folder.key, name: name)
        if new.kind == .file, new.unnamed == nil, !folder.isExcluded,
            let document = try transaction.tunnelling.documentComingBack(to: entry, process: new.process, now: now)
        {
            return try transaction.tunnelling.begin(new, as: document, in: folder, now: now)
        }
        let isExcluded = try exclusion.keepsLocal(name, new.kind, in: folder)
        let number = transaction.newNumber()
        var row = ItemRow(
            key: ItemKey(number), ino: UInt64(number), id: transaction.newItemID(), kind: new.kind,
            mode: new.mode & 0o7777, uid: new.uid, gid: new.gid, size: Int64(new.linkTarget.count), createdAt: now,
            modifiedAt: now, changedAt: now, linkTarget: new.storedTarget, xattrs: [], localXattrs: [],
            entry: entry, version: nil, content: new.content,
            contentState: new.content == nil ? .none : .complete, flags: [], dirty: [], dirtyOrder: 0,
            dirtyBase: .zero, dirtyAt: now, generation: 0, nextVersion: nil, usedAt: now)
        if let unnamed = new.unnamed {
            row.ino = unnamed.ino
            row.size = unnamed.size
            row.modifiedAt = unnamed.modifiedAt
            row.createdAt = unnamed.createdAt
            row.xattrs = unnamed.xattrs
            row.localXattrs = unnamed.localXattrs
        }
        row.flags.insert(.madeHere)
        if isExcluded { row.flags.insert(.excluded) }
        try transaction.pins.inheritPin(&row)
        if new.isWriting { row.flags.insert(.writing) }
        if !isExcluded {
            // Does the same as `markDirty`; the cloud knows nothing of a new id.
            row.dirtyOrder = try transaction.newDirtyOrder()
            row.dirty = new.kind == .file ? [.created, .content] : .created
        }
        try transaction.insert(row)
        transaction.note(.added, before: nil, after: row)
        try touchFolder(folder, now: now, isSynced: !isExcluded || new.kind.isSpecial)
        index.tunnels.noteTaker(row.key, of: entry)
        return row
    }

    /// Marks fields of a row as changed here. Does nothing for excluded items, and for the top folder, which is
    /// separate on each device.
    ///
    /// - Parameter xattrs: Names of the changed synced attributes.
    package func markDirty(
        _ row: inout ItemRow, _ fields: DirtyFields, xattrs: Set<[UInt8]> = [], now: Timestamp
    ) throws {
        guard !row.isExcluded, row.key != .root else { return }
        let isRemoved = fields.contains(.deleted)
        if row.dirty.isEmpty {
            row.dirtyOrder = try transaction.newDirtyOrder()
            row.dirtyBase = try (isRemoved ? revisionSeen(of: row) : reader.remotes.remoteRevision(of: row.id)) ?? .zero
        } else if isRemoved, row.dirtyBase > .zero, let seen = try revisionSeen(of: row) {
            row.dirtyBase = min(row.dirtyBase, seen)
        }
        row.noteTimes(of: fields, xattrs: xattrs, now: now)
        row.dirty.formUnion(fields)
        row.dirtyAt = now
    }

    /// Marks the synced attributes that differ from `before`.
    func markXattrs(_ row: inout ItemRow, from before: [Xattr], now: Timestamp) throws {
        guard row.xattrs != before else { return }
        let names = Set(row.xattrs).symmetricDifference(before).map(\.name)
        try markDirty(&row, .xattrs, xattrs: Set(names), now: now)
    }

    /// Updates a folder's mtime and ctime after a change of its entries.
    ///
    /// - Parameter isSynced: Whether the mtime changes, on all devices. False for an entry excluded by its name, such
    ///   as an editor's swap file. Then only the ctime changes, on this device.
    func touchFolder(_ folder: ItemRow, now: Timestamp, isSynced: Bool) throws {
        // Other steps of the transaction may have updated the folder since the caller read it.
        guard let before = try transaction.row(key: folder.key) else { return }
        var folder = before
        folder.changedAt = now
        if isSynced || folder.isExcluded { folder.modifiedAt = now }
        if isSynced { try markDirty(&folder, .times, now: now) }
        try transaction.update(folder, before: before)
        transaction.note(.attributes, before: before, after: folder)
    }

    func requireKind(of row: ItemRow, directory: Bool) throws {
        if directory {
            guard row.kind == .directory else { throw UbiquityError(.notDirectory, "not a folder") }
            guard try !items.hasChildren(row.key) else {
                throw UbiquityError(.directoryNotEmpty, "the folder is not empty")
            }
        } else {
            guard row.kind != .directory else { throw UbiquityError(.isDirectory, "a folder") }
        }
    }

    /// Removes an item here. If the cloud may know it, a row without an entry stays until the cloud has the deletion.
    func remove(_ before: ItemRow, now: Timestamp) throws {
        if let content = before.content { try transaction.contents.forgetContent(content) }
        if before.isExcluded {
            try transaction.delete(before)
        } else {
            var row = before
            try markDirty(&row, .deleted, now: now)
            // A folder is dirty since its members were created. The new position puts its deletion after theirs.
            row.dirtyOrder = try transaction.newDirtyOrder()
            row.entry = nil
            row.content = nil
            row.contentState = .none
            row.nextVersion = nil
            // A program that holds the file open may use the inode number, so the tombstone takes another.
            row.ino = UInt64(transaction.newNumber())
            // The cloud may have the item even if it never confirmed it. If the same save takes the name again, the
            // item is still pinned.
            row.flags.formIntersection([.creationSent, .pinned, .madeHere])
            try transaction.update(row, before: before)
        }
        transaction.note(.removed, before: before, after: nil)
        if before.kind == .hardLink { try hardLinks.touchLinked(before.linkedID, now: now) }
    }

    /// Returns the revision seen by the program that removes the item; nil if the cloud does not have it. A file may
    /// still show an older content while the newer one waits for a program, a name or a download. The older revision is
    /// unknown then, so the lowest counts.
    func revisionSeen(of row: ItemRow) throws -> Revision? {
        try transaction.currentPart.first(Self.seen, [SQLValue(row.version), SQLValue(row.id)]) { Revision($0.int(0)) }
    }

    private static let seen = {
        let waits = [SettlingState.awaitingContent, .waiting].map { "\($0.rawValue)" }.joined(separator: ", ")
        return """
            SELECT CASE WHEN unsettled IN (\(waits)) AND version <> ? THEN 1 ELSE revision END
            FROM remote WHERE id = ?
            """
    }()

    /// Removes an item whose content is lost, as its user would. Nobody wanted this deletion, so changes by others take
    /// precedence: its base is the lowest revision.
    package func removeLost(_ row: ItemRow) throws {
        let now = index.timekeeper.now()
        for link in try items.links(to: row.id) { try removeLostName(link, now: now) }
        try remove(try transaction.row(key: row.key) ?? row, now: now)
        guard let gone = try transaction.row(key: row.key) else { return }
        var next = gone
        next.dirtyBase = .zero
        try transaction.update(next, before: gone)
    }

    /// Removes a name of the lost item. A name that the cloud knows waits for the item's record.
    private func removeLostName(_ link: ItemRow, now: Timestamp) throws {
        guard !link.isExcluded, !link.dirty.contains(.created) else { return try remove(link, now: now) }
        try detach(link)
        try hardLinks.touchLinked(link.linkedID, now: now)
    }

    /// Removes the item's entry. The item then waits for its record to be placed.
    package func detach(_ row: ItemRow) throws {
        var next = row
        next.entry = nil
        next.dirty.remove(.place)
        try transaction.update(next, before: row)
        try transaction.remotes.setState(row.id, .waiting)
        transaction.note(.removed, before: row, after: nil)
    }
}
