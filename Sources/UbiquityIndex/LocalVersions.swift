package import UbiquityCore

/// Where a version is moved to.
package struct VersionPlace: Sendable {
    /// The folder's inode number.
    package var parent: UInt64
    package var name: ItemName
    /// Fails if the name is taken.
    package var isExclusive: Bool

    package init(parent: UInt64, name: ItemName, isExclusive: Bool) {
        self.parent = parent
        self.name = name
        self.isExclusive = isExclusive
    }
}

extension ItemIndex {
    /// Decides about versions of a file, here and now; the cloud and the other devices hear of it when they can.
    /// Throws `.notFound` if the file is gone.
    /// - Returns: the version that the last restoration makes.
    @discardableResult
    package func decide(
        _ actions: [(kind: PendingVersionAction.Kind, version: VersionID)], of key: ItemKey
    ) throws -> VersionID? {
        try write(.local) { transaction in
            guard let row = try transaction.row(key: key), !row.isDeleted else {
                throw UbiquityError(.notFound, "the file is gone")
            }
            let decided = try transaction.decidedVersions(of: row.id)
            var made: VersionID?
            for action in actions where decided[action.version] == nil || action.kind == .restore {
                // An edit that is on its way up is older than the restoration.
                let new = try transaction.decide(
                    action.kind, action.version, of: row.id, after: action.kind == .restore ? key : nil)
                made = new ?? made
            }
            return made
        }
    }

    /// Makes a version's content the content of the file at a place, which is made if there is none; a conflict is
    /// resolved by that.
    ///
    /// The version stays undecided at the cloud until its content is there as the file's: whatever happens to this
    /// device, it is kept.
    /// - Parameters:
    ///   - content: a copy of the version's, which is the item's afterwards.
    ///   - ino: the inode number that the item has from now on, if a program has moved it there through the mount; nil
    ///     for a new one, of which the mount is told.
    /// - Returns: the content that was replaced, which is the caller's now.
    package func place(
        _ version: RemoteVersion, of key: ItemKey, content: ContentID, ino: UInt64?, at place: VersionPlace
    ) throws -> ContentID? {
        try write(ino == nil ? .remote : .local) { transaction in
            guard let source = try transaction.row(key: key), !source.isDeleted else {
                throw UbiquityError(.notFound, "the file is gone")
            }
            let target = try transaction.target(of: place, like: source, content)
            // It is wanted in the place of what is known to be current, which may be on its way.
            let isDecided = target.key == source.key && (version.kind == .conflict || target.version == version.id)
            let current = isDecided ? try transaction.remote(id: target.id) : nil
            let placed = try transaction.putContent(
                content, size: version.content.size, ino: ino ?? UInt64(transaction.newNumber()), in: target,
                base: current?.isDeleted == false ? current?.content?.version : nil)
            if version.kind == .conflict {
                try transaction.decide(.resolve, version.id, of: source.id, after: placed.key)
            }
            return target.content == content ? nil : target.content
        }
    }

    /// Gives a file that nobody has changed since a new content, and decides about a conflict by that.
    /// - Parameter generation: of the row that the content was made from.
    /// - Returns: the content that was replaced, which is the caller's now. Nil if the file has changed meanwhile, or
    ///   the conflict has been decided about: then nothing is done and `content` is the caller's.
    package func replace(
        _ key: ItemKey, generation: Int64, version: VersionID?, with content: ContentID, size: Int64,
        resolving conflict: VersionID
    ) throws -> ContentID?? {
        try write(.remote) { transaction in
            guard let row = try transaction.row(key: key), !row.isDeleted, !row.isWriting,
                row.generation == generation, row.version == version, !row.dirty.contains(.content),
                // Somebody may have decided about it, here or on another device.
                try transaction.conflicts(of: row.id).contains(where: { $0.id == conflict })
            else { return .none }
            _ = try transaction.putContent(content, size: size, ino: UInt64(transaction.newNumber()), in: row)
            try transaction.decide(.resolve, conflict, of: row.id, after: key)
            return .some(row.content)
        }
    }
}

extension IndexTransaction {
    /// The file at the place; if there is none, a new one like `source` that has `content`.
    fileprivate func target(of place: VersionPlace, like source: ItemRow, _ content: ContentID) throws -> ItemRow {
        let folder = try liveDirectory(ino: place.parent)
        let now = index.timekeeper.now()
        if let row = try child(of: folder.key, named: place.name) {
            guard !place.isExclusive else {
                throw UbiquityError(.alreadyExists, "there is an item of this name", at: "\(place.name)")
            }
            switch row.kind {
            case .file: return row
            case .directory: throw UbiquityError(.isDirectory, "a folder")
            case .hardLink:
                guard let linked = try named(row), linked.kind == .file else { fallthrough }
                return linked
            case .symlink, .fifo, .socket, .characterDevice, .blockDevice: try remove(row, now: now)
            }
        }
        let new = NewItem(
            kind: .file, mode: Privileges.arriving(source.mode), uid: source.uid, gid: source.gid, content: content)
        let before = try create(in: folder, named: place.name, new)
        // Attributes are the file's, and no version has any of its own.
        var made = before
        made.xattrs = source.xattrs
        guard made.xattrs != before.xattrs else { return before }
        try markXattrs(&made, from: before.xattrs, now: now)
        try update(made, before: before)
        return made
    }

    /// The file has another content, as after a save by renaming: another inode, the same identity.
    /// - Parameter base: the version that it is made from; nil if that stays.
    func putContent(
        _ content: ContentID, size: Int64, ino: UInt64, in before: ItemRow, base: VersionID? = nil
    ) throws -> ItemRow {
        let now = index.timekeeper.now()
        try noteReplacement(of: before, by: content, size: size, version: base)
        if let old = before.content, old != content { try forgetContent(old) }
        var row = before
        row.ino = ino
        row.content = content
        row.contentState = .complete
        row.size = size
        row.modifiedAt = now
        row.changedAt = now
        row.usedAt = now
        row.generation += 1
        row.version = base ?? row.version
        row.nextVersion = nil
        row.dropPrivileges()
        row.flags.insert(.keptCurrent)
        row.flags.subtract([.downloadRequested, .writing, .fresh])
        try markDirty(&row, [.content, .times], now: now)
        try update(row, before: before)
        note(.replaced, before: before, after: row)
        try noteOtherNames(of: row)
        return row
    }
}
