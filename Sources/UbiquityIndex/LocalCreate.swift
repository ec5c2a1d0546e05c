package import UbiquityCore

/// The properties of a new item.
package struct NewItem: Sendable {
    package var kind: ItemKind
    /// Permission bits, after the caller's umask.
    package var mode: UInt32
    package var uid: UInt32
    package var gid: UInt32
    /// A symlink's text.
    package var linkTarget: [UInt8]
    /// The number of a device node, as in `st_rdev`.
    package var device: UInt32 = 0
    /// A file's (empty) backing file.
    package var content: ContentID?
    /// Whether the file is open for writing from the start.
    package var isWriting: Bool
    /// The process (or thread) that creates the item; 0 if unknown.
    package var process: Int32
    /// The former row of a file that had no name until now.
    package var unnamed: ItemRow?

    package init(
        kind: ItemKind, mode: UInt32, uid: UInt32, gid: UInt32, linkTarget: [UInt8] = [], content: ContentID? = nil,
        isWriting: Bool = false, process: Int32 = 0
    ) {
        self.kind = kind
        self.mode = mode
        self.uid = uid
        self.gid = gid
        self.linkTarget = linkTarget
        self.content = content
        self.isWriting = isWriting
        self.process = process
    }

    /// The target as stored in `ItemRow.linkTarget`.
    var storedTarget: [UInt8] {
        guard device != 0 else { return linkTarget }
        return withUnsafeBytes(of: device.littleEndian) { Array($0) }
    }
}

extension ItemIndex {
    /// Creates an item in the folder `parent` (an inode number).
    ///
    /// - Parameter writing: Earlier writes to another file, recorded first.
    /// - Throws: `.notFound` if the folder is gone, `.notDirectory`, `.alreadyExists`, `.nameTooLong` for a folder
    ///   nested too deep.
    package func create(
        in parent: UInt64, named name: ItemName, _ new: NewItem, noting writing: WritingNote? = nil
    ) throws -> ItemRow {
        try space.require(for: .all)
        return try write(.local) { transaction in
            try transaction.note(writing)
            let folder = try transaction.liveDirectory(ino: parent)
            guard try transaction.child(of: folder.key, named: name) == nil else {
                throw UbiquityError(.alreadyExists, "an item with this name exists already", at: "\(name)")
            }
            if new.kind == .directory { try transaction.requireDepth(in: folder) }
            return try transaction.create(in: folder, named: name, new)
        }
    }
}

extension IndexTransaction {
    /// Returns the folder with this inode number. Throws `.notFound` if it is gone, `.notDirectory`.
    func liveDirectory(ino: UInt64) throws -> ItemRow {
        guard let row = try row(ino: ino), !row.isDeleted else {
            throw UbiquityError(.notFound, "the folder is gone")
        }
        guard row.kind == .directory else { throw UbiquityError(.notDirectory, "not a folder") }
        return row
    }

    /// Throws if a folder in `folder` would be nested so deep that it could hold nothing.
    ///
    /// - Parameter moved: An existing folder that moves there with everything in it.
    func requireDepth(of moved: ItemRow? = nil, in folder: ItemRow) throws {
        let height = try moved.map { try self.height(of: $0.key) } ?? 0
        guard try depth(of: folder.key) + height < Limits.maximumDepth - 1 else {
            throw UbiquityError(.nameTooLong, "folders can be nested at most \(Limits.maximumDepth - 1) levels deep")
        }
    }

    func create(in folder: ItemRow, named name: ItemName, _ new: NewItem) throws -> ItemRow {
        let now = index.timekeeper.now()
        let entry = ItemRow.Entry(parent: folder.key, name: name)
        if new.kind == .file, new.unnamed == nil, !folder.isExcluded,
            let document = try documentComingBack(to: entry, process: new.process, now: now)
        {
            return try begin(new, as: document, in: folder, now: now)
        }
        let isExcluded = try keepsLocal(name, new.kind, in: folder)
        let number = newNumber()
        var row = ItemRow(
            key: ItemKey(number), ino: UInt64(number), id: newItemID(), kind: new.kind, mode: new.mode & 0o7777,
            uid: new.uid, gid: new.gid, size: Int64(new.linkTarget.count), createdAt: now, modifiedAt: now,
            changedAt: now, linkTarget: new.storedTarget, xattrs: [], localXattrs: [],
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
        try inheritPin(&row)
        if new.isWriting { row.flags.insert(.writing) }
        if !isExcluded {
            // Does the same as `markDirty`; the cloud knows nothing of a new id.
            row.dirtyOrder = try newDirtyOrder()
            row.dirty = new.kind == .file ? [.created, .content] : .created
        }
        try insert(row)
        note(.added, before: nil, after: row)
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
            row.dirtyOrder = try newDirtyOrder()
            row.dirtyBase = try (isRemoved ? revisionSeen(of: row) : remoteRevision(of: row.id)) ?? .zero
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
        guard let before = try row(key: folder.key) else { return }
        var folder = before
        folder.changedAt = now
        if isSynced || folder.isExcluded { folder.modifiedAt = now }
        if isSynced { try markDirty(&folder, .times, now: now) }
        try update(folder, before: before)
        note(.attributes, before: before, after: folder)
    }
}
