internal import Synchronization
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

// Names in directories.
extension ContainerFileSystem {
    /// The item of that name; nil if there is none. The kernel counts one lookup of the returned inode.
    func lookupInTree(parent: UInt64, name: [UInt8]) throws -> NodeAttributes? {
        let name = try ItemName.checked(name)
        let directory = try directory(parent)
        guard name != .versionsFolder else { return try versionsFolder(of: directory) }
        while true {
            let listing = inodes.withNode(parent) { $0.listing }
            let commits = foreignCommits.load(ordering: .acquiring)
            if let row = try index.child(of: directory.key, named: name) {
                let found = try known(row, since: commits) { try index.child(of: directory.key, named: name) }
                guard let found else { continue }
                return found
            }
            if noteAbsence(of: name, in: parent, since: listing) { return nil }
        }
    }

    /// The losing version that a directory shows under this name beside its document; nil for any other name.
    func visibleConflict(named name: [UInt8], in parent: UInt64) throws -> VisibleConflicts.Entry? {
        guard visibleConflicts.mayShow(name), let directory = try index.row(ino: parent), !directory.isDeleted else {
            return nil
        }
        return try visibleConflicts.entries(in: directory.key).first { $0.name.bytes == name }
    }

    /// Whether directories show the losing versions of documents in conflict.
    package var showsConflicts: Bool { visibleConflicts.isOn }

    /// Whether a conflict can give a directory this name. Then the kernel must not remember that the directory lacks
    /// the name.
    package func mayShowConflict(_ name: [UInt8]) -> Bool { visibleConflicts.mayShow(name) }

    /// Records that the kernel caches the absence of the name, so that it is invalidated when the name appears.
    /// - Returns: false if the directory changed since its listing had that number; the name may exist by now.
    private func noteAbsence(of name: ItemName, in parent: UInt64, since listing: UInt64?) -> Bool {
        var forgotten: ItemName?
        let isNoted = inodes.withNode(parent) { node in
            guard node.listing == listing else { return false }
            guard !node.absences.contains(name) else { return true }
            if node.absences.count >= InodeTable.maximumAbsences { forgotten = node.absences.popFirst() }
            node.absences.insert(name)
            return true
        }
        if let forgotten { kernel.invalidateEntry(parent: parent, name: forgotten) }
        return isNoted ?? true
    }

    /// The item's attributes, for an answer that makes the inode known to the kernel.
    func known(_ row: ItemRow) throws -> NodeAttributes {
        inodes.addLookup(row.ino)
        do { return try attributes(of: row) } catch {
            inodes.forget(row.ino, 1)
            throw error
        }
    }

    /// The same for a row that was read before the kernel counted as knowing the inode. The kernel got no invalidation
    /// for changes in between, so the row is read again.
    /// - Parameters:
    ///   - commits: `foreignCommits` before the row was read.
    ///   - again: reads the row once more.
    /// - Returns: nil if the name leads to another item by now.
    func known(_ row: ItemRow, since commits: UInt64, again: () throws -> ItemRow?) throws -> NodeAttributes? {
        inodes.addLookup(row.ino)
        do {
            guard foreignCommits.load(ordering: .acquiring) != commits else { return try attributes(of: row) }
            if let now = try again(), now.ino == row.ino { return try attributes(of: now) }
        } catch {
            inodes.forget(row.ino, 1)
            throw error
        }
        inodes.forget(row.ino, 1)
        return nil
    }

    /// The kernel forgets `count` lookups of the inode.
    package func forget(_ ino: UInt64, _ count: UInt64) {
        guard isInVersions(ino) else {
            inodes.forget(ino, count)
            return dropUnnamed(ino)
        }
        versionNodes.forget(ino, count, in: inodes)
    }

    // MARK: Creating

    /// mknod(2): creates a file, or a special file that stays on this device.
    /// - Parameter device: the device number of a device node, as in `st_rdev`.
    package func makeNode(
        parent: UInt64, name: [UInt8], mode: UInt32, device: UInt32 = 0, caller: Caller
    ) throws -> NodeAttributes {
        guard let kind = FileMode.kindOfNode(mode) else { throw Errno.EPERM }
        let name = try checkedForMaking(name, in: parent)
        guard kind.isSpecial else {
            let made = try makeFile(in: parent, name, mode: mode, isWriting: false, caller)
            // The call opens no handle, so the registration must go: it would keep the content's disk space after the
            // file is deleted.
            if let backing = made.content.backing { parts.passthrough.unregister(backing) }
            return try known(made.row)
        }
        var new = try newItem(kind, in: parent, mode: mode, caller)
        if kind == .characterDevice || kind == .blockDevice { new.device = device }
        return try known(index.create(in: parent, named: name, new))
    }

