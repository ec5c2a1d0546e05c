internal import Logging
internal import UbiquityContent
internal import UbiquityCoordination
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Records in the index what writers changed in backing files: size, times and the pending change.
///
/// It holds the files whose last close could not be recorded. `OpenFiles`, `DelayedCloses`, `MappedFiles` and
/// `Truncation` call it, with the file's `OpenNode.state` locked where they pass the state. It calls the index only.
final class WriteRecorder: Room {
    let context: FileSystemContext
    /// Files whose last close could not be recorded in the index.
    private let unrecorded = Lock<Set<UInt64>>([])

    init(_ context: FileSystemContext) {
        self.context = context
    }

    /// Records a change of the backing file since its last record in the index.
    func record(_ node: OpenNode, _ state: inout OpenNode.State, stillOpen: Bool) throws {
        guard state.isRecorded, let file = state.whole?.file else { return }
        let status = try file.status()
        let stamp = OpenNode.Stamp(status)
        let isChanged = state.isChanged(stamp, stillOpen: stillOpen)
        guard isChanged || !stillOpen else { return }
        // Start the writeback after reading the times, so that each later store through a mapping changes them again.
        if state.mayBeMapped, stillOpen { try file.startWriteback() }
        do {
            // Flushes and periodic looks have no calling program, but a program made the write.
            _ = try context.parts.coordination.attributing(to: state.doer ?? Doer.current) {
                try index.noteWriting(
                    ino: node.ino, changed: isChanged, size: status.size, modifiedAt: status.modifiedAt,
                    changedAt: status.changedAt, writtenAt: state.writtenAt(status), stillOpen: stillOpen)
            }
        } catch where Errno(describing: error) == .ESTALE {
            // The file was unlinked or replaced while open: its content goes with the last handle.
            state.isRecorded = false
            return
        }
        setRecorded(stamp, stillOpen: stillOpen, &state)
    }

    /// Updates the state after the index has recorded the backing file up to `stamp`.
    func setRecorded(_ stamp: OpenNode.Stamp, stillOpen: Bool, _ state: inout OpenNode.State) {
        state.stamp = stamp
        state.unrest = nil
        state.awaitsFirstRecord = false
        // A write at this very moment may have left the times unchanged.
        state.isTouched = stillOpen && state.service.backing != nil && isTooFresh(stamp)
        // A write call in progress set the times when it began.
        state.wasRecordedBesideWriters = stillOpen && (state.service.backing != nil || state.isAdopted)
        state.isRecorded = stillOpen
        if !stillOpen { state.mayHaveBeenMapped = false }
    }

    private func isTooFresh(_ stamp: OpenNode.Stamp) -> Bool {
        !context.parts.passthrough.timesTellAll
            && ContentScanner.isRacy(changedAt: stamp.changedAt, scannedAt: context.parts.timekeeper.now())
    }

    /// Records the writes so far to a file that may still be open. A later change that counts as newer then finds them
    /// recorded.
    func recordWrites(to ino: UInt64) throws {
        guard let node = openNodes.node(ino) else { return }
        try node.state.withLock { state in
            guard state.isRecorded else { return }
            try record(node, &state, stillOpen: true)
        }
    }

    /// Records all files that are open for writing or mapped, so that a file that stays open long is uploaded
    /// meanwhile. Called every few seconds.
    func recordOpenWriters() {
        for node in openNodes.all {
            do {
                try node.state.withLock { state in
                    guard state.isRecorded, try isAtRest(node, &state) else { return }
                    try record(node, &state, stillOpen: true)
                }
            } catch {
                logger.warning(
                    "cannot record the writes to an open file; retrying",
                    metadata: ["inode": "\(node.ino)", "error": "\(error)"])
            }
        }
    }

    /// Whether a changed file is unchanged since the last look. A file that never rests counts as at rest after some
    /// looks. A new one does not: it is probably being copied here, and no part of it must be uploaded.
    private func isAtRest(_ node: OpenNode, _ state: inout OpenNode.State) throws -> Bool {
        guard let file = state.whole?.file else { return false }
        let stamp = OpenNode.Stamp(try file.status())
        if stamp.size == 0 { return try isLeftEmpty(node, stamp, &state) }
        guard state.isTouched || stamp != state.stamp else { return false }
        // From now on look at content that was written to an empty file.
        let last = state.unrest.flatMap { $0.stamp.size > 0 ? $0 : nil }
        if let last {
            if last.stamp == stamp { return true }
            if last.looks >= Self.looksAtUnrest, try index.row(ino: node.ino)?.dirty.contains(.created) == false {
                return true
            }
        }
        state.unrest = (stamp, (last?.looks ?? 0) + 1)
        return false
    }

    /// Whether a file has been open and empty for long. An emptied file is usually about to be written: a command's
    /// output may take its time, and the loss of the old content must not spread meanwhile. A file that was never
    /// anything but empty, like a lock file, keeps its state while its program runs.
    private func isLeftEmpty(_ node: OpenNode, _ stamp: OpenNode.Stamp, _ state: inout OpenNode.State) throws -> Bool {
        guard let row = try index.row(ino: node.ino), try wasNeverMore(row) else { return false }
        // The index knows that the file is being written, and has not recorded its state yet.
        let isUntold = row.isFresh || row.dirty.contains(.created) && row.generation == 0
        guard isUntold || state.isTouched || stamp != state.stamp else { return false }
        let last = state.unrest.flatMap { $0.stamp == stamp ? $0 : nil }
        guard let last, last.looks >= Self.looksAtEmptiness else {
            state.unrest = (stamp, (last?.looks ?? 0) + 1)
            return false
        }
        state.isTouched = true
        return true
    }

    /// Whether the cloud has no content of it except an empty one.
    private func wasNeverMore(_ row: ItemRow) throws -> Bool {
        if row.dirty.contains(.created) { return true }
        return try index.read { try $0.remote(id: row.id)?.content?.size ?? 0 } == 0
    }

    /// With a look every five seconds, a file held open empty is uploaded after a minute.
    private static let looksAtEmptiness = 12

    /// With a look every five seconds, a file under constant writes is uploaded about every half minute.
    private static let looksAtUnrest = 6

    /// Records the last writer's close. No caller can receive a failure (the disk is full), so it is retried. If the
    /// process ends first, the next start finds that the file was being written.
    func recordLastClose(_ node: OpenNode, _ state: inout OpenNode.State) {
        do { try record(node, &state, stillOpen: false) } catch {
            logger.error(
                "cannot record the last writes to a file; retrying",
                metadata: ["inode": "\(node.ino)", "error": "\(error)"])
            retryLater(node.ino)
            state.isRecorded = false
        }
    }

    /// - Returns: nil if the file needs no record, or one of more than size and times.
    func recording<R>(
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
        setRecorded(stamp, stillOpen: stillOpen, &state)
        return result
    }

    /// Removes and returns the inodes of files whose last close could not be recorded.
    func removeUnrecorded() -> Set<UInt64> {
        unrecorded.withLock { waiting in
            defer { waiting = [] }
            return waiting
        }
    }

    /// Tries again later to record the file.
    func retryLater(_ ino: UInt64) { unrecorded.withLock { _ = $0.insert(ino) } }
}
