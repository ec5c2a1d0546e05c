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

/// Gives a file the content of a version.
package struct VersionPlacing: TransactionPart {
    let transaction: IndexTransaction

    /// Decides about versions of a file.
    ///
    /// - Returns: The version that the last restoration creates.
    func decide(
        _ actions: [(kind: PendingVersionAction.Kind, version: VersionID)], of key: ItemKey
    ) throws -> VersionID? {
        guard let row = try transaction.row(key: key), !row.isDeleted else {
            throw UbiquityError(.notFound, "the file is gone")
        }
        let decided = try reader.versions.decidedVersions(of: row.id)
        var made: VersionID?
        for action in actions where decided[action.version] == nil || action.kind == .restore {
            // An edit being uploaded is older than the restoration.
            let new = try transaction.versions.decide(
                action.kind, action.version, of: row.id, after: action.kind == .restore ? key : nil)
            made = new ?? made
        }
        return made
    }

    /// Writes a version's content to a file, which is created if it does not exist.
    ///
    /// - Returns: The replaced content.
    func place(
        _ version: RemoteVersion, of key: ItemKey, content: ContentID, ino: UInt64?, at place: VersionPlace
    ) throws -> ContentID? {
        guard let source = try transaction.row(key: key), !source.isDeleted else {
            throw UbiquityError(.notFound, "the file is gone")
        }
        let target = try target(of: place, like: source, content)
        // The version replaces the known current one, which may not be downloaded yet.
        let isDecided = target.key == source.key && (version.kind == .conflict || target.version == version.id)
        let current = isDecided ? try reader.remotes.remote(id: target.id) : nil
        let placed = try putContent(
            content, size: version.content.size, ino: ino ?? UInt64(transaction.newNumber()), in: target,
            base: current?.isDeleted == false ? current?.content?.version : nil)
        if version.kind == .conflict {
            try transaction.versions.decide(.resolve, version.id, of: source.id, after: placed.key)
        }
        return target.content == content ? nil : target.content
    }

    /// Replaces the content of an unchanged file and so decides a conflict.
    ///
    /// - Returns: The replaced content; nil if the file has changed or the conflict was decided meanwhile.
    func replace(
        _ key: ItemKey, generation: Int64, version: VersionID?, with content: ContentID, size: Int64,
        resolving conflict: VersionID
    ) throws -> ContentID?? {
        guard let row = try transaction.row(key: key), !row.isDeleted, !row.isWriting,
            row.generation == generation, row.version == version, !row.dirty.contains(.content),
            // The conflict may have been decided here or on another device.
            try reader.versions.conflicts(of: row.id).contains(where: { $0.id == conflict })
        else { return .none }
        _ = try putContent(content, size: size, ino: UInt64(transaction.newNumber()), in: row)
        try transaction.versions.decide(.resolve, conflict, of: row.id, after: key)
        return .some(row.content)
    }

    /// Returns the file at the place; if there is none, a new one like `source` that has `content`.
    func target(of place: VersionPlace, like source: ItemRow, _ content: ContentID) throws -> ItemRow {
        let folder = try tree.liveDirectory(ino: place.parent)
        let now = index.timekeeper.now()
        if let row = try transaction.child(of: folder.key, named: place.name) {
            guard !place.isExclusive else {
                throw UbiquityError(.alreadyExists, "an item with this name exists already", at: "\(place.name)")
            }
            switch row.kind {
            case .file: return row
            case .directory: throw UbiquityError(.isDirectory, "a folder")
            case .hardLink:
                guard let linked = try items.named(row), linked.kind == .file else { fallthrough }
                return linked
            case .symlink, .fifo, .socket, .characterDevice, .blockDevice: try tree.remove(row, now: now)
            }
        }
        let new = NewItem(
            kind: .file, mode: Privileges.arriving(source.mode), uid: source.uid, gid: source.gid, content: content)
        let before = try tree.create(in: folder, named: place.name, new)
        // Attributes belong to the file; versions have none of their own.
        var made = before
        made.xattrs = source.xattrs
        guard made.xattrs != before.xattrs else { return before }
        try tree.markXattrs(&made, from: before.xattrs, now: now)
        try transaction.update(made, before: before)
        return made
    }

    /// Replaces a file's content as a save by renaming does: another inode, the same identity.
    ///
    /// - Parameter base: The version that the content starts from; nil to keep the present one.
    func putContent(
        _ content: ContentID, size: Int64, ino: UInt64, in before: ItemRow, base: VersionID? = nil
    ) throws -> ItemRow {
        let now = index.timekeeper.now()
        try transaction.contents.noteReplacement(of: before, by: content, size: size, version: base)
        if let old = before.content, old != content { try transaction.contents.forgetContent(old) }
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
        try tree.markDirty(&row, [.content, .times], now: now)
        try transaction.update(row, before: before)
        transaction.note(.replaced, before: before, after: row)
        try transaction.noteOtherNames(of: row)
        return row
    }
}
