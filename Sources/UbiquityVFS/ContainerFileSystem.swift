internal import UbiquityContent
package import UbiquityCore
internal import UbiquityIndex
package import UbiquitySystem

/// A container as a POSIX file system, callable without a kernel. It takes no claims: programs reach it only through
/// `ClaimedFileSystem`.
///
/// It answers from the index and the backing files. Calls may come from any thread, and none waits for the network: an
/// operation that must wait returns `Answer.later`. Operations throw `Errno`, `UbiquityError` or `CancellationError`;
/// `Errno(describing:)` maps them to the error the calling program gets.
///
/// It holds no state but its rooms (`FileSystemRooms`), and passes each call to one of them. `ClaimedFileSystem` calls
/// it for programs. `UbiquityDaemon` calls it for commands and for the engine; no other module sees its POSIX calls.
///
/// Inode numbers come from the index (top folder 1). A directory keeps the number of its key; a file gets another
/// number when a remote update replaces it.
///
/// Lock order: `OpenNode.state`, then the index's writer, then the leaves. No lock is held across a wait.
package final class ContainerFileSystem: Sendable {
    let rooms: FileSystemRooms
    private let context: FileSystemContext

    /// - Parameter owner: the user of the mount, who owns the top folder.
    package init(_ parts: FileSystemParts, owner: (uid: UInt32, gid: UInt32)) throws {
        rooms = FileSystemRooms(parts)
        context = rooms.context
        if let root = try parts.index.row(ino: 1), root.uid != owner.uid {
            _ = try parts.index.setAttributes(ino: 1, AttributeChange(uid: owner.uid, gid: owner.gid))
        }
        let contents = parts.contents
        parts.index.beforeDurable { try contents.beginIndexSync() } end: { contents.endIndexSync() }
        parts.index.observe { [weak news = rooms.news] events in news?.observe(events) }
        rooms.ignoreFiles.add(try parts.index.foldersWithIgnoreFiles())
        rooms.ignoreFiles.refresh()
    }

    // MARK: Names

    /// The item of that name; nil if there is none. May have to ask the cloud for versions. The kernel counts one
    /// lookup of the returned inode.
    /// - Parameter caller: nil if unknown.
    func lookup(parent: UInt64, name: [UInt8], caller: Caller? = nil) throws -> Answer<NodeAttributes?> {
        if let node = context.versionNodes.node(parent) {
            return try rooms.versions.lookup(node, name: name, caller: caller)
        }
        if let entry = try rooms.visibleConflicts.entry(named: name, in: parent) {
            return .now(try rooms.versions.known(entry.node, entry.version))
        }
        return .now(try rooms.namespace.lookup(parent: parent, name: name))
    }

    /// The kernel forgets `count` lookups of the inode.
    func forget(_ ino: UInt64, _ count: UInt64) {
        if isInVersions(ino) { return rooms.versions.forget(ino, count) }
        context.inodes.forget(ino, count)
        rooms.unnamed.forget(ino)
    }

    /// Whether the inode is in a versions folder: then operations on it may have to wait, and the kernel caches
    /// nothing.
    func isInVersions(_ ino: UInt64) -> Bool { context.versionNodes.node(ino) != nil }

    /// Whether directories show the losing versions of documents in conflict.
    var showsConflicts: Bool { rooms.visibleConflicts.isOn }

    /// Whether a conflict can give a directory this name. Then the kernel must not remember that the directory lacks
    /// the name.
    func mayShowConflict(_ name: [UInt8]) -> Bool { rooms.visibleConflicts.mayShow(name) }

    func create(
        parent: UInt64, name: [UInt8], mode: UInt32, flags: OpenFlags, caller: Caller
    ) throws -> CreatedFile {
        try rooms.namespace.create(parent: parent, name: name, mode: mode, flags: flags, caller: caller)
    }

    func createUnnamed(parent: UInt64, mode: UInt32, flags: OpenFlags, caller: Caller) throws -> CreatedFile {
        try rooms.unnamed.create(parent: parent, mode: mode, flags: flags, caller: caller)
    }

    func makeNode(
        parent: UInt64, name: [UInt8], mode: UInt32, device: UInt32 = 0, caller: Caller
    ) throws -> NodeAttributes {
        try rooms.namespace.makeNode(parent: parent, name: name, mode: mode, device: device, caller: caller)
    }

    func makeDirectory(parent: UInt64, name: [UInt8], mode: UInt32, caller: Caller) throws -> NodeAttributes {
        try rooms.namespace.makeDirectory(parent: parent, name: name, mode: mode, caller: caller)
    }

    func makeSymlink(
        parent: UInt64, name: [UInt8], target: [UInt8], caller: Caller
    ) throws -> NodeAttributes {
        try rooms.namespace.makeSymlink(parent: parent, name: name, target: target, caller: caller)
    }

    func link(_ ino: UInt64, newParent: UInt64, newName: [UInt8]) throws -> NodeAttributes {
        try rooms.namespace.link(ino, newParent: newParent, newName: newName)
    }

    /// Removes a name, also that of a version.
    /// - Parameter caller: nil if unknown.
    func unlink(parent: UInt64, name: [UInt8], caller: Caller? = nil) throws -> Answer<Void> {
        try rooms.decisions.remove(parent: parent, name: name, directory: false, caller: caller)
    }

    /// Removes an empty directory, also an emptied version of a package.
    /// - Parameter caller: nil if unknown.
    func removeDirectory(parent: UInt64, name: [UInt8], caller: Caller? = nil) throws -> Answer<Void> {
        try rooms.decisions.remove(parent: parent, name: name, directory: true, caller: caller)
    }

    /// - Parameter caller: nil if unknown.
    func rename(
        parent: UInt64, name: [UInt8], newParent: UInt64, newName: [UInt8], flags: UInt32, caller: Caller? = nil
    ) throws -> Answer<Void> {
        try rooms.decisions.rename(
            parent: parent, name: name, newParent: newParent, newName: newName, flags: flags, caller: caller)
    }

    // MARK: Attributes

    /// - Parameter handle: the open file's handle, if the request has one.
    func attributes(of ino: UInt64, handle: UInt64? = nil) throws -> NodeAttributes {
        if let node = context.versionNodes.node(ino) { return try rooms.versions.attributes(of: node, ino) }
        return try rooms.attributes.of(ino)
    }

    /// - Parameter handle: the open file's handle, if the change has one (ftruncate).
    func setAttributes(
        of ino: UInt64, _ changes: AttributeChanges, handle: UInt64? = nil, caller: Caller
    ) throws -> Answer<NodeAttributes> {
        guard !isInVersions(ino) else { throw Errno.EPERM }
        return try rooms.attributeSetter.set(ino, changes, handle: handle, caller: caller)
    }

    func readLink(_ ino: UInt64) throws -> [UInt8] {
        if let node = context.versionNodes.node(ino) { return try rooms.versions.readLink(node) }
        return try rooms.attributes.readLink(ino)
    }

    func statistics() throws -> FileSystemStatus { try rooms.attributes.statistics() }

    func xattr(of ino: UInt64, name: [UInt8]) throws -> [UInt8] { try rooms.xattrs.value(of: ino, name: name) }

    func xattrNames(of ino: UInt64, caller: Caller) throws -> [UInt8] {
        try rooms.xattrs.names(of: ino, caller: caller)
    }

    func setXattr(
        of ino: UInt64, name: [UInt8], value: [UInt8], flags: Int32, caller: Caller
    ) throws -> Answer<Void> {
        try rooms.xattrs.set(of: ino, name: name, value: value, flags: flags, caller: caller)
    }

    func removeXattr(of ino: UInt64, name: [UInt8], caller: Caller) throws -> Answer<Void> {
        try rooms.xattrs.remove(of: ino, name: name, caller: caller)
    }

    // MARK: Open files

    func open(_ ino: UInt64, flags: OpenFlags, caller: Caller) throws -> Answer<OpenedFile> {
        if let node = context.versionNodes.node(ino) { return try rooms.versions.open(node, ino, flags, caller) }
        return try rooms.opening.open(ino, flags: flags, caller: caller)
    }

    /// Releases a handle that the kernel has closed. After the last writer's release the index records the changes.
    func release(_ handle: UInt64) { rooms.closes.release(handle) }

    // MARK: For the daemon

    /// Whether the container is empty because nobody is signed in, or documents are off.
    package var isVacant: Bool { context.parts.vacancy != nil }

    package var replays: ReplayCalls { rooms.replays }
    /// Whether programs may still see the state before some remote change.
    package var hasNewsForKernel: Bool { context.parts.kernel.hasNews }
    package var versionNames: VersionNames { rooms.versions.names }
    package var idle: IdleContents { rooms.service.idle }

    /// Whether items that an ignore file excluded may soon be synced, because the file may be gone for good.
    package var awaitsIgnoreFiles: Bool { rooms.ignoreFiles.isWaiting }
    package func refreshIgnoreFiles() { rooms.ignoreFiles.refresh() }

    /// Whether a program has the item open. Eviction asks before it removes the content.
    package func isOpen(_ key: ItemKey) throws -> Bool {
        guard let row = try context.parts.index.row(key: key) else { return false }
        return rooms.closes.isOpen(row.ino)
    }

    /// Runs `body`, which removes the content, while no program can open the item; nil if one has it open. Otherwise a
    /// reader and the next writer would have different files open.
    package func whileClosed<R>(_ key: ItemKey, _ body: () throws -> R) throws -> R? {
        guard let row = try context.parts.index.row(key: key) else { return try body() }
        rooms.closes.finish(of: row.ino)
        return try context.openNodes.whileClosed(row.ino) {
            rooms.service.forgetIdle(row.ino)
            return try body()
        }
    }

    /// Number of handles that programs have open.
    package var openHandleCount: Int { rooms.closes.openHandleCount }
    /// Inode numbers of the files that programs have open for writing.
    package var writtenInodes: [UInt64] { rooms.closes.writtenInodes }

    /// Records the writes so far to a file that may still be open. A later change that counts as newer then finds them
    /// recorded.
    package func recordWrites(to ino: UInt64) throws { try rooms.recorder.recordWrites(to: ino) }

    /// Adopts the files that programs of a dead mount still write to.
    package func adoptWriters() throws { try rooms.wholeFiles.adoptWriters() }

    /// Writes the times of last use to the index. Eviction calls it before it sorts items by last use.
    package func flushUses() { rooms.uses.flush() }

    /// Whether the content belongs to a file without a name.
    package func isUnnamed(_ content: ContentID) -> Bool { rooms.unnamed.has(content) }

    /// Starts using the content journal once its file is prepared.
    /// - Parameter pool: a pool of one thread that syncs contents.
    package func beginJournal(_ pool: BlockingPool) { rooms.contentSync.beginJournal(pool) }

    /// Writes the content journal's contents to their files and syncs them. Call it from a thread that may wait.
    package func flushJournal() throws { try rooms.contentSync.flushJournal() }

    /// Writes the changes deferred for batching. Called periodically, and before the end.
    package func flush() {
        rooms.uses.flushIfDue()
        rooms.closes.finish()
        rooms.wholeFiles.retryRecords()
        rooms.recorder.recordOpenWriters()
        rooms.ignoreFiles.refresh()
        rooms.service.letGo(of: idle.removeOld(now: context.parts.timekeeper.now()))
    }

    /// Discards the files that were made ahead and the contents of files without a name. For the end of the mount.
    package func endPreparation() { rooms.newContents.end() }
    package func endUnnamed() { rooms.unnamed.end() }

    /// Describes a broken invariant; nil if all hold.
    /// - Parameter whileIdle: also checks the invariants that hold only when no operation is in progress.
    package func violation(whileIdle: Bool) -> String? {
        if let found = context.inodes.violation() { return found }
        guard whileIdle else { return nil }
        rooms.closes.finish()
        return rooms.openFiles.violation()
    }
}
