internal import CFUSE
internal import CUbiquityShims
internal import Glibc
internal import Synchronization

/// The first message of a session: the capabilities the kernel offers and those accepted.
///
/// libfuse 3.14 knows some capabilities but never sends others: it accepts PARALLEL_DIROPS and leaves it out of the
/// answer. So this type completes the answer on its way to the kernel. The kernel ignores flags it does not know.
/// Passthrough, unknown to libfuse 3.14, is requested here too.
final class Handshake: Sendable {
    private let isDone = Atomic(false)
    private let isOffered = Atomic(false)
    private let areRingsOffered = Atomic(false)
    private let isMappingOffered = Atomic(false)
    private let opensDirectoriesFlag = Atomic(false)
    private let passthrough: KernelPassthrough
    private let rings: RequestRings

    init(_ passthrough: KernelPassthrough, _ rings: RequestRings) {
        self.passthrough = passthrough
        self.rings = rings
    }

    /// Largest read or write request in bytes: the most that kernels accept without further settings (256 pages).
    static let maximumRequest: UInt32 = 1024 * 1024
    /// Limit for read-ahead and asynchronous direct requests in flight, of all files together. Requests that wait for a
    /// download count. When the limit is reached, reads of downloaded files wait too. So it is far more than the
    /// readers of one machine at a time (the kernel's default is 12).
    static let maximumBackground: UInt32 = 4096

    // linux/fuse.h
    /// Lookups and readdirs of one directory may run in parallel.
    private static let parallelDirectoryOperations: UInt32 = 1 << 18
    /// The file system clears the set-user-id bits on write, truncate and chown. With this flag the kernel stops asking
    /// for `security.capability` at every write.
    private static let handleKillPrivilegesV2: UInt32 = 1 << 28

    /// Whether the kernel can open directories without asking.
    var opensDirectories: Bool { opensDirectoriesFlag.load(ordering: .relaxed) }

    /// Chooses from libfuse's list.
    func choose(_ connection: inout fuse_conn_info) {
        opensDirectoriesFlag.store(connection.capable & UInt32(FUSE_CAP_NO_OPENDIR_SUPPORT) != 0, ordering: .relaxed)
        take(FUSE_CAP_SPLICE_WRITE, &connection)
        take(FUSE_CAP_READDIRPLUS, &connection)
        take(FUSE_CAP_READDIRPLUS_AUTO, &connection)
        take(FUSE_CAP_ATOMIC_O_TRUNC, &connection)
        take(FUSE_CAP_ASYNC_READ, &connection)
        take(FUSE_CAP_CACHE_SYMLINKS, &connection)
        // Every change of content comes through the kernel or is announced. So the kernel must not drop a file's pages
        // because a write left an mtime other than the cached one.
        if take(FUSE_CAP_EXPLICIT_INVAL_DATA, &connection) { leave(FUSE_CAP_AUTO_INVAL_DATA, &connection) }
        leave(FUSE_CAP_WRITEBACK_CACHE, &connection)
        // With it, a read past the page cache (O_DIRECT) would wait for its requests where no signal reaches it.
        leave(FUSE_CAP_ASYNC_DIO, &connection)
        // A request through a pipe costs two more system calls than one into memory; most requests are small.
        leave(FUSE_CAP_SPLICE_READ, &connection)
        // Moving would take pages out of the backing file's cache.
        leave(FUSE_CAP_SPLICE_MOVE, &connection)
        // Version 2 is requested instead.
        leave(FUSE_CAP_HANDLE_KILLPRIV, &connection)
        connection.max_write = Self.maximumRequest
        connection.max_readahead = Self.maximumRequest
        connection.max_background = Self.maximumBackground
        connection.congestion_threshold = Self.maximumBackground * 3 / 4
    }

    @discardableResult
    private func take(_ capability: Int32, _ connection: inout fuse_conn_info) -> Bool {
        connection.want |= connection.capable & UInt32(capability)
        return connection.capable & UInt32(capability) != 0
    }

    private func leave(_ capability: Int32, _ connection: inout fuse_conn_info) {
        connection.want &= ~UInt32(capability)
    }

