import GRDB
internal import UbiquityCore
internal import UbiquitySystem

// What must survive a loss of power (`IndexDurability`).
extension ItemIndex {
    /// Has `begin` called each time before the index is brought to the disk, for contents that must be there first, and
    /// `end` when it is there or cannot be brought there.
    package func beforeDurable(
        _ begin: @escaping @Sendable () throws -> Void, end: @escaping @Sendable () -> Void
    ) {
        precursors.withLock { $0.append((begin, end)) }
    }

    /// Runs `body` with what must be on the disk before the index there.
    func withPrecursors(_ body: () throws -> Void) throws {
        var ends: [@Sendable () -> Void] = []
        defer { for end in ends { end() } }
        for precursor in precursors.withLock({ $0 }) {
            ends.append(precursor.end)
            try precursor.begin()
        }
        try body()
    }

    /// Makes every change so far survive power loss. Throws `.io`: then it may not survive, until a later call has
    /// succeeded.
    package func makeDurable() throws { _ = try makeDurableByJournal() }

    /// The same, and whatever else the journal's file has.
    /// - Returns: false if the index is on the disk in another way: then nothing is known of the rest.
    package func makeDurableByJournal() throws -> Bool {
        guard let journal else { return false }
        let known = trust.withLock { $0.last }
        // Asked first: what a change from here on needs is the business of whoever made it.
        let sync = withJournal { journal.beginSync() }
        var isThere = false
        try withPrecursors {
            isThere = try bringToDisk(journal, sync)
            if !isThere { try copyBack(journal) }
        }
        trust.withLock { $0.forget(through: known) }
        return isThere
    }

    /// As `makeDurable`, by the flush of the disk that the sync of a content ends with.
    /// - Parameters:
    ///   - device: of the content's file system.
    ///   - start: sends the content's bytes to the disk without waiting for them: so both are on their way at one time.
    ///   - sync: brings the content to the disk.
    /// - Returns: false if the index is not known to be on the disk: its journal lies elsewhere or is not all that is
    ///   needed, or another sync has failed. The content may or may not have been synced.
    package func makeDurable(
        byFlushOf device: UInt64, start: () throws -> Void, sync: () throws -> Void
    ) throws -> Bool {
        guard let journal else { return false }
        let known = trust.withLock { $0.last }
        let part = withJournal {
            journal.flushDevice == device ? journal.beginSync() : nil
        }
        guard let part, !part.needsLog else { return false }
        var isThere = false
        try withPrecursors {
            try start()
            let failures = syncFailures.withLock { $0.count }
            guard try syncing({ () throws(Errno) in try journal.finishWriting() }) else { return }
            do { try sync() } catch {
                // It may have failed before the flush, or in it.
                syncFailures.withLock { $0.count += 1 }
                throw error
            }
            // The flush of another call may have lost what this one has sent.
            isThere = syncFailures.withLock { $0.count } == failures
            if isThere { withJournal { journal.noteEnd(of: part) } }
        }
        if isThere { trust.withLock { $0.forget(through: known) } }
        return isThere
    }

    /// What `fsync` promises: as `makeDurable`, of what programs have changed. That a file which the index on the disk
    /// knows to be written has been written to once more need not be there: the next start looks at it in any case.
    package func makeChangesDurable() throws {
        if !hasDurableChanges { try makeDurable() }
    }

    /// Whether all that `makeChangesDurable` would bring to the disk is there.
    package var hasDurableChanges: Bool {
        guard let journal else { return true }
        return withJournal { journal.durability.hasAllChanges }
    }

    /// - Returns: false if a sync has failed before, so that another would say nothing.
    private func bringToDisk(_ journal: IndexJournal, _ sync: IndexDurability.Sync) throws -> Bool {
        let isThere = try syncing { () throws(Errno) in
            try journal.sync()
            if sync.needsLog { try syncLog() }
        }
        guard isThere else { return false }
        withJournal { sync.needsLog ? journal.noteLog(of: sync) : journal.noteEnd(of: sync) }
        return true
    }

