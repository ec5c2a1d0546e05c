internal import UbiquityIndex
internal import UbiquitySystem

/// What a handle is to write to that was opened for writing, with O_NONBLOCK, while the content was not here: a writer
/// only from the first call that needs the content. touch(1), and truncate(1) to nothing, never make one.
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
        // It has come just now, and others have it open past this process: what is written there must be known of.
        releaseUnclaimed(opened.handle)
        guard let whole = try openWhole(ino, flags) else { throw Errno.ESTALE }
        return whole
    }

    /// What the handle is about to write to. Rights of the file that a write takes away are gone then.
    /// - Throws: as `writable`.
    func written(_ file: OpenFile, by caller: Caller) throws -> FileDescriptor {
        let (whole, hasPrivileges) = try writable(file)
        if hasPrivileges, let row = try index.row(ino: file.node.ino) { try clearPrivileges(row, caller) }
        return whole
    }

    /// Returns the file the handle writes to, and whether a write clears rights of the file.
    /// - Throws: `EAGAIN` if the content is not here: the caller has to wait for `awaitWritable` first.
    func writable(_ file: OpenFile) throws -> (file: FileDescriptor, hasPrivileges: Bool) {
        guard file.flags.writes else { throw Errno.EBADF }
        guard try isWriter(file) else { throw Errno.EAGAIN }
        let (whole, hasPrivileges) = file.node.state.withLock { ($0.whole?.file, $0.hasPrivileges) }
        guard let whole else { throw Errno.EIO }
        return (whole, hasPrivileges)
    }

    /// Waits until the handle can write: O_NONBLOCK changes nothing on a regular file but the open. At once for a
    /// content that is here.
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

    /// Times that a write is tried anew because the content was evicted after its download.
    private static let writingAttempts = 16

    /// Writes, after the content is here.
    package func writeWhenWritable(
        _ handle: UInt64, offset: Int64, _ bytes: UnsafeRawBufferPointer, isSynced: Bool, caller: Caller
    ) throws -> Answer<Int> {
        switch try awaitWritable(handle) {
        case .now: return .now(try write(handle, offset: offset, bytes, isSynced: isSynced, caller: caller))
        case .later(let wait):
            // The kernel's buffer is gone by then.
            let copy = [UInt8](bytes)
            return .later { [self] in
                try await wait()
                return try copy.withUnsafeBytes {
                    try write(handle, offset: offset, $0, isSynced: isSynced, caller: caller)
                }
            }
        }
    }

    /// Makes the handle a writer if the content is here.
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
