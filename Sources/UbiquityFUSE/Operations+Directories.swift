internal import CFUSE
internal import UbiquityCore
internal import UbiquitySystem
internal import UbiquityVFS

/// Operations on an open directory.
func addDirectoryOperations(_ operations: inout fuse_lowlevel_ops) {
    // After the first answer the kernel opens and closes directories by itself and caches their listings; listing one
    // again does not reach this process. Kernels before 5.1 ask each time.
    operations.opendir = { request, _, info in
        guard let request, let context = SessionContext.of(fuse_req_userdata(request)) else { return }
        let reply = Reply(request)
        guard !context.handshake.opensDirectories, var info = info?.pointee else { return reply.error(.ENOSYS) }
        info.cache_readdir = 1
        info.keep_cache = 1
        _ = reply.send { fuse_reply_open($0, &info) }
    }
    operations.readdir = { request, ino, size, offset, _ in
        readDirectory(request, ino, size, offset, plus: false)
    }
    operations.readdirplus = { request, ino, size, offset, _ in
        readDirectory(request, ino, size, offset, plus: true)
    }
    operations.fsyncdir = { request, node, _, _ in
        serve(request, node) { fileSystem, _, reply in
            reply.answer(with: { try fileSystem.syncDirectory() }) { reply, _ in reply.done() }
        }
    }
}

/// Fills one buffer with entries.
private func readDirectory(_ request: fuse_req_t?, _ node: UInt64, _ size: Int, _ offset: off_t, plus: Bool) {
    guard let request else { return }
    serve(request, node) { fileSystem, ino, reply in
        guard !fileSystem.isInVersions(ino) else {
            return readVersions(fileSystem, reply, ino, size, Int64(offset), plus: plus)
        }
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 8)
        defer { buffer.deallocate() }
        var filler = DirectoryFiller(
            request: request, numbers: fileSystem.numbers, buffer: buffer, plus: plus)
        do {
            try fileSystem.readDirectory(
                ino, offset: Int64(offset), withAttributes: plus, room: size / DirectoryFiller.usualSize(plus)
            ) { filler.add($0) }
        } catch {
            // Entries already in the buffer have been counted as known to the kernel, so they must be sent.
            if filler.used == 0 { return reply.failure(error) }
        }
        if !reply.send({ fuse_reply_buf($0, filler.start, filler.used) }) {
            for ino in filler.lookups { fileSystem.forget(ino, 1) }
        }
    }
}

/// The same for a versions folder, whose listing may have to be waited for.
private func readVersions(
    _ fileSystem: ClaimedFileSystem, _ reply: consuming Reply, _ ino: UInt64, _ size: Int, _ offset: Int64, plus: Bool
) {
    reply.answerOrWait(with: { try fileSystem.versionsListing(ino, offset: offset) }) { reply, listing in
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 8)
        defer { buffer.deallocate() }
        _ = reply.send { request in
            var filler = DirectoryFiller(
                request: request, numbers: fileSystem.numbers, buffer: buffer, plus: plus)
            fileSystem.read(listing, offset: offset) { filler.add($0) }
            return fuse_reply_buf(request, filler.start, filler.used)
        }
    }
}

/// A buffer of directory entries in the kernel's format.
private struct DirectoryFiller {
    let request: fuse_req_t
    let numbers: NodeNumbers
    let buffer: UnsafeMutableRawBufferPointer
    let plus: Bool
    private(set) var used = 0
    /// Inodes of which the kernel will count one lookup when it takes the buffer.
    private(set) var lookups: [UInt64] = []

    var start: UnsafePointer<CChar>? { UnsafeRawPointer(buffer.baseAddress)?.assumingMemoryBound(to: CChar.self) }

    /// Bytes of an entry with a name of about 16 bytes.
    static func usualSize(_ plus: Bool) -> Int { plus ? 168 : 40 }

    init(request: fuse_req_t, numbers: NodeNumbers, buffer: UnsafeMutableRawBufferPointer, plus: Bool) {
        self.request = request
        self.numbers = numbers
        self.buffer = buffer
        self.plus = plus
    }

    /// - Returns: false if the entry does not fit.
    mutating func add(_ entry: DirectoryItem) -> Bool {
        let room = buffer.count - used
        let needed = entry.name.withUnsafeBufferPointer { name in
            withUnsafeTemporaryAllocation(of: CChar.self, capacity: name.count + 1) { text in
                for (position, byte) in name.enumerated() { text[position] = CChar(bitPattern: byte) }
                text[name.count] = 0
                return write(entry, text.baseAddress, room)
            }
        }
        guard needed <= room else { return false }
        used += needed
        if plus, entry.isCounted { lookups.append(entry.attributes.ino) }
        return true
    }

    private func write(_ entry: DirectoryItem, _ name: UnsafePointer<CChar>?, _ room: Int) -> Int {
        let start = buffer.baseAddress?.advanced(by: used).assumingMemoryBound(to: CChar.self)
        if plus {
            var parameters = entry.attributes.entry(numbers)
            // "." and ".." are not looked up: for an entry without an inode the kernel uses only the name.
            if !entry.isCounted {
                parameters.entry_timeout = 0
                parameters.ino = 0
            }
            return fuse_add_direntry_plus(request, start, room, name, &parameters, off_t(entry.offset))
        }
        var status = entry.attributes.status
        return fuse_add_direntry(request, start, room, name, &status, off_t(entry.offset))
    }
}
