internal import UbiquityIndex
internal import UbiquitySystem

/// The writing side of a handle opened for writing with O_NONBLOCK while the content was missing. It becomes a writer
/// with the first call that needs the content. touch(1), and truncate(1) to zero, never make one.
///
/// Lock order: `state` comes before the node's.
final class LateWriter: Sendable {
    enum State {
        case waiting
        case writing
        case closed
    }
    let state = Lock(State.waiting)

    var isWriting: Bool {
        state.withLock { state in
            if case .writing = state { return true }
            return false
        }
    }
}

extension ContainerFileSystem {
    func openLate(_ ino: UInt64, _ flags: OpenFlags) throws -> OpenedFile {
        let opened = handle(on: openNodes.hold(ino), flags, partial: nil, late: LateWriter())
        guard opened.backing != nil else { return opened }
        // The content arrived just now, and other handles read it directly through the kernel. Open it anew, so that
        // writes are recorded.
        releaseNow(opened.handle)
        guard let whole = try openWhole(ino, flags) else { throw Errno.ESTALE }
        return whole
    }

    /// The descriptor for a write. Clears the privileges that a write must clear.
    /// - Throws: as `writable`.
    func written(_ file: OpenFile, by caller: Caller) throws -> FileDescriptor {
        let (whole, hasPrivileges) = try writable(file)
        if hasPrivileges, let row = try index.row(ino: file.node.ino) { try clearPrivileges(row, caller) }
        return whole
    }

    /// The file the handle writes to, and whether a write clears privileges of the file.
    /// - Throws: `EAGAIN` if the content is missing: the caller must wait for `awaitWritable` first.
    func writable(_ file: OpenFile) throws -> (file: FileDescriptor, hasPrivileges: Bool) {
        guard file.flags.writes else { throw Errno.EBADF }
        guard try isWriter(file) else { throw Errno.EAGAIN }
        let (whole, hasPrivileges) = file.node.state.withLock { ($0.whole?.file, $0.hasPrivileges) }
        guard let whole else { throw Errno.EIO }
        return (whole, hasPrivileges)
    }

    /// Waits until the handle can write; returns at once if the content is complete. O_NONBLOCK affects only the open
    /// of a regular file.
    package func awaitWritable(_ handle: UInt64) throws -> Answer<Void> {
        let file = try files.object(handle)
        guard try file.flags.writes && !isWriter(file) else { return .now(()) }
        let waiting: Answer<Void> = .later { [self] in
            for _ in 0..<Self.writingAttempts {
                try await arriving.materialize(file.node.ino)
                if try isWriter(file) { return }
            }
            throw Errno.ESTALE
        }
        return waitingCalls.watching(waiting, file.node.ino)
    }

    /// Attempts of a write when the content is evicted after its download.
    private static let writingAttempts = 16

    /// Writes once the content is complete.
    package func writeWhenWritable(
        _ handle: UInt64, offset: Int64, _ bytes: UnsafeRawBufferPointer, isSynced: Bool, caller: Caller
    ) throws -> Answer<Int> {
        switch try awaitWritable(handle) {
        case .now: return .now(try write(handle, offset: offset, bytes, isSynced: isSynced, caller: caller))
        case .later(let wait):
            // The kernel's buffer is invalid by the time the content arrives.
            let copy = [UInt8](bytes)
            return .later { [self] in
                try await wait()
                return try copy.withUnsafeBytes {
                    try write(handle, offset: offset, $0, isSynced: isSynced, caller: caller)
                }
            }
        }
    }

    /// Makes the handle a writer if the content is complete.
    private func isWriter(_ file: OpenFile) throws -> Bool {
        guard let late = file.late else { return true }
        return try late.state.withLock { state in
            switch state {
            case .writing: return true
            case .closed: throw Errno.EBADF
            case .waiting:
                guard try attach(file.node, writes: true) else { return false }
                state = .writing
                return true
            }
        }
    }

    /// - Returns: whether it was a writer.
    func close(_ late: LateWriter) -> Bool {
        late.state.withLock { state in
            defer { state = .closed }
            if case .writing = state { return true }
            return false
        }
    }
}
