import GRDB
internal import UbiquityCore
internal import UbiquitySystem

// Makes changes survive a power loss (`IndexDurability`).
extension ItemIndex {
    /// Registers `begin`, called each time before the index is synced to disk, for contents that must be there first.
    /// `end` is called when the index is synced or the sync has failed.
    package func beforeDurable(
        _ begin: @escaping @Sendable () throws -> Void, end: @escaping @Sendable () -> Void
    ) {
        precursors.withLock { $0.append((begin, end)) }
    }

    /// Runs `body` after everything that must be on disk before the index.
    func withPrecursors(_ body: () throws -> Void) throws {
        var ends: [@Sendable () -> Void] = []
        defer { for end in ends { end() } }
        for precursor in precursors.withLock({ $0 }) {
            ends.append(precursor.end)
            try precursor.begin()
        }
        try body()
    }

    /// Makes every change so far survive a power loss. Throws `.io`: then changes may be lost, until a later call
    /// succeeds.
    package func makeDurable() throws { _ = try makeDurableByJournal() }

    /// Does the same, and also syncs the rest of the journal's file.
    ///
    /// - Returns: False if the index reached the disk in another way; then the rest of the file may not be synced.
    package func makeDurableByJournal() throws -> Bool {
        guard let journal else { return false }
        let known = trust.withLock { $0.last }
        // Taken first: later changes are synced by their own callers.
        let sync = withJournal { journal.beginSync() }
        var isThere = false
        try withPrecursors {
            isThere = try bringToDisk(journal, sync)
            if !isThere { try copyBack(journal) }
        }
        trust.withLock { $0.forget(through: known) }
        return isThere
    }

    /// Does the same as `makeDurable`, through the disk flush at the end of a content's sync.
    ///
    /// - Parameters:
    ///   - device: The device of the content's file system.
    ///   - start: Starts writing the content's bytes without waiting, so that both writes overlap.
    ///   - sync: Syncs the content to disk.
    /// - Returns: False if the index is not known to be synced: its journal is on another device or does not suffice,
    ///   or another sync has failed. The content may or may not have been synced.
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
                // The sync may have failed before the flush, or in it.
                syncFailures.withLock { $0.count += 1 }
                throw error
            }
            // The flush of another call may have lost this call's writes.
            isThere = syncFailures.withLock { $0.count } == failures
            if isThere { withJournal { journal.noteEnd(of: part) } }
        }
        if isThere { trust.withLock { $0.forget(through: known) } }
        return isThere
    }

    /// Implements the promise of `fsync`: makes changes by programs durable. A further write to a file already recorded
    /// as being written need not be synced: the next start examines such files anyway.
    package func makeChangesDurable() throws {
        if !hasDurableChanges { try makeDurable() }
    }

    /// Whether everything `makeChangesDurable` would sync is on disk.
    package var hasDurableChanges: Bool {
        guard let journal else { return true }
        return withJournal { journal.durability.hasAllChanges }
    }

    /// - Returns: False if a sync has failed before, so that another one would prove nothing.
    private func bringToDisk(_ journal: IndexJournal, _ sync: IndexDurability.Sync) throws -> Bool {
        let isThere = try syncing { () throws(Errno) in
            try journal.sync()
            if sync.needsLog { try syncLog() }
        }
        guard isThere else { return false }
        withJournal { sync.needsLog ? journal.noteLog(of: sync) : journal.noteEnd(of: sync) }
        return true
    }

    /// Serializes syncs: the kernel reports a failure to only one of the waiters.
    private func syncing(_ body: () throws(Errno) -> Void) throws -> Bool {
        try syncFailures.withLock { failures in
            guard failures.isEmpty else { return false }
            do {
                try FaultPoints.check("index.sync")
                try describing("sync the index to the disk", at: path ?? "", body)
            } catch {
                failures.count += 1
                throw error
            }
            return true
        }
    }

    /// Syncs the write-ahead log, which makes all commits durable. With synchronous = NORMAL a commit reaches the log
    /// by write(2); SQLite syncs the log before it copies it back, and the database after.
    private func syncLog() throws(Errno) {
        // Without a log nothing was ever committed.
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

    /// Frees journal space by syncing the log: the journal may restart only after that. If the sync fails, the journal
    /// runs full, and then each change is a commit.
    func makeRoom(in journal: IndexJournal) {
        let sync = journal.beginSync()
        // A caller that waits for the disk learns of the failure from its own sync.
        try? withPrecursors {
            guard try syncing({ () throws(Errno) in try syncLog() }) else { return }
            journal.noteLog(of: sync)
            journal.noteCommit()
        }
    }

    /// Rewrites all changes into the database and syncs it, then restarts the journal. After a failed sync the kernel
    /// considers the pages written, so another sync would falsely succeed.
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

    /// Handles a process that did not end cleanly. Its journal restarts, although its entries may not be durable, its
    /// syncs may have failed, and its contents' order is unknown. So the whole file system is synced first.
    func bringEarlierLifeToDisk(_ journal: IndexJournal, _ db: Database) throws {
        guard let path, let size = try? FileSystem.status(path + "-wal").size, size > 0 else { return }
        try FaultPoints.check("index.sync")
        try describing("sync the index to the disk", at: path) { () throws(Errno) in
            try FileDescriptor.open(Path.parent(of: path), .readOnly).syncFileSystem()
        }
        do { try copyBack(journal, db) } catch let error as DatabaseError where error.resultCode == .SQLITE_FULL {
            // The database has no space left: the log stays, and it was synced just now.
        }
    }

    // MARK: For the doctor

    /// Returns whether the journal's file holds all changes that were acknowledged but not committed.
    package func isJournalWhole() throws -> Bool {
        guard let journal else { return true }
        return try mapErrors { try withWriter { _ in try journal.isWhole() } }
    }

    /// Moves the journal's changes into the database and syncs it. The journal restarts and keeps nothing of earlier
    /// lives.
    package func renewJournal() throws {
        guard let journal else { return }
        try withPrecursors { try copyBack(journal) }
        try mapErrors { try withWriter { _ in try journal.forgetEarlierLives() } }
    }
}

/// Counts failed syncs of the index, and those whose pages were rewritten since.
struct SyncFailures {
    var count = 0
    var madeGood = 0
    var isEmpty: Bool { count == madeGood }
}
