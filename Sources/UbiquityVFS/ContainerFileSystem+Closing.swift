internal import Logging
internal import UbiquityCoordination
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

// Closes that the index records together with the next change (`ClosingFiles`).
extension ContainerFileSystem {
    /// Defers the release of a handle. Not while clients are connected: they get the author of the change, and may wait
    /// for the close. Not for an ignore file: its rules apply to the next created file.
    /// - Returns: false if the release must happen now.
    func putOff(_ handle: UInt64) -> Bool {
        guard parts.delaysCloses, let file = try? files.object(handle), file.flags.writes, file.late == nil,
            parts.coordination?.isQuiet ?? true, file.node.state.withLock({ $0.isRecorded }),
            (try? index.row(ino: file.node.ino))?.entry?.name != IgnoreRules.fileName,
            closing.add(handle, of: file.node.ino)
        else { return false }
        if closing.beginWatch() { watchClosing() }
        return true
    }

    /// Schedules the record of writes to a new file, in case it stays open.
    /// - Returns: false if they must be recorded now.
    func noteSoon(_ ino: UInt64) -> Bool {
        guard parts.delaysCloses, closing.addWritten(ino) else { return false }
        if closing.beginWatch() { watchClosing() }
        return true
    }

    private func watchClosing() {
        let timekeeper = parts.timekeeper
        Task.detached { [weak self] in
            while let self, !self.closing.endIfIdle() {
                // Only a cancelled task wakes early, and nothing cancels this one.
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
                    "cannot record the writes to an open file; retrying",
                    metadata: ["inode": "\(ino)", "error": "\(error)"])
            }
        }
    }

    /// Records deferred closes in the index, of this inode or of all.
    func finishCloses(of ino: UInt64? = nil) {
        while let handle = closing.take(ino) { releaseNow(handle) }
    }

    /// Runs a change of the index that also records a deferred close, if there is one.
    func takingAlongClose<R>(_ change: (WritingNote?) throws -> R) throws -> R {
        try takeClose(of: nil, change) ?? change(nil)
    }

    /// Runs a change of the index before which all earlier writes to the file are recorded. The kernel may not have
    /// reported the last close yet.
    /// - Parameter isOver: whether the written file replaces another file. A new file that only gets another name
    ///   during a write needs no record yet.
    func takingAlongWrites<R>(to ino: UInt64?, isOver: Bool, _ change: (WritingNote?) throws -> R) throws -> R {
        guard let ino, let node = openNodes.node(ino) else { return try change(nil) }
        while closing.has(ino) {
            if let result = try takeClose(of: ino, change) { return result }
        }
        guard isOver else { return try change(nil) }
        guard parts.coordination?.isQuiet ?? true else {
            // Clients get the author of each of the two changes.
            try noteWrites(to: ino)
            return try change(nil)
        }
        let result = try node.state.withLock { state in try noting(node, &state, stillOpen: true, change) }
        if let result { return result }
        // Recorded separately if more than size and times changed. After a power loss the size tells whether all of the
        // content is on disk.
        try noteWrites(to: ino)
        return try change(nil)
    }

    /// - Returns: nil if no close is deferred, or if it was recorded by itself.
    private func takeClose<R>(of ino: UInt64?, _ change: (WritingNote) throws -> R) throws -> R? {
        guard let handle = closing.take(ino) else { return nil }
        defer { releaseNow(handle) }
        guard let node = try? files.object(handle).node else { return nil }
        return try node.state.withLock { state in
            // With more handles or a mapping, the close involves more than the record.
            guard state.writers == 1, !mayStillBeMapped(node, &state) else { return nil }
            return try noting(node, &state, stillOpen: false, change)
        }
    }

    /// - Returns: nil if the file needs no record, or one of more than size and times.
    private func noting<R>(
        _ node: OpenNode, _ state: inout OpenNode.State, stillOpen: Bool, _ change: (WritingNote) throws -> R
    ) throws -> R? {
        // If the file's status cannot be read, the change must not fail: the file's own record tries again and reports
        // the error.
        guard state.isRecorded, !state.hasPrivileges, let status = try? state.whole?.file.status() else { return nil }
        // A mapping must be written back when others may go on writing; and a fresh content must lose that mark.
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
