internal import UbiquityCoordination
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

// Closes that the index is told of with the next change (`ClosingFiles`).
extension ContainerFileSystem {
    /// Puts off what the release of a handle has to do. Not while clients take part: they are told whose doing it is,
    /// and may wait for the close.
    /// - Returns: false if it has to be done now.
    func putOff(_ handle: UInt64) -> Bool {
        guard parts.delaysCloses, let file = try? files.object(handle), file.flags.writes, file.late == nil,
            parts.coordination?.isQuiet ?? true, file.node.state.withLock({ $0.isRecorded }),
            closing.add(handle, of: file.node.ino)
        else { return false }
        if closing.beginWatch() { watchClosing() }
        return true
    }

    private func watchClosing() {
        let timekeeper = parts.timekeeper
        Task.detached { [weak self] in
            while let self, !self.closing.endIfIdle() {
                // Only a cancelled task is woken early, and nobody cancels this one.
                try? await timekeeper.sleep(for: ClosingFiles.delay)
                self.finishCloses()
            }
        }
    }

    /// Has the index told of the closes that it was not told of yet, of this inode or of all.
    func finishCloses(of ino: UInt64? = nil) {
        while let handle = closing.take(ino) { releaseUnclaimed(handle) }
    }

    /// Runs a change of the index that takes along what is to be noted of a close, if there is one and nobody writes to
    /// the file any more.
    /// - Parameter ino: whose close; nil for whichever there is.
    func takingAlongClose<R>(of ino: UInt64? = nil, _ change: (WritingNote?) throws -> R) throws -> R {
        guard let handle = closing.take(ino), let node = try? files.object(handle).node else { return try change(nil) }
        let result: R?
        do {
            defer { releaseUnclaimed(handle) }
            result = try node.state.withLock { state in
                // More handles, or a mapping: then there is more to do at the close than to note it.
                guard state.writers == 1, !mayStillBeMapped(node, &state) else { return nil }
                return try noting(node, &state, stillOpen: false, change)
            }
        }
        return try result ?? change(nil)
    }

    /// Runs a change of the index after which nobody is to find older what was written to the file till then. The
    /// kernel may not have told of the last close yet.
    func takingAlongWrites<R>(to ino: UInt64?, _ change: (WritingNote?) throws -> R) throws -> R {
        guard let ino, let node = openNodes.node(ino) else { return try change(nil) }
        if !closing.isEmpty, closing.has(ino) { return try takingAlongClose(of: ino, change) }
        let result = try node.state.withLock { state in try noting(node, &state, stillOpen: true, change) }
        return try result ?? change(nil)
    }

    /// - Returns: nil if there is nothing to note, or more than the times.
    private func noting<R>(
        _ node: OpenNode, _ state: inout OpenNode.State, stillOpen: Bool, _ change: (WritingNote) throws -> R
    ) throws -> R? {
        // A mapping is written back, too, when it is noted that others may go on.
        let isMapping = stillOpen && state.mayBeMapped
        guard state.isRecorded, !state.hasPrivileges, !isMapping, let file = state.whole?.file else { return nil }
        let status = try file.status()
        let stamp = OpenNode.Stamp(status)
        let isChange = state.isChanged(stamp, stillOpen: stillOpen)
        guard isChange || !stillOpen else { return nil }
        let writing = WritingNote(
            ino: node.ino, isChange: isChange, size: status.size, modifiedAt: status.modifiedAt,
            changedAt: status.changedAt, stillOpen: stillOpen)
        let result = try change(writing)
        setNoted(stamp, stillOpen: stillOpen, &state)
        return result
    }
}
