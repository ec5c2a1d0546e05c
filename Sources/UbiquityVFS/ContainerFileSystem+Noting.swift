internal import Logging
internal import UbiquityContent
internal import UbiquityCoordination
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

// Records the changes that writers made in the index, and flushes them.
extension ContainerFileSystem {
    /// Records a change of the backing file since its last record in the index.
    func note(_ node: OpenNode, _ state: inout OpenNode.State, stillOpen: Bool) throws {
        guard state.isRecorded, let file = state.whole?.file else { return }
        let status = try file.status()
        let stamp = OpenNode.Stamp(status)
        let isChanged = state.isChanged(stamp, stillOpen: stillOpen)
        guard isChanged || !stillOpen else { return }
        // Start the writeback after reading the times, so that each later store through a mapping changes them again.
        if state.mayBeMapped, stillOpen { try file.startWriteback() }
        do {
            // Flushes and periodic looks have no calling program, but a program made the write.
            _ = try parts.coordination.attributing(to: state.doer ?? Doer.current) {
                try index.noteWriting(
                    ino: node.ino, changed: isChanged, size: status.size, modifiedAt: status.modifiedAt,
                    changedAt: status.changedAt, writtenAt: state.writtenAt(status), stillOpen: stillOpen)
            }
        } catch where Errno(describing: error) == .ESTALE {
            // The file was unlinked or replaced while open: its content goes with the last handle.
            state.isRecorded = false
            return
        }
        setNoted(stamp, stillOpen: stillOpen, &state)
    }

    /// Updates the state after the index has recorded the backing file up to `stamp`.
    func setNoted(_ stamp: OpenNode.Stamp, stillOpen: Bool, _ state: inout OpenNode.State) {
        state.stamp = stamp
        state.unrest = nil
        state.awaitsFirstNote = false
        // A write at this very moment may have left the times unchanged.
        state.isTouched = stillOpen && state.service.backing != nil && isTooFresh(stamp)
        // A write call in progress set the times when it began.
        state.wasNotedBesideWriters = stillOpen && (state.service.backing != nil || state.isAdopted)
        state.isRecorded = stillOpen
        if !stillOpen { state.mayHaveBeenMapped = false }
    }

    private func isTooFresh(_ stamp: OpenNode.Stamp) -> Bool {
        !parts.passthrough.timesTellAll
            && ContentScanner.isRacy(changedAt: stamp.changedAt, scannedAt: parts.timekeeper.now())
    }

    /// Records the writes so far to a file that may still be open. A later change that counts as newer then finds them
    /// recorded.
    package func noteWrites(to ino: UInt64) throws {
        guard let node = openNodes.node(ino) else { return }
        try node.state.withLock { state in
            guard state.isRecorded else { return }
            try note(node, &state, stillOpen: true)
        }
    }

