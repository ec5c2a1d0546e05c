internal import Logging
internal import UbiquityCoordination
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

// Closes that the index is told of with the next change (`ClosingFiles`).
extension ContainerFileSystem {
    /// Puts off what the release of a handle has to do. Not while clients take part: they are told whose doing it is,
    /// and may wait for the close. Nor for an ignore file: what is made next is to be made by what it says.
    /// - Returns: false if it has to be done now.
    func putOff(_ handle: UInt64) -> Bool {
        guard parts.delaysCloses, let file = try? files.object(handle), file.flags.writes, file.late == nil,
            parts.coordination?.isQuiet ?? true, file.node.state.withLock({ $0.isRecorded }),
            (try? index.row(ino: file.node.ino))?.entry?.name != IgnoreRules.fileName,
            closing.add(handle, of: file.node.ino)
        else { return false }
        if closing.beginWatch() { watchClosing() }
        return true
    }

    /// Has the index told soon of what was written to a new file, should it stay open.
    /// - Returns: false if it has to be told now.
    func noteSoon(_ ino: UInt64) -> Bool {
        guard parts.delaysCloses, closing.addWritten(ino) else { return false }
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
                self.noteWritten()
            }
        }
    }

    private func noteWritten() {
        for ino in closing.takeWritten() {
            do { try noteWrites(to: ino) } catch {
                logger.warning(
                    "cannot note what is being written; it will be tried again",
                    metadata: ["inode": "\(ino)", "error": "\(error)"])
            }
        }
    }

    /// Has the index told of the closes that it was not told of yet, of this inode or of all.
    func finishCloses(of ino: UInt64? = nil) {
        while let handle = closing.take(ino) { releaseUnclaimed(handle) }
    }

    /// Runs a change of the index that takes along what is to be noted of a close, if there is one.
    func takingAlongClose<R>(_ change: (WritingNote?) throws -> R) throws -> R {
        try takeClose(of: nil, change) ?? change(nil)
    }

    /// Runs a change of the index after which nobody is to find older what was written to the file till then. The
    /// kernel may not have told of the last close yet.
    /// - Parameter isOver: whether what was written takes another file's place. A new file that only gets another name
    ///   while it is being written is nobody's business yet.
    func takingAlongWrites<R>(to ino: UInt64?, isOver: Bool, _ change: (WritingNote?) throws -> R) throws -> R {
        guard let ino, let node = openNodes.node(ino) else { return try change(nil) }
        while closing.has(ino) {
            if let result = try takeClose(of: ino, change) { return result }
        }
        guard isOver else { return try change(nil) }
        guard parts.coordination?.isQuiet ?? true else {
            // Clients are told of each of the two whose doing it is.
            try noteWrites(to: ino)
            return try change(nil)
        }
        let result = try node.state.withLock { state in try noting(node, &state, stillOpen: true, change) }
        if let result { return result }
        // By itself, what is more than size and times: after a loss of power the size tells whether all of it is there.
        try noteWrites(to: ino)
        return try change(nil)
    }

    /// - Returns: nil if there is no close to take along. What there was has been noted by itself then.
    private func takeClose<R>(of ino: UInt64?, _ change: (WritingNote) throws -> R) throws -> R? {
        guard let handle = closing.take(ino) else { return nil }
        defer { releaseUnclaimed(handle) }
        guard let node = try? files.object(handle).node else { return nil }
        return try node.state.withLock { state in
            // More handles, or a mapping: then there is more to do at the close than to note it.
            guard state.writers == 1, !mayStillBeMapped(node, &state) else { return nil }
            return try noting(node, &state, stillOpen: false, change)
        }
    }

    /// - Returns: nil if there is nothing to note, or more than size and times.
    private func noting<R>(
        _ node: OpenNode, _ state: inout OpenNode.State, stillOpen: Bool, _ change: (WritingNote) throws -> R
    ) throws -> R? {
        // A file that cannot be looked at is no reason for the change to fail: its own note tries again, and tells.
        guard state.isRecorded, !state.hasPrivileges, let status = try? state.whole?.file.status() else { return nil }
        // A mapping is written back, too, when it is noted that others may go on; and a fresh content is one no more.
        if stillOpen, try state.mayBeMapped || index.row(ino: node.ino)?.isFresh != false { return nil }
        let stamp = OpenNode.Stamp(status)
        let isChange = state.isChanged(stamp, stillOpen: stillOpen)
        guard isChange || !stillOpen else { return nil }
        let writing = WritingNote(
            ino: node.ino, isChange: isChange, size: status.size, modifiedAt: status.modifiedAt,
            changedAt: status.changedAt, writtenAt: state.writtenAt(status), stillOpen: stillOpen)
        let result = try change(writing)
        setNoted(stamp, stillOpen: stillOpen, &state)
        return result
    }
}
