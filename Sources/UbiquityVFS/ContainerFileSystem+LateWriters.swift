internal import UbiquityIndex
internal import UbiquitySystem

/// What a handle is to write to that was opened for writing, with O_NONBLOCK, while the content was not here: a writer
/// only from the first call that needs the content. touch(1), and truncate(1) to nothing, never make one.
///
/// Lock order: `state` comes before the node's.
final class LateWriter: Sendable {
    enum State {
        case waiting
        case fetching(Task<Void, Never>)
        /// To be told once.
        case failed(any Error)
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

    /// What the handle writes to, and whether a write clears rights of the file.
    /// - Throws: `EAGAIN` if the content is not here; it is fetched from then on. The download's error, once, if that
    ///   failed.
    func writable(_ file: OpenFile) throws -> (file: FileDescriptor, hasPrivileges: Bool) {
        guard file.flags.writes else { throw Errno.EBADF }
        if let late = file.late, try !late.state.withLock({ try beginWriting(file, &$0) }) { throw Errno.EAGAIN }
        let (whole, hasPrivileges) = file.node.state.withLock { ($0.whole?.file, $0.hasPrivileges) }
        guard let whole else { throw Errno.EIO }
        return (whole, hasPrivileges)
    }

    /// - Returns: whether it is a writer now.
    private func beginWriting(_ file: OpenFile, _ state: inout LateWriter.State) throws -> Bool {
        switch state {
        case .writing: return true
        case .closed: throw Errno.EBADF
        case .failed(let error):
            state = .waiting
            throw error
        case .waiting, .fetching: break
        }
        if try attach(file.node, writes: true) {
            state = .writing
            return true
        }
        guard case .waiting = state else { return false }
        state = .fetching(Task.detached { [self] in await fetch(file) })
        return false
    }

    private func fetch(_ file: OpenFile) async {
        var next = LateWriter.State.waiting
        do { try await materialize(file.node.ino) } catch { next = .failed(error) }
        file.late?.state.withLock { state in
            if case .fetching = state { state = next }
        }
    }

    /// - Returns: whether it was a writer.
    func close(_ late: LateWriter) -> Bool {
        late.state.withLock { state in
            defer { state = .closed }
            if case .fetching(let task) = state { task.cancel() }
            if case .writing = state { return true }
            return false
        }
    }
}