    /// Records all files that are open for writing or mapped, so that a file that stays open long is uploaded
    /// meanwhile. Called every few seconds.
    func noteOpenWriters() {
        for node in openNodes.all {
            do {
                try node.state.withLock { state in
                    guard state.isRecorded, try isAtRest(node, &state) else { return }
                    try note(node, &state, stillOpen: true)
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
    func noteLastClose(_ node: OpenNode, _ state: inout OpenNode.State) {
        do { try note(node, &state, stillOpen: false) } catch {
            logger.error(
                "cannot record the last writes to a file; retrying",
                metadata: ["inode": "\(node.ino)", "error": "\(error)"])
            unnoted.withLock { _ = $0.insert(node.ino) }
            state.isRecorded = false
        }
    }

    func retryNotes() {
        let waiting = unnoted.withLock { waiting in
            defer { waiting = [] }
            return waiting
        }
        for ino in waiting {
            do { try noteAgain(ino) } catch {
                logger.error(
                    "still cannot record the last writes to a file", metadata: ["inode": "\(ino)", "error": "\(error)"])
                unnoted.withLock { _ = $0.insert(ino) }
            }
        }
    }

    /// Opens the file as a writer and closes it, which records its state.
    private func noteAgain(_ ino: UInt64) throws {
        guard let row = try index.row(ino: ino), row.isWriting, let opened = try openWhole(ino, .writeOnly) else {
            return
        }
        try files.object(opened.handle).node.state.withLock { $0.isTouched = true }
        releaseNow(opened.handle)
    }

    /// Makes content and names durable. A program that gets success keeps its data through a power loss.
    package func sync(_ handle: UInt64) throws {
        let file = try files.object(handle)
        guard let whole = file.node.state.withLock({ $0.whole }) else { return try index.makeChangesDurable() }
        try requireSyncs(of: whole.id)
        let before = try whole.file.status()
        let isReplacement = index.isReplacement(whole.id)
        // Writes from here on are not part of this call.
        try file.node.state.withLock { state in
            if state.leavesNoteToClose(), noteSoon(file.node.ino) { return }
            try note(file.node, &state, stillOpen: state.writers > 0 || state.mayBeMapped)
        }
        if isReplacement { return try syncReplacement(whole, file.node, before) }
        if !file.node.state.withLock({ $0.writesThrough }), try syncInJournal(whole, before) {
            // Another handle may have begun to write past the journal meanwhile.
            guard file.node.state.withLock({ $0.writesThrough }) else { return }
            return try syncContent(of: whole, file.node, before)
        }
        guard !index.hasDurableChanges else { return try syncContent(of: whole, file.node, before) }
        // Index or content may reach the disk without the other, for instance when another file's fsync flushes the
        // index. With one flush for both, an fsync takes hardly longer than that of the content alone.
        if parts.sharesFlushes,
            try index.makeDurable(
                byFlushOf: before.device, start: { try sendContent(of: whole) },
                sync: { try syncContent(of: whole, file.node, before) })
        {
            return
        }
        // Flush both at the same time: that takes 0.8 of the time of one after the other (measured).
        try syncThread.run { try syncContent(of: whole, file.node, before) } beside: { [index] in
            try index.makeDurable()
        }
    }

    /// Throws the error of an earlier failed sync of the content.
    func requireSyncs(of id: ContentID) throws {
        if let failure = contents.failure(of: id) { throw failure }
    }

    /// Syncs a content that has replaced another. It flushes the content, then drops the record of the old one, then
    /// flushes the index. So whenever power fails, one of the two exists, and after the sync the new one does.
    private func syncReplacement(_ whole: OpenNode.Whole, _ node: OpenNode, _ before: FileStatus) throws {
        try syncContent(of: whole, node, before)
        try index.forgetReplacements([whole.id])
        try index.makeChangesDurable()
    }

    func rememberingFailure(of id: ContentID, _ body: () throws(Errno) -> Void) throws {
        do throws(Errno) { try body() } catch {
            contents.noteFailedSync(id, UbiquityError(error, doing: "sync the content", at: contents.path(of: id)))
            throw error
        }
    }

    private func sendContent(of whole: OpenNode.Whole) throws {
        try rememberingFailure(of: whole.id) { () throws(Errno) in try whole.file.startWriting() }
    }

    func syncContent(of whole: OpenNode.Whole, _ node: OpenNode, _ before: FileStatus) throws {
        let kept = contents.journal?.mark(of: whole.id)
        try rememberingFailure(of: whole.id) { () throws(Errno) in try whole.file.syncData() }
        let (isFirst, needsName) = node.state.withLock { state in
            guard state.whole?.id == whole.id else { return (false, false) }
            defer { state.isSynced = true }
            return (!state.isSynced, !state.isNameSynced)
        }
        if isFirst { preparedContents.noteSync(now: parts.timekeeper.now()) }
        if needsName {
            try contents.syncName(of: whole.id)
            node.state.withLock { $0.isNameSynced = $0.whole?.id == whole.id }
        }
        let isWhollyThere = node.state.withLock { $0.whole?.id == whole.id && $0.isNameSynced }
        if let kept, isWhollyThere { try forgetKept(whole.id, kept) }
        contents.noteSynced(whole.id, before)
    }

    /// Makes names durable. The index has the names of all directories.
    package func syncDirectory() throws { try index.makeChangesDurable() }
}