    /// Syncs go one after the other: the kernel tells of a failure one of those who wait for it.
    private func syncing(_ body: () throws(Errno) -> Void) throws -> Bool {
        try syncFailures.withLock { failures in
            guard failures.isEmpty else { return false }
            do {
                try FaultPoints.check("index.sync")
                try describing("bring the index to the disk", at: path ?? "", body)
            } catch {
                failures.count += 1
                throw error
            }
            return true
        }
    }

    /// With synchronous = NORMAL a commit has reached the log by write(2), and SQLite syncs a log before it is copied
    /// back and the database after. So syncing the log makes all commits durable.
    private func syncLog() throws(Errno) {
        // No log: nothing was ever committed.
        guard let path, let log = try openLog(path) else { return }
        FaultPoints.reach("index.sync.log")
        try log.syncData()
        guard !isNameDurable.withLock({ $0 }) else { return }
        try FileSystem.syncDirectory(Path.parent(of: path))
        isNameDurable.withLock { $0 = true }
    }

    private func openLog(_ path: String) throws(Errno) -> FileDescriptor? {
        if let log = log.withLock({ $0 }) { return log }
        do throws(Errno) {
            let file = try FileDescriptor.openFile(path + "-wal", .readOnly)
            log.withLock { $0 = file }
            return file
        } catch .ENOENT { return nil }
    }

    /// The journal's room comes to its end, and it may not begin anew before the log is on the disk. If that fails it
    /// goes on to its end, and then each change is a commit.
    func makeRoom(in journal: IndexJournal) {
        let sync = journal.beginSync()
        // Who waits for the disk is told of a failure by a sync of his own.
        try? withPrecursors {
            guard try syncing({ () throws(Errno) in try syncLog() }) else { return }
            journal.noteLog(of: sync)
            journal.noteCommit()
        }
    }

    /// After a failed sync the kernel takes the pages for written, and another sync would say so too. What they hold is
    /// written anew, into the database, which is synced; and the journal begins anew.
    private func copyBack(_ journal: IndexJournal) throws {
        let failures = syncFailures.withLock { $0.count }
        try mapErrors { try withWriter { db in try copyBack(journal, db) } }
        syncFailures.withLock { $0.madeGood = max($0.madeGood, failures) }
    }

    private func copyBack(_ journal: IndexJournal, _ db: Database) throws {
        try commitBatch(db, journal)
        let sync = journal.beginSync()
        _ = try db.checkpoint(.truncate)
        journal.noteLog(of: sync)
        journal.noteCommit()
    }

    /// After a process that did not end by itself: its journal begins anew, whatever was promised of what stands in it,
    /// and of its syncs nobody knows which failed, nor which contents must come first.
    func bringEarlierLifeToDisk(_ journal: IndexJournal, _ db: Database) throws {
        guard let path, let size = try? FileSystem.status(path + "-wal").size, size > 0 else { return }
        try FaultPoints.check("index.sync")
        try describing("bring the index to the disk", at: path) { () throws(Errno) in
            try FileDescriptor.open(Path.parent(of: path), .readOnly).syncFileSystem()
        }
        do { try copyBack(journal, db) } catch let error as DatabaseError where error.resultCode == .SQLITE_FULL {
            // No room in the database: the log stays, which was synced just now.
        }
    }

    // MARK: For the doctor

    /// Whether the journal's file has what is only there: changes that were acknowledged and are not committed.
    package func isJournalWhole() throws -> Bool {
        guard let journal else { return true }
        return try mapErrors { try withWriter { _ in try journal.isWhole() } }
    }

    /// Brings what is in the journal to the disk in the database; the journal begins anew then, and has nothing of
    /// earlier lives any more.
    package func renewJournal() throws {
        guard let journal else { return }
        try withPrecursors { try copyBack(journal) }
        try mapErrors { try withWriter { _ in try journal.forgetEarlierLives() } }
    }
}

/// Syncs of the index that failed, and those of them whose pages were written anew since.
struct SyncFailures {
    var count = 0
    var madeGood = 0
    var isEmpty: Bool { count == madeGood }
}
