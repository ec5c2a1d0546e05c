internal import Logging
internal import UbiquityContent
internal import UbiquityCoordination
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

// What writers did reaches the index.
extension ContainerFileSystem {
    /// Compares the backing file with what the index was last told, and tells it of a change.
    func note(_ node: OpenNode, _ state: inout OpenNode.State, stillOpen: Bool) throws {
        guard state.isRecorded, let file = state.whole?.file else { return }
        let status = try file.status()
        let stamp = OpenNode.Stamp(status)
        let isChanged = state.isChanged(stamp, stillOpen: stillOpen)
        guard isChanged || !stillOpen else { return }
        // After the look at the times, so that each later store through a mapping changes them again.
        if state.mayBeMapped, stillOpen { try file.startWriteback() }
        do {
            // Flushes and looks at what stays open are nobody's calls, yet it was a program that wrote.
            _ = try doing(state.doer ?? Doer.current) {
                try index.noteWriting(
                    ino: node.ino, changed: isChanged, size: status.size, modifiedAt: status.modifiedAt,
                    changedAt: status.changedAt, writtenAt: state.writtenAt(status), stillOpen: stillOpen)
            }
        } catch where Errno(describing: error) == .ESTALE {
            // Unlinked or replaced while it was open: what is written goes with the last handle.
            state.isRecorded = false
            return
        }
        setNoted(stamp, stillOpen: stillOpen, &state)
    }

    /// The index has been told of all up to that state of the backing file.
    func setNoted(_ stamp: OpenNode.Stamp, stillOpen: Bool, _ state: inout OpenNode.State) {
        state.stamp = stamp
        state.unrest = nil
        state.awaitsFirstNote = false
        // A write of this very moment may have left the times as they are.
        state.isTouched = stillOpen && state.service.backing != nil && isTooFresh(stamp)
        // A call that goes on has set them when it began.
        state.wasNotedBesideWriters = stillOpen && (state.service.backing != nil || state.isAdopted)
        state.isRecorded = stillOpen
        if !stillOpen { state.mayHaveBeenMapped = false }
    }

    private func isTooFresh(_ stamp: OpenNode.Stamp) -> Bool {
        !parts.passthrough.timesTellAll
            && ContentScanner.isRacy(changedAt: stamp.changedAt, scannedAt: parts.timekeeper.now())
    }

    /// Tells the index what has been written till now to a file that may be open still: what comes next, and counts as
    /// later, is not to find it unnoted.
    package func noteWrites(to ino: UInt64) throws {
        guard let node = openNodes.node(ino) else { return }
        try node.state.withLock { state in
            guard state.isRecorded else { return }
            try note(node, &state, stillOpen: true)
        }
    }

    /// Looks at all that is open for writing, or mapped: what stays open for long goes up meanwhile. To be called every
    /// few seconds.
    func noteOpenWriters() {
        for node in openNodes.all {
            do {
                try node.state.withLock { state in
                    guard state.isRecorded, try isAtRest(node, &state) else { return }
                    try note(node, &state, stillOpen: true)
                }
            } catch {
                logger.warning(
                    "cannot note what is being written; it will be tried again",
                    metadata: ["inode": "\(node.ino)", "error": "\(error)"])
            }
        }
    }

