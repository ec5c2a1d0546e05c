internal import Synchronization
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Names in directories: lookup, create, link, remove and rename.
///
/// It has no state of its own; the index has the names, and `InodeTable` what the kernel knows of them. The façade,
/// `VersionDecisions` and `ReplayAnswers` call it. It calls `Attributes`, `WholeFiles`, `NewContents`, `DelayedCloses`
/// and `UnnamedFiles`.
final class Namespace: Room {
    let context: FileSystemContext
    private let attributes: Attributes
    private let versions: VersionsFolder
    private let visibleConflicts: VisibleConflicts
    private let ignoreFiles: IgnoreFiles
    private let unnamed: UnnamedFiles
    private let wholeFiles: WholeFiles
    private let newContents: NewContents
    private let closes: DelayedCloses
    private let backing: BackingFiles

    init(
        _ context: FileSystemContext, attributes: Attributes, versions: VersionsFolder,
        visibleConflicts: VisibleConflicts, ignoreFiles: IgnoreFiles, unnamed: UnnamedFiles, wholeFiles: WholeFiles,
        newContents: NewContents, closes: DelayedCloses, backing: BackingFiles
    ) {
        self.context = context
        self.attributes = attributes
        self.versions = versions
        self.visibleConflicts = visibleConflicts
        self.ignoreFiles = ignoreFiles
        self.unnamed = unnamed
        self.wholeFiles = wholeFiles
        self.newContents = newContents
        self.closes = closes
        self.backing = backing
    }

    /// The item of that name; nil if there is none. The kernel counts one lookup of the returned inode.
    func lookup(parent: UInt64, name: [UInt8]) throws -> NodeAttributes? {
        let name = try ItemName.checked(name)
        let directory = try context.directory(parent)
        guard name != .versionsFolder else { return try versions.folder(of: directory) }
        while true {
            let listing = inodes.withNode(parent) { $0.listing }
            let commits = inodes.foreignCommits.load(ordering: .acquiring)
            if let row = try index.child(of: directory.key, named: name) {
                let found = try attributes.known(row, since: commits) {
                    try index.child(of: directory.key, named: name)
                }
                guard let found else { continue }
                return found
            }
            if recordAbsence(of: name, in: parent, since: listing) { return nil }
        }
    }

    /// Records that the kernel caches the absence of the name, so that it is invalidated when the name appears.
    /// - Returns: false if the directory changed since its listing had that number; the name may exist by now.
    private func recordAbsence(of name: ItemName, in parent: UInt64, since listing: UInt64?) -> Bool {
        var forgotten: ItemName?
        let isRecorded = inodes.withNode(parent) { node in
            guard node.listing == listing else { return false }
            guard !node.absences.contains(name) else { return true }
            if node.absences.count >= InodeTable.maximumAbsences { forgotten = node.absences.popFirst() }
            node.absences.insert(name)
            return true
        }
        if let forgotten { kernel.invalidateEntry(parent: parent, name: forgotten) }
        return isRecorded ?? true
    }

    // MARK: Creating

    /// mknod(2): creates a file, or a special file that stays on this device.
    /// - Parameter device: the device number of a device node, as in `st_rdev`.
    func makeNode(
        parent: UInt64, name: [UInt8], mode: UInt32, device: UInt32 = 0, caller: Caller
    ) throws -> NodeAttributes {
        guard let kind = FileMode.kindOfNode(mode) else { throw Errno.EPERM }
        let name = try checkedForMaking(name, in: parent)
        guard kind.isSpecial else {
            let made = try makeFile(in: parent, name, mode: mode, isWriting: false, caller)
            // The call opens no handle, so the registration must go: it would keep the content's disk space after the
            // file is deleted.
            if let backing = made.content.backing { context.parts.passthrough.unregister(backing) }
            return try attributes.known(made.row)
        }
        var new = try context.newItem(kind, in: parent, mode: mode, caller)
        if kind == .characterDevice || kind == .blockDevice { new.device = device }
        return try attributes.known(index.create(in: parent, named: name, new))
    }

    func makeDirectory(parent: UInt64, name: [UInt8], mode: UInt32, caller: Caller) throws -> NodeAttributes {
        let name = try checkedForMaking(name, in: parent)
        let new = try context.newItem(.directory, in: parent, mode: mode, caller)
        return try attributes.known(index.create(in: parent, named: name, new))
    }

    func makeSymlink(
        parent: UInt64, name: [UInt8], target: [UInt8], caller: Caller
    ) throws -> NodeAttributes {
        let name = try checkedForMaking(name, in: parent)
        guard target.count <= Limits.maximumLinkLength else { throw Errno.ENAMETOOLONG }
        var new = try context.newItem(.symlink, in: parent, mode: 0o777, caller)
        new.linkTarget = target
        return try attributes.known(index.create(in: parent, named: name, new))
    }

