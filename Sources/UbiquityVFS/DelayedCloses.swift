internal import Logging
internal import UbiquityCoordination
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Releases handles. The index records a close together with the next change (`ClosingFiles`).
///
/// It holds the closes that wait. The façade calls it for each release. Every room that reads or changes the state of a
/// closed file calls `finish` first. It calls `OpenFiles`, `WriteRecorder` and `MappedFiles`.
final class DelayedCloses: Room {
    let context: FileSystemContext
    private let openFiles: OpenFiles
    private let recorder: WriteRecorder
    private let closing = ClosingFiles()

    init(_ context: FileSystemContext, openFiles: OpenFiles, recorder: WriteRecorder) {
        self.context = context
        self.openFiles = openFiles
        self.recorder = recorder
    }

    /// Releases a handle that the kernel has closed, now or together with the next change of the index.
    func release(_ handle: UInt64) {
        if !delay(handle) { openFiles.releaseNow(handle) }
    }

    /// Defers the release of a handle. Not while clients are connected: they get the author of the change, and may wait
    /// for the close. Not for an ignore file: its rules apply to the next created file.
    /// - Returns: false if the release must happen now.
    private func delay(_ handle: UInt64) -> Bool {
        guard context.parts.delaysCloses, let file = try? openFiles.object(handle), file.flags.writes, file.late == nil,
            context.parts.coordination?.isQuiet ?? true, file.node.state.withLock({ $0.isRecorded }),
            (try? index.row(ino: file.node.ino))?.entry?.name != IgnoreRules.fileName,
            closing.add(handle, of: file.node.ino)
        else { return false }
        if closing.beginWatch() { watchClosing() }
        return true
    }

    /// Schedules the record of writes to a new file, in case it stays open.
    /// - Returns: false if they must be recorded now.
    func recordSoon(_ ino: UInt64) -> Bool {
        guard context.parts.delaysCloses, closing.addWritten(ino) else { return false }
        if closing.beginWatch() { watchClosing() }
        return true
    }

    private func watchClosing() {
        let timekeeper = context.parts.timekeeper
        Task.detached { [weak self] in
            while let self, !self.closing.endIfIdle() {
                // Only a cancelled task wakes early, and nothing cancels this one.
                try? await timekeeper.sleep(for: ClosingFiles.delay)
                self.finish()
                self.recordWritten()
            }
        }
    }

    private func recordWritten() {
        for ino in closing.removeWritten() {
            do { try recorder.recordWrites(to: ino) } catch {
                logger.warning(
                    "cannot record the writes to an open file; retrying",
                    metadata: ["inode": "\(ino)", "error": "\(error)"])
            }
        }
    }

    /// Records deferred closes in the index, of this inode or of all.
    func finish(of ino: UInt64? = nil) {
        while let handle = closing.removeFirst(ino) { openFiles.releaseNow(handle) }
    }

    /// Runs a change of the index that also records a deferred close, if there is one.
    func includingClose<R>(_ change: (WritingNote?) throws -> R) throws -> R {
        try includeClose(of: nil, change) ?? change(nil)
    }

    /// Runs a change of the index before which all earlier writes to the file are recorded. The kernel may not have
    /// reported the last close yet.
    /// - Parameter isOver: whether the written file replaces another file. A new file that only gets another name
    ///   during a write needs no record yet.
    func includingWrites<R>(to ino: UInt64?, isOver: Bool, _ change: (WritingNote?) throws -> R) throws -> R {
        guard let ino, let node = openNodes.node(ino) else { return try change(nil) }
        while closing.has(ino) {
            if let result = try includeClose(of: ino, change) { return result }
        }
        guard isOver else { return try change(nil) }
        guard context.parts.coordination?.isQuiet ?? true else {
            // Clients get the author of each of the two changes.
            try recorder.recordWrites(to: ino)
            return try change(nil)
        }
        let result = try node.state.withLock { state in try recorder.recording(node, &state, stillOpen: true, change) }
        if let result { return result }
        // Recorded separately if more than size and times changed. After a power loss the size tells whether all of the
        // content is on disk.
        try recorder.recordWrites(to: ino)
        return try change(nil)
    }

    /// - Returns: nil if no close is deferred, or if it was recorded by itself.
    private func includeClose<R>(of ino: UInt64?, _ change: (WritingNote) throws -> R) throws -> R? {
        guard let handle = closing.removeFirst(ino) else { return nil }
        defer { openFiles.releaseNow(handle) }
        guard let node = try? openFiles.object(handle).node else { return nil }
        return try node.state.withLock { state in
            // With more handles or a mapping, the close involves more than the record.
            guard state.writers == 1, !openFiles.mapped.mayStillBeMapped(node, &state) else { return nil }
            return try recorder.recording(node, &state, stillOpen: false, change)
        }
    }

    // MARK: Questions

    /// Whether a program has the inode open.
    func isOpen(_ ino: UInt64) -> Bool {
        finish(of: ino)
        return openNodes.node(ino) != nil
    }

    var openHandleCount: Int {
        finish()
        return openFiles.count
    }

    /// Inode numbers of the files that programs have open for writing; their writes may not be recorded yet. (After
    /// close(2) has returned, the kernel's release follows a moment later.)
    var writtenInodes: [UInt64] {
        finish()
        return openNodes.all.filter { node in node.state.withLock { $0.writers > 0 } }.map(\.ino)
    }
}