    /// Whether a changed file has not changed since the last look. One that never rests counts after some looks, but
    /// not a new one: that is being copied here, and nobody is to hear of a part of it.
    private func isAtRest(_ node: OpenNode, _ state: inout OpenNode.State) throws -> Bool {
        guard let file = state.whole?.file else { return false }
        let stamp = OpenNode.Stamp(try file.status())
        if stamp.size == 0 { return try isLeftEmpty(node, stamp, &state) }
        guard state.isTouched || stamp != state.stamp else { return false }
        // What has come to a file that was empty is looked at from now on.
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

    /// Whether a file is open and empty for long. A file that was emptied is about to be written: a command's output
    /// may take its time, and what the document had is not to go elsewhere meanwhile. But a program's lock file, which
    /// was never anything else, stays as it is for as long as that runs.
    private func isLeftEmpty(_ node: OpenNode, _ stamp: OpenNode.Stamp, _ state: inout OpenNode.State) throws -> Bool {
        guard let row = try index.row(ino: node.ino), try wasNeverMore(row) else { return false }
        // The index knows that it is being written, and waits to be told how it is then.
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

    /// Whether the cloud has no content of it but an empty one.
    private func wasNeverMore(_ row: ItemRow) throws -> Bool {
        if row.dirty.contains(.created) { return true }
        return try index.read { try $0.remote(id: row.id)?.content?.size ?? 0 } == 0
    }

    /// With a look every five seconds, a file that is held open empty goes up after a minute.
    private static let looksAtEmptiness = 12

    /// With a look every five seconds, a file that is written to all the time goes up about every half minute.
    private static let looksAtUnrest = 6

    /// The last writer is gone. A failure (the disk is full) cannot be told to anyone: it is tried again, and should
    /// the process end before, the next start finds that the file was being written.
    func noteLastClose(_ node: OpenNode, _ state: inout OpenNode.State) {
        do { try note(node, &state, stillOpen: false) } catch {
            logger.error(
                "cannot note what was written; it will be tried again",
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
                    "still cannot note what was written", metadata: ["inode": "\(ino)", "error": "\(error)"])
                unnoted.withLock { _ = $0.insert(ino) }
            }
        }
    }

    /// Opens the file as a writer would and closes it: that notes its state.
    private func noteAgain(_ ino: UInt64) throws {
        guard let row = try index.row(ino: ino), row.isWriting, let opened = try openWhole(ino, .writeOnly) else {
            return
        }
        try files.object(opened.handle).node.state.withLock { $0.isTouched = true }
        releaseUnclaimed(opened.handle)
    }

    /// Makes content and names durable. A program that gets a success here keeps its data through a power loss.
    package func sync(_ handle: UInt64) throws {
        let file = try files.object(handle)
        guard let whole = file.node.state.withLock({ $0.whole }) else { return try index.makeChangesDurable() }
        try requireSyncs(of: whole.id)
        let before = try whole.file.status()
        let isReplacement = index.isReplacement(whole.id)
        // What is written from here on is not of this call.
        try file.node.state.withLock { state in
            if state.leavesNoteToClose(), noteSoon(file.node.ino) { return }
            try note(file.node, &state, stillOpen: state.writers > 0 || state.mayBeMapped)
        }
        if isReplacement { return try syncReplacement(whole, file.node, before) }
        if !file.node.state.withLock({ $0.writesThrough }), try syncInJournal(whole, before) {
            // Somebody may have begun to write past the journal meanwhile.
            guard file.node.state.withLock({ $0.writesThrough }) else { return }
            return try syncContent(of: whole, file.node, before)
        }
        guard !index.hasDurableChanges else { return try syncContent(of: whole, file.node, before) }
        // Index or content may be on the disk without the other meanwhile, as when another file's fsync brings the
        // index there. With one flush for both an fsync takes hardly more than that of the content alone.
        if parts.sharesFlushes,
            try index.makeDurable(
                byFlushOf: before.device, start: { try sendContent(of: whole) },
                sync: { try syncContent(of: whole, file.node, before) })
        {
            return
        }
        // At one time: it then takes 0.8 of what it takes one after the other (measured).
        try syncThread.run { try syncContent(of: whole, file.node, before) } beside: { [index] in
            try index.makeDurable()
        }
    }

    /// Throws what a sync of the content has failed with.
    func requireSyncs(of id: ContentID) throws {
        if let failure = contents.failure(of: id) { throw failure }
    }

    /// What has taken another's place is on the disk before it is forgotten what that was, and that is on the disk
    /// before the program goes on: whenever the power goes, one of the two is there, and afterwards the new one.
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

    /// Names are in the index, of whichever directory.
    package func syncDirectory() throws { try index.makeChangesDurable() }
}
