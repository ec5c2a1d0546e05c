internal import CFUSE
internal import UbiquityCore
internal import UbiquitySystem
internal import UbiquityVFS

/// Operations on an open directory.
func addDirectoryOperations(_ operations: inout fuse_lowlevel_ops) {
    operations.opendir = { request, ino, info in
        serve(request) { fileSystem, reply in
            guard let given = info?.pointee else { return reply.error(.EINVAL) }
            let isCached = !fileSystem.isInVersions(ino)
            reply.answerOrWait(with: { try fileSystem.openAnyDirectory(ino) }) { reply, opened in
                var info = given
                info.fh = opened.handle
                info.cache_readdir = isCached ? 1 : 0
                info.keep_cache = opened.keepsCache ? 1 : 0
                if !reply.send({ fuse_reply_open($0, &info) }) { fileSystem.releaseDirectory(opened.handle) }
            }
        }
    }
    operations.readdir = { request, _, size, offset, info in
        readDirectory(request, size, offset, info, plus: false)
    }
    operations.readdirplus = { request, _, size, offset, info in
        readDirectory(request, size, offset, info, plus: true)
    }
    operations.releasedir = { request, _, info in
        serve(request) { fileSystem, reply in
            if let handle = info?.pointee.fh { fileSystem.releaseDirectory(handle) }
            reply.done()
        }
    }
    operations.fsyncdir = { request, _, _, _ in
        serve(request) { fileSystem, reply in
            reply.answer(with: { try fileSystem.syncDirectory() }) { reply, _ in reply.done() }
        }
    }
}

/// Fills one buffer with entries.
private func readDirectory(
    _ request: fuse_req_t?, _ size: Int, _ offset: off_t, _ info: UnsafeMutablePointer<fuse_file_info>?, plus: Bool
) {
    guard let request else { return }
    serve(request) { fileSystem, reply in
        guard let handle = info?.pointee.fh else { return reply.error(.EBADF) }
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 8)
        defer { buffer.deallocate() }
        var filler = DirectoryFiller(request: request, buffer: buffer, plus: plus)
        do {
            try fileSystem.readDirectory(
                handle, offset: Int64(offset), withAttributes: plus, room: size / DirectoryFiller.usualSize(plus)
            ) { filler.add($0) }
        } catch {
            // What is in the buffer already has been counted as known to the kernel: it must be sent.
            if filler.used == 0 { return reply.failure(error) }
        }
        let start = UnsafeRawPointer(buffer.baseAddress)?.assumingMemoryBound(to: CChar.self)
        if !reply.send({ fuse_reply_buf($0, start, filler.used) }) {
            for ino in filler.lookups { fileSystem.forget(ino, 1) }
        }
    }
}

/// A buffer of directory entries, as the kernel takes them.
private struct DirectoryFiller {
    let request: fuse_req_t
    let buffer: UnsafeMutableRawBufferPointer
    let plus: Bool
    private(set) var used = 0
    /// Inodes that the kernel will count one lookup of when it takes the buffer.
    private(set) var lookups: [UInt64] = []

    /// Bytes of an entry with a name of about 16 bytes.
    static func usualSize(_ plus: Bool) -> Int { plus ? 168 : 40 }

    init(request: fuse_req_t, buffer: UnsafeMutableRawBufferPointer, plus: Bool) {
        self.request = request
        self.buffer = buffer
        self.plus = plus
    }

    /// - Returns: false if there is no room for the entry.
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
            var parameters = entry.attributes.entry
            // "." and ".." are not looked up: the kernel skips an entry without an inode but for its name.
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