    package func makeDirectory(parent: UInt64, name: [UInt8], mode: UInt32, caller: Caller) throws -> NodeAttributes {
        let name = try checkedForMaking(name, in: parent)
        let new = try newItem(.directory, in: parent, mode: mode, caller)
        return try known(index.create(in: parent, named: name, new))
    }

    package func makeSymlink(
        parent: UInt64, name: [UInt8], target: [UInt8], caller: Caller
    ) throws -> NodeAttributes {
        let name = try checkedForMaking(name, in: parent)
        guard target.count <= Limits.maximumLinkLength else { throw Errno.ENAMETOOLONG }
        var new = try newItem(.symlink, in: parent, mode: 0o777, caller)
        new.linkTarget = target
        return try known(index.create(in: parent, named: name, new))
    }

    /// Gives a file or special file a further name.
    package func link(_ ino: UInt64, newParent: UInt64, newName: [UInt8]) throws -> NodeAttributes {
        let name = try checkedForMaking(newName, in: newParent)
        guard !isInVersions(ino) else { throw Errno.EPERM }
        finishCloses(of: ino)
        guard try attributes(of: ino).links < Limits.maximumLinks else { throw Errno.EMLINK }
        if unnamed.withLock({ $0.has(ino) }) { return try nameUnnamed(ino, in: newParent, name) }
        // A link to a file that was just read to its end must link a complete file, as a backup does.
        _ = try index.row(ino: ino).map(finished)
        var linked = try known(index.link(ino: ino, in: newParent, named: name))
        // The kernel takes this answer for the newest, even after a concurrent invalidation. Marked as changing, the
        // attributes are asked for again.
        linked.isChanging = true
        return linked
    }

    /// The row, updated for a placeholder whose last byte has just arrived. Programs read the bytes a moment before the
    /// index records completion.
    func finished(_ row: ItemRow) throws -> ItemRow {
        guard row.contentState == .partial else { return row }
        try parts.materializer.finishIfComplete(row.key)
        return try index.row(key: row.key) ?? row
    }

    /// Creates a file and opens it.
    package func create(
        parent: UInt64, name: [UInt8], mode: UInt32, flags: OpenFlags, caller: Caller
    ) throws -> CreatedFile {
        let name = try checkedForMaking(name, in: parent)
        do {
            let made = try makeFile(in: parent, name, mode: mode, isWriting: flags.writes, caller)
            let opened = try keepingPromise(openNew(made.row, made.content, flags), flags)
            return CreatedFile(attributes: try known(made.row), opened: opened)
        } catch let error as UbiquityError where error.code == .alreadyExists && !flags.contains(.exclusive) {
            // The file arrived just now, unknown to the kernel. ESTALE makes it look the name up again and then check
            // whether the program may open the file.
            throw Errno.ESTALE
        }
    }

    private func makeFile(
        in parent: UInt64, _ name: ItemName, mode: UInt32, isWriting: Bool, _ caller: Caller
    ) throws -> (row: ItemRow, content: NewContent) {
        var new = try newItem(.file, in: parent, mode: mode, caller)
        let content = try newContent()
        new.content = content.id
        new.isWriting = isWriting
        do {
            let row = try takingAlongClose { try index.create(in: parent, named: name, new, noting: $0) }
            return (row, content)
        } catch {
            drop(content)
            throw error
        }
    }

    /// - Parameter isRecorded: whether the index has recorded the writer.
    func openNew(
        _ row: ItemRow, _ content: NewContent, _ flags: OpenFlags, isRecorded: Bool = true
    ) throws -> OpenedFile {
        let node = openNodes.hold(row.ino)
        try node.state.withLock { state throws(Errno) in
            state.whole = OpenNode.Whole(
                file: content.file, id: content.id, isWritable: true, reader: content.reader)
            state.isNameSynced = content.isNameSynced
            state.registered = content.backing
            state.notePrivileges(row)
            guard flags.writes else { return }
            state.writers += 1
            state.isRecorded = isRecorded
            // A deleted name that was created again gets a version from its first sync on.
            state.awaitsFirstNote = isRecorded && row.version == nil && !row.isFresh
            try content.file.setTimes(accessed: nil, modified: row.modifiedAt)
            state.stamp = OpenNode.Stamp(try content.file.status())
        }
        return handle(on: node, flags, partial: nil, isNew: true)
    }

