internal import UbiquityCoordination
internal import UbiquityCore
package import UbiquitySystem

/// The file system as programs see it: every use of an item is a claim. A file's claim lasts from open to release, a
/// name's while it changes.
///
/// It holds the claims of open files (`ProgramClaims`) and the callers that wait. `UbiquityFUSE` and the tests of POSIX
/// behaviour call it. It calls the raw `ContainerFileSystem`, whose methods have the same names. Reads and writes of an
/// open file, and listings, go straight to their rooms. Other modules cannot reach the raw file system through it.
///
/// An operation that must wait for a client is answered later; no thread that serves the kernel waits.
package final class ClaimedFileSystem: Sendable {
    let raw: ContainerFileSystem
    private let claims: ProgramClaims
    /// Threads of programs whose calls wait for a content or a claim; 0 for a thread that is not visible from here. A
    /// thread that waits in an open has no file open yet, but still keeps the mount from being removed.
    package let waitingCallers = WaitCounter<Int32>()

    /// The kernel's numbers of the container's inodes.
    package let numbers: NodeNumbers

    package init(_ raw: ContainerFileSystem, numbers: NodeNumbers = .first) {
        self.raw = raw
        self.numbers = numbers
        claims = ProgramClaims(raw.rooms)
    }

    /// Replaces this container by another one, or another one by this.
    package var exchange: ContainerExchange { raw.rooms.exchange }

    /// Releases all handles, after the mount serves another container. The index then records their writes.
    package func releaseAll() {
        for handle in raw.rooms.openFiles.entries.keys { release(handle) }
        raw.rooms.closes.finish()
        raw.rooms.mapped.end()
    }

    /// Throws EROFS if the container stands for a missing account: a new item would belong to nobody.
    private func requireAccount() throws(Errno) {
        guard raw.isVacant else { return }
        throw .EROFS
    }

    // MARK: Files

    /// Opens a file, as `ContainerFileSystem.open`. Also waits for clients that have the item claimed or must save it
    /// first.
    package func open(_ ino: UInt64, flags: OpenFlags, caller: Caller) throws -> Answer<OpenedFile> {
        let body: @Sendable () throws -> Answer<OpenedFile> = { [raw] in
            try raw.open(ino, flags: flags, caller: caller)
        }
        guard let coordination = claims.coordination else { return try body() }
        // A refused open waits for no claim, and no client has to save for it.
        if !coordination.isQuiet, try raw.rooms.wholeFiles.refusesDownload(ino, flags, caller) { return try body() }
        guard let intent = try claims.intent(toOpen: ino, flags) else {
            // Excluded files are not claimed, but the author of writes to them is recorded.
            return try body().map { [raw] opened in
                if flags.writes, coordination.hasPresenters {
                    raw.rooms.openFiles.setAuthor(coordination.doer(caller.pid), opened.handle)
                }
                return opened
            }
        }
        // O_NONBLOCK does not affect claims on regular files: the program waits as it does for a download.
        return try claims.opening(intent, caller, keeping: { $0.handle }, body)
    }

    /// Releases a handle that the kernel has closed, and its claim.
    package func release(_ handle: UInt64) {
        claims.release(handle) { raw.release(handle) }
    }

    /// Creates a file and opens it.
    package func create(
        parent: UInt64, name: [UInt8], mode: UInt32, flags: OpenFlags, caller: Caller
    ) throws -> Answer<CreatedFile> {
        try requireAccount()
        return try claims.change([.name(parent, name)], caller) { [self] in
            let made = try raw.create(parent: parent, name: name, mode: mode, flags: flags, caller: caller)
            try claims.hold(made, flags, caller)
            return .now(made)
        }
    }

    // MARK: Names and attributes

    package func makeDirectory(
        parent: UInt64, name: [UInt8], mode: UInt32, caller: Caller
    ) throws -> Answer<NodeAttributes> {
        try requireAccount()
        return try claims.change([.name(parent, name)], caller) { [raw] in
            .now(try raw.makeDirectory(parent: parent, name: name, mode: mode, caller: caller))
        }
    }

    package func makeSymlink(
        parent: UInt64, name: [UInt8], target: [UInt8], caller: Caller
    ) throws -> Answer<NodeAttributes> {
        try requireAccount()
        return try claims.change([.name(parent, name)], caller) { [raw] in
            .now(try raw.makeSymlink(parent: parent, name: name, target: target, caller: caller))
        }
    }

    package func makeNode(
        parent: UInt64, name: [UInt8], mode: UInt32, device: UInt32 = 0, caller: Caller
    ) throws -> Answer<NodeAttributes> {
        try requireAccount()
        return try claims.change([.name(parent, name)], caller) { [raw] in
            .now(try raw.makeNode(parent: parent, name: name, mode: mode, device: device, caller: caller))
        }
    }

    /// - Parameter caller: nil if unknown.
    package func link(
        _ ino: UInt64, newParent: UInt64, newName: [UInt8], caller: Caller? = nil
    ) throws -> Answer<NodeAttributes> {
        try claims.change([.name(newParent, newName)], caller) { [raw] in
            .now(try raw.link(ino, newParent: newParent, newName: newName))
        }
    }

    /// - Parameter caller: nil if unknown.
    package func unlink(parent: UInt64, name: [UInt8], caller: Caller? = nil) throws -> Answer<Void> {
        try claims.change([.item(parent, name, .writing(.forDeleting), withContents: false)], caller) { [raw] in
            try raw.unlink(parent: parent, name: name, caller: caller)
        }
    }

    /// - Parameter caller: nil if unknown.
    package func removeDirectory(parent: UInt64, name: [UInt8], caller: Caller? = nil) throws -> Answer<Void> {
        // A removed folder is empty, so claims on its contents do not matter.
        try claims.change([.item(parent, name, .writing(.forDeleting), withContents: false)], caller) { [raw] in
            try raw.removeDirectory(parent: parent, name: name, caller: caller)
        }
    }

    package func rename(
        parent: UInt64, name: [UInt8], newParent: UInt64, newName: [UInt8], flags: UInt32, caller: Caller? = nil
    ) throws -> Answer<Void> {
        // Programs often save a document to a new file and rename it over the old one. That counts as a change of the
        // document, not as a replacement.
        let isExchange = flags == 2
        let target = Access.writing(isExchange ? .forMoving : nil)
        let changes: [ProgramClaims.NameChange] = [
            .item(parent, name, .writing(.forMoving), withContents: true),
            .item(newParent, newName, target, withContents: isExchange),
        ]
        return try claims.change(changes, caller) { [raw] in
            try raw.rename(
                parent: parent, name: name, newParent: newParent, newName: newName, flags: flags, caller: caller)
        }
    }

    /// Sets attributes. A truncation by name and a change of mode or owner take a claim. Setting times takes none:
    /// every program does it, and an open file is claimed already.
    package func setAttributes(
        of ino: UInt64, _ changes: AttributeChanges, handle: UInt64? = nil, caller: Caller
    ) throws -> Answer<NodeAttributes> {
        try requireAccount()
        let body: @Sendable () throws -> Answer<NodeAttributes> = { [raw] in
            try raw.setAttributes(of: ino, changes, handle: handle, caller: caller)
        }
        let isOfContent = changes.size != nil
        guard handle == nil, isOfContent || changes.mode != nil || changes.uid != nil || changes.gid != nil else {
            // A change through an open file belongs to the program that opened it, whichever process makes the call.
            return try claims.attributing(toHolderOf: handle, caller, body)
        }
        return try claims.change(
            [.inode(ino, .writing(isOfContent ? nil : .contentIndependentMetadataOnly))], caller, body)
    }

    package func setXattr(
        of ino: UInt64, name: [UInt8], value: [UInt8], flags: Int32, caller: Caller
    ) throws -> Answer<Void> {
        try requireAccount()
        let body: @Sendable () throws -> Answer<Void> = { [raw] in
            try raw.setXattr(of: ino, name: name, value: value, flags: flags, caller: caller)
        }
        // A control attribute asks for its own claims; a decision about a version is an ordinary write.
        if ControlAttribute(name: name) != nil, !raw.isInVersions(ino) { return try body() }
        return try claims.change([.inode(ino, .writing(.contentIndependentMetadataOnly))], caller, body)
    }

    package func removeXattr(of ino: UInt64, name: [UInt8], caller: Caller) throws -> Answer<Void> {
        try requireAccount()
        let body: @Sendable () throws -> Answer<Void> = { [raw] in
            try raw.removeXattr(of: ino, name: name, caller: caller)
        }
        // As in setting it: a control attribute asks for its own claims.
        if ControlAttribute(name: name) == .pinned, !raw.isInVersions(ino) { return try body() }
        return try claims.change([.inode(ino, .writing(.contentIndependentMetadataOnly))], caller, body)
    }

    // MARK: Without a claim

    // Reading names and attributes takes no claim. Nor does a use of an open file, whose claim lasts from its open to
    // its release.

    package func lookup(parent: UInt64, name: [UInt8], caller: Caller? = nil) throws -> Answer<NodeAttributes?> {
        try raw.lookup(parent: parent, name: name, caller: caller)
    }

    package func forget(_ ino: UInt64, _ count: UInt64) { raw.forget(ino, count) }

    package func isInVersions(_ ino: UInt64) -> Bool { raw.isInVersions(ino) }

    package var showsConflicts: Bool { raw.showsConflicts }

    package func mayShowConflict(_ name: [UInt8]) -> Bool { raw.mayShowConflict(name) }

    package func readDirectory(
        _ ino: UInt64, offset: Int64, withAttributes: Bool, room: Int, emit: (DirectoryItem) -> Bool
    ) throws {
        try raw.rooms.directories.read(ino, offset: offset, withAttributes: withAttributes, room: room, emit: emit)
    }

    package func versionsListing(_ ino: UInt64, offset: Int64) throws -> Answer<VersionsListing> {
        try raw.rooms.versions.listing(ino, offset: offset)
    }

    package func read(_ listing: VersionsListing, offset: Int64, emit: (DirectoryItem) -> Bool) {
        raw.rooms.versions.read(listing, offset: offset, emit: emit)
    }

    package func syncDirectory() throws { try raw.rooms.contentSync.syncNames() }

    package func attributes(of ino: UInt64, handle: UInt64? = nil) throws -> NodeAttributes {
        try raw.attributes(of: ino, handle: handle)
    }

    package func readLink(_ ino: UInt64) throws -> [UInt8] { try raw.readLink(ino) }

    package func statistics() throws -> FileSystemStatus { try raw.statistics() }

    package func xattr(of ino: UInt64, name: [UInt8]) throws -> [UInt8] { try raw.xattr(of: ino, name: name) }

    package func xattrNames(of ino: UInt64, caller: Caller) throws -> [UInt8] {
        try raw.xattrNames(of: ino, caller: caller)
    }

    /// A file without a name is visible to its program only, so it takes no claim.
    package func createUnnamed(parent: UInt64, mode: UInt32, flags: OpenFlags, caller: Caller) throws -> CreatedFile {
        try requireAccount()
        return try raw.createUnnamed(parent: parent, mode: mode, flags: flags, caller: caller)
    }

    package func read(_ handle: UInt64, offset: Int64, length: Int) throws -> Answer<FileData> {
        try raw.rooms.io.read(handle, offset: offset, length: length)
    }

    package func awaitWritable(_ handle: UInt64) throws -> Answer<Void> { try raw.rooms.io.awaitWritable(handle) }

    package func write(
        _ handle: UInt64, offset: Int64, _ bytes: UnsafeRawBufferPointer, isSynced: Bool = false, caller: Caller
    ) throws -> Int {
        try raw.rooms.io.write(handle, offset: offset, bytes, isSynced: isSynced, caller: caller)
    }

    package func writeWhenWritable(
        _ handle: UInt64, offset: Int64, _ bytes: UnsafeRawBufferPointer, isSynced: Bool, caller: Caller
    ) throws -> Answer<Int> {
        try raw.rooms.io.writeWhenWritable(handle, offset: offset, bytes, isSynced: isSynced, caller: caller)
    }

    package func allocate(_ handle: UInt64, mode: Int32, offset: Int64, length: Int64, caller: Caller) throws {
        try raw.rooms.io.allocate(handle, mode: mode, offset: offset, length: length, caller: caller)
    }

    package func copyRange(
        from source: UInt64, at sourceOffset: Int64, to target: UInt64, at offset: Int64, length: Int64, caller: Caller
    ) throws -> Int64 {
        try raw.rooms.io.copyRange(
            from: source, at: sourceOffset, to: target, at: offset, length: length, caller: caller)
    }

    package func seek(_ handle: UInt64, offset: Int64, whence: Int32) throws -> Int64 {
        try raw.rooms.io.seek(handle, offset: offset, whence: whence)
    }

    /// Answers a kernel flush. Writes are never deferred to the close, so every write has already reported its errors.
    package func flush(_ handle: UInt64) throws { _ = try raw.rooms.openFiles.object(handle) }

    package func sync(_ handle: UInt64) throws { try raw.rooms.contentSync.sync(handle) }

    // MARK: Replays

    /// Whether the request comes from the process that replays remote changes.
    @inline(__always)
    package func isReplay(_ caller: Caller) -> Bool { raw.rooms.replays.isReplay(caller) }

    /// The calls that the replay process makes.
    package var replays: ReplayCalls { raw.rooms.replays }

    /// The answers to these calls.
    package var replayAnswers: ReplayAnswers { raw.rooms.replayAnswers }
}