    /// Reads from the kernel's INIT, the first message, whether it offers passthrough and rings.
    func look(at message: UnsafeRawPointer, length: Int) {
        guard !isDone.load(ordering: .relaxed), length >= Self.offerLength else { return }
        let flags = message.loadUnaligned(fromByteOffset: Self.offeredFlags, as: UInt32.self)
        let more = message.loadUnaligned(fromByteOffset: Self.offeredFlags + 4, as: UInt32.self)
        guard flags & CUbiquity_FUSE_INIT_EXT != 0 else { return }
        isMappingOffered.store(more & CUbiquity_FUSE_MAPPING_FLAGS2 != 0, ordering: .relaxed)
        isOffered.store(more & CUbiquity_FUSE_PASSTHROUGH_FLAGS2 != 0, ordering: .relaxed)
        areRingsOffered.store(more & CUbiquity_FUSE_OVER_IO_URING_FLAGS2 != 0, ordering: .relaxed)
    }

    /// Completes the answer to INIT, the first message sent.
    /// - Parameter vector: the message's header, then the answer.
    /// - Returns: whether the message was that answer.
    func complete(_ vector: UnsafeMutablePointer<iovec>, count: Int32) -> Bool {
        guard !isDone.load(ordering: .relaxed) else { return false }
        guard count > 1, vector[1].iov_len >= Self.answerLength, let answer = vector[1].iov_base else { return false }
        isDone.store(true, ordering: .relaxed)
        var flags = answer.loadUnaligned(fromByteOffset: Self.flagsOffset, as: UInt32.self)
        flags |= Self.parallelDirectoryOperations | Self.handleKillPrivilegesV2
        var more = answer.loadUnaligned(fromByteOffset: Self.moreFlagsOffset, as: UInt32.self)
        if passthrough.isWanted, isOffered.load(ordering: .relaxed) {
            more |= CUbiquity_FUSE_PASSTHROUGH_FLAGS2
            answer.storeBytes(of: 1, toByteOffset: Self.stackDepthOffset, as: UInt32.self)
        }
        if rings.isWanted, areRingsOffered.load(ordering: .relaxed) { more |= CUbiquity_FUSE_OVER_IO_URING_FLAGS2 }
        if isMappingOffered.load(ordering: .relaxed) { more |= CUbiquity_FUSE_MAPPING_FLAGS2 }
        if more != 0 { flags |= CUbiquity_FUSE_INIT_EXT }
        answer.storeBytes(of: flags, toByteOffset: Self.flagsOffset, as: UInt32.self)
        answer.storeBytes(of: more, toByteOffset: Self.moreFlagsOffset, as: UInt32.self)
        return true
    }

    /// Starts passthrough and rings once the kernel has accepted the answer.
    func begin(session: Int32) {
        if isOffered.load(ordering: .relaxed) { passthrough.begin(session: session) } else { passthrough.isMissing() }
        if areRingsOffered.load(ordering: .relaxed) { rings.begin(device: session) } else { rings.areMissing() }
    }

    /// struct fuse_init_out since protocol 7.23.
    private static let answerLength = 64
    private static let flagsOffset = 12
    private static let moreFlagsOffset = 32
    /// How many file systems may be stacked: the backing files must be on one that is stacked on no other.
    private static let stackDepthOffset = 36
    /// A header of 40 bytes, and struct fuse_init_in up to its second flags (7.36).
    private static let offerLength = 60
    private static let offeredFlags = 52
}

/// Sends messages as libfuse would, and completes the first. A nonisolated function: it runs on libfuse's threads.
func makeSessionIO() -> fuse_custom_io {
    var io = fuse_custom_io()
    io.writev = { descriptor, vector, count, userdata in
        guard let vector, let context = SessionContext.of(userdata) else { return writev(descriptor, vector, count) }
        guard context.handshake.complete(vector, count: count) else {
            return context.send(vector, count, descriptor)
        }
        let result = writev(descriptor, vector, count)
        let error = errno
        if result > 0 { context.handshake.begin(session: descriptor) }
        errno = error
        return result
    }
    io.read = { descriptor, buffer, length, userdata in
        let context = SessionContext.of(userdata)
        while true {
            let count = context?.turn.read(descriptor, buffer, length) ?? read(descriptor, buffer, length)
            guard count > 0, let buffer else { return count }
            context?.handshake.look(at: buffer, length: count)
            guard BirthTime.answer(UnsafeRawBufferPointer(start: buffer, count: count), context, descriptor) else {
                return count
            }
        }
    }
    // Both ends are pipes or the device, which have no offsets.
    io.splice_send = { from, _, to, _, length, flags, _ in CUbiquity_splice(from, nil, to, nil, length, flags) }
    return io
}