    /// Owner and group of a new item. In a directory with the set-group-id bit it gets the directory's group.
    func newItem(_ kind: ItemKind, in parent: UInt64, mode: UInt32, _ caller: Caller) throws -> NewItem {
        let directory = try directory(parent)
        var mode = mode & FileMode.permissions
        var gid = caller.gid
        if directory.mode & FileMode.setGroup != 0 {
            gid = directory.gid
            if kind == .directory { mode |= FileMode.setGroup }
        }
        return NewItem(kind: kind, mode: mode, uid: caller.uid, gid: gid, process: caller.pid)
    }

    /// The checked name, if an item may be created or moved there.
    func checkedForMaking(_ name: [UInt8], in parent: UInt64) throws -> ItemName {
        let name = try ItemName.checked(name)
        guard name != .versionsFolder, !isInVersions(parent) else { throw Errno.EPERM }
        guard try visibleConflict(named: name.bytes, in: parent) == nil else { throw Errno.EEXIST }
        refreshIgnoreFiles()
        return name
    }

    // MARK: Removing and renaming

    func removeFromTree(_ parent: UInt64, _ name: [UInt8], directory: Bool, _ caller: Caller?) throws {
        let name = try ItemName.checked(name)
        guard name != .versionsFolder else { throw Errno.EPERM }
        // The removed name may be the backup of a file closed just before; the index decides from both.
        finishCloses()
        let removed = try index.remove(
            from: parent, named: name, directory: directory, process: caller?.pid ?? 0)
        if let content = removed.content { drop(content) }
    }

    /// - Parameters:
    ///   - flags: of renameat2(2).
    ///   - caller: nil if unknown.
    func renameInTree(
        parent: UInt64, name: [UInt8], newParent: UInt64, newName: [UInt8], flags: UInt32, caller: Caller?
    ) throws {
        let mode: UbiquityIndex.RenameMode
        switch flags {
        case 0: mode = .replacing
        case 1: mode = .exclusive
        case 2: mode = .exchanging
        default: throw Errno.EINVAL
        }
        let name = try ItemName.checked(name)
        let newName = try checkedForMaking(newName, in: newParent)
        guard name != .versionsFolder else { throw Errno.EPERM }
        let (from, into) = (try directory(parent).key, try directory(newParent).key)
        let source = try index.child(of: from, named: name)
        let isFile = source?.kind == .file && mode == .replacing
        let target = isFile ? try index.child(of: into, named: newName) : nil
        if let target { finishCloses(of: target.ino) }
        if mode == .exchanging { finishCloses() }
        let isOnDisk = if let source, let target { try noteReplacement(of: target, by: source) } else { false }
        // A program may have read a placeholder to its end and now rename it to a backup. The backup must be complete.
        if let source, source.contentState == .partial { try parts.materializer.finishIfComplete(source.key) }
        let result = try takingAlongWrites(to: source?.ino, isOver: target != nil) { writing in
            try index.rename(
                from: parent, name, to: newParent, newName, mode, process: caller?.pid ?? 0, isOnDisk: isOnDisk,
                noting: writing)
        }
        forgetMoved(result.moved, at: newName, in: newParent)
        if let other = result.exchanged { forgetMoved(other, at: name, in: parent) }
        if let content = result.replaced?.content { drop(content) }
    }

    /// Invalidates the new name if the kernel does not know the moved inode. The kernel moves what it has at the old
    /// name; that was a file which another has replaced.
    private func forgetMoved(_ row: ItemRow, at name: ItemName, in parent: UInt64) {
        guard row.kind != .hardLink, !inodes.isKnown(row.ino) else { return }
        kernel.invalidateEntry(parent: parent, name: name)
    }

    /// Flushes a downloaded content. A download has its final size from the start, so the size cannot show whether its
    /// bytes are on disk.
    /// - Returns: whether the content was such a download.
    private func bringDownloadToDisk(_ content: ContentID, of source: ItemRow) throws -> Bool {
        guard !source.dirty.contains(.content), !source.isWriting,
            try index.peek({ try $0.isUnsynced(content) })
        else { return false }
        let file = try openFile(of: content, ino: source.ino) ?? contents.open(content, writable: false)
        try bringToDisk(content, of: source.ino, file)
        return true
    }

    /// Flushes a content that replaces another file's content before the index records the replacement.
    /// - Returns: whether the content is on disk.
    private func noteReplacement(of target: ItemRow, by source: ItemRow) throws -> Bool {
        guard target.kind == .file, let content = source.content, source.contentState == .complete,
            source.key != target.key
        else { return false }
        if try bringDownloadToDisk(content, of: source) { return true }
        return try contents.noteReplacement(content, openFile(of: content, ino: source.ino))
    }
}