    /// Gives a file or special file a further name.
    func link(_ ino: UInt64, newParent: UInt64, newName: [UInt8]) throws -> NodeAttributes {
        let name = try checkedForMaking(newName, in: newParent)
        guard !isInVersions(ino) else { throw Errno.EPERM }
        closes.finish(of: ino)
        guard try attributes.of(ino).links < Limits.maximumLinks else { throw Errno.EMLINK }
        if unnamed.has(ino) { return try unnamed.name(ino, in: newParent, name) }
        // A link to a file that was just read to its end must link a complete file, as a backup does.
        _ = try index.row(ino: ino).map(context.finished)
        var linked = try attributes.known(index.link(ino: ino, in: newParent, named: name))
        // The kernel takes this answer for the newest, even after a concurrent invalidation. Marked as changing, the
        // attributes are asked for again.
        linked.isChanging = true
        return linked
    }

    /// Creates a file and opens it.
    func create(
        parent: UInt64, name: [UInt8], mode: UInt32, flags: OpenFlags, caller: Caller
    ) throws -> CreatedFile {
        let name = try checkedForMaking(name, in: parent)
        do {
            let made = try makeFile(in: parent, name, mode: mode, isWriting: flags.writes, caller)
            let opened = try wholeFiles.keepingPromise(wholeFiles.openNew(made.row, made.content, flags), flags)
            return CreatedFile(attributes: try attributes.known(made.row), opened: opened)
        } catch let error as UbiquityError where error.code == .alreadyExists && !flags.contains(.exclusive) {
            // The file arrived just now, unknown to the kernel. ESTALE makes it look the name up again and then check
            // whether the program may open the file.
            throw Errno.ESTALE
        }
    }

    private func makeFile(
        in parent: UInt64, _ name: ItemName, mode: UInt32, isWriting: Bool, _ caller: Caller
    ) throws -> (row: ItemRow, content: NewContent) {
        var new = try context.newItem(.file, in: parent, mode: mode, caller)
        let content = try newContents.make()
        new.content = content.id
        new.isWriting = isWriting
        do {
            let row = try closes.includingClose { try index.create(in: parent, named: name, new, noting: $0) }
            return (row, content)
        } catch {
            newContents.drop(content)
            throw error
        }
    }

    /// The checked name, if an item may be created or moved there.
    func checkedForMaking(_ name: [UInt8], in parent: UInt64) throws -> ItemName {
        let name = try ItemName.checked(name)
        guard name != .versionsFolder, !isInVersions(parent) else { throw Errno.EPERM }
        guard try visibleConflicts.entry(named: name.bytes, in: parent) == nil else { throw Errno.EEXIST }
        ignoreFiles.refresh()
        return name
    }

    // MARK: Removing and renaming

    func remove(_ parent: UInt64, _ name: [UInt8], directory: Bool, _ caller: Caller?) throws {
        let name = try ItemName.checked(name)
        guard name != .versionsFolder else { throw Errno.EPERM }
        // The removed name may be the backup of a file closed just before; the index decides from both.
        closes.finish()
        let removed = try index.remove(
            from: parent, named: name, directory: directory, process: caller?.pid ?? 0)
        if let content = removed.content { context.drop(content) }
    }

    /// - Parameters:
    ///   - flags: of renameat2(2).
    ///   - caller: nil if unknown.
    func rename(
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
        let (from, into) = (try context.directory(parent).key, try context.directory(newParent).key)
        let source = try index.child(of: from, named: name)
        let isFile = source?.kind == .file && mode == .replacing
        let target = isFile ? try index.child(of: into, named: newName) : nil
        if let target { closes.finish(of: target.ino) }
        if mode == .exchanging { closes.finish() }
        let isOnDisk = if let source, let target { try flushReplacement(of: target, by: source) } else { false }
        // A program may have read a placeholder to its end and now rename it to a backup. The backup must be complete.
        if let source, source.contentState == .partial { try context.parts.materializer.finishIfComplete(source.key) }
        let result = try closes.includingWrites(to: source?.ino, isOver: target != nil) { writing in
            try index.rename(
                from: parent, name, to: newParent, newName, mode, process: caller?.pid ?? 0, isOnDisk: isOnDisk,
                noting: writing)
        }
        forgetMoved(result.moved, at: newName, in: newParent)
        if let other = result.exchanged { forgetMoved(other, at: name, in: parent) }
        if let content = result.replaced?.content { context.drop(content) }
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
        let file = try backing.openFile(of: content, ino: source.ino) ?? contents.open(content, writable: false)
        try backing.bringToDisk(content, of: source.ino, file)
        return true
    }

    /// Flushes a content that replaces another file's content before the index records the replacement.
    /// - Returns: whether the content is on disk.
    private func flushReplacement(of target: ItemRow, by source: ItemRow) throws -> Bool {
        guard target.kind == .file, let content = source.content, source.contentState == .complete,
            source.key != target.key
        else { return false }
        if try bringDownloadToDisk(content, of: source) { return true }
        return try contents.noteReplacement(content, backing.openFile(of: content, ino: source.ino))
    }
}
