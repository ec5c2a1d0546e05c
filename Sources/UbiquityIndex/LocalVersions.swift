package import UbiquityCore

/// The destination of a version.
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
    /// Decides about versions of a file on this device. The decisions are uploaded later. Throws `.notFound` if the
    /// file is gone.
    ///
    /// - Returns: The version that the last restoration creates.
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
                // An edit being uploaded is older than the restoration.
                let new = try transaction.decide(
                    action.kind, action.version, of: row.id, after: action.kind == .restore ? key : nil)
                made = new ?? made
            }
            return made
        }
    }

    /// Writes a version's content to a file, which is created if it does not exist. This resolves the version's
    /// conflict.
    ///
    /// The version stays undecided at the cloud until its content is uploaded as the file's. So it is kept whatever
    /// happens to this device.
    ///
    /// - Parameters:
    ///   - content: A copy of the version's content, which the item owns afterwards.
    ///   - ino: The item's new inode number if a program moved the version through the mount; nil for a new number, of
    ///     which the mount is notified.
    /// - Returns: The replaced content, which the caller now owns.
    package func place(
        _ version: RemoteVersion, of key: ItemKey, content: ContentID, ino: UInt64?, at place: VersionPlace
    ) throws -> ContentID? {
        try write(ino == nil ? .remote : .local) { transaction in
            guard let source = try transaction.row(key: key), !source.isDeleted else {
                throw UbiquityError(.notFound, "the file is gone")
            }
            let target = try transaction.target(of: place, like: source, content)
            // The version replaces the known current one, which may not be downloaded yet.
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

    /// Replaces the content of an unchanged file and so decides a conflict.
    ///
    /// - Parameter generation: The generation of the row that the content was made from.
    /// - Returns: The replaced content, which the caller now owns. Nil if the file has changed or the conflict was
    ///   decided meanwhile: then nothing happens and the caller keeps `content`.
    package func replace(
        _ key: ItemKey, generation: Int64, version: VersionID?, with content: ContentID, size: Int64,
        resolving conflict: VersionID
    ) throws -> ContentID?? {
        try write(.remote) { transaction in
            guard let row = try transaction.row(key: key), !row.isDeleted, !row.isWriting,
                row.generation == generation, row.version == version, !row.dirty.contains(.content),
                // The conflict may have been decided here or on another device.
                try transaction.conflicts(of: row.id).contains(where: { $0.id == conflict })
            else { return .none }
            _ = try transaction.putContent(content, size: size, ino: UInt64(transaction.newNumber()), in: row)
            try transaction.decide(.resolve, conflict, of: row.id, after: key)
            return .some(row.content)
        }
    }
}

extension IndexTransaction {
    /// Returns the file at the place; if there is none, a new one like `source` that has `content`.
    fileprivate func target(of place: VersionPlace, like source: ItemRow, _ content: ContentID) throws -> ItemRow {
        let folder = try liveDirectory(ino: place.parent)
        let now = index.timekeeper.now()
        if let row = try child(of: folder.key, named: place.name) {
            guard !place.isExclusive else {
                throw UbiquityError(.alreadyExists, "an item with this name exists already", at: "\(place.name)")
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
        // Attributes belong to the file; versions have none of their own.
        var made = before
        made.xattrs = source.xattrs
        guard made.xattrs != before.xattrs else { return before }
        try markXattrs(&made, from: before.xattrs, now: now)
        try update(made, before: before)
        return made
    }

    /// Replaces a file's content as a save by renaming does: another inode, the same identity.
    ///
    /// - Parameter base: The version that the content starts from; nil to keep the present one.
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
