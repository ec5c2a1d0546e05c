import GRDB
internal import UbiquityCore
internal import UbiquitySystem

// Makes changes survive a power loss (`IndexDurability`).
extension IndexLog {
    /// Makes every change so far survive a power loss. Throws `.io`: then changes may be lost, until a later call
    /// succeeds.
    func makeDurable() throws { _ = try makeDurableByJournal() }

    /// Does the same, and also syncs the rest of the journal's file.
    ///
    /// - Returns: False if the index reached the disk in another way; then the rest of the file may not be synced.
    func makeDurableByJournal() throws -> Bool {
        guard let journal else { return false }
        let known = disk.trust.withLock { $0.last }
        // Taken first: later changes are synced by their own callers.
        let sync = database.withJournal { journal.beginSync() }
        var isThere = false
        try disk.withPrecursors {
            isThere = try bringToDisk(journal, sync)
            if !isThere { try copyBack(journal) }
        }
        disk.trust.withLock { $0.forget(through: known) }
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
    func makeDurable(
        byFlushOf device: UInt64, start: () throws -> Void, sync: () throws -> Void
    ) throws -> Bool {
        guard let journal else { return false }
        let known = disk.trust.withLock { $0.last }
        let part = database.withJournal {
            journal.flushDevice == device ? journal.beginSync() : nil
        }
        guard let part, !part.needsLog else { return false }
        var isThere = false
        try disk.withPrecursors {
            try start()
            let failures = disk.failureCount
            guard try disk.sync({ () throws(Errno) in try journal.finishWriting() }) else { return }
            do { try sync() } catch {
                // The sync may have failed before the flush, or in it.
                disk.recordFailure()
                throw error
            }
            // The flush of another call may have lost this call's writes.
            isThere = disk.failureCount == failures
            if isThere { database.withJournal { journal.noteEnd(of: part) } }
        }
        if isThere { disk.trust.withLock { $0.forget(through: known) } }
        return isThere
    }

    /// Implements the promise of `fsync`: makes changes by programs durable. A further write to a file already recorded
    /// as being written need not be synced: the next start examines such files anyway.
    func makeChangesDurable() throws {
        if !hasDurableChanges { try makeDurable() }
    }

    /// Whether everything `makeChangesDurable` would sync is on disk.
    var hasDurableChanges: Bool {
        guard let journal else { return true }
        return database.withJournal { journal.durability.hasAllChanges }
    }

    /// - Returns: False if a sync has failed before, so that another one would prove nothing.
    private func bringToDisk(_ journal: IndexJournal, _ sync: IndexDurability.Sync) throws -> Bool {
        let isThere = try disk.sync { () throws(Errno) in
            try journal.sync()
            if sync.needsLog { try disk.syncLog() }
        }
        guard isThere else { return false }
        database.withJournal { sync.needsLog ? journal.noteLog(of: sync) : journal.noteEnd(of: sync) }
        return true
    }

    /// Rewrites all changes into the database and syncs it, then restarts the journal. After a failed sync the kernel
    /// considers the pages written, so another sync would falsely succeed.
    private func copyBack(_ journal: IndexJournal) throws {
        let failures = disk.failureCount
        try mapErrors { try database.withWriter { db in try copyBack(journal, db) } }
        disk.recordRewriting(of: failures)
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
        guard let path = database.path, let size = database.logSize, size > 0 else { return }
        try disk.syncFileSystem(at: path)
        do { try copyBack(journal, db) } catch let error as DatabaseError where error.resultCode == .SQLITE_FULL {
            // The database has no space left: the log stays, and it was synced just now.
        }
    }

    /// Ensures that after a power loss the content is not taken for the cloud's. Call it before the first byte is
    /// written in place.
    func distrust(_ content: ContentID) throws {
        if disk.trust.withLock({ $0.contains(content) }) { try makeDurable() }
    }

    /// Copies the database's log back if it has grown. Call it from time to time, from a thread that may block.
    func checkpoint() throws {
        guard let size = database.logSize, size > Int64(Self.checkpointPages) * 4096 else { return }
        // SQLite syncs the log before it copies it.
        try disk.withPrecursors {
            try mapErrors {
                try database.withWriter { db in
                    if let journal { try commitBatch(db, journal) }
                    _ = try db.checkpoint(.passive)
                }
            }
        }
    }

    // MARK: For the doctor

    /// Returns whether the journal's file holds all changes that were acknowledged but not committed.
    func isJournalWhole() throws -> Bool {
        guard let journal else { return true }
        return try mapErrors { try database.withWriter { _ in try journal.isWhole() } }
    }

    /// Moves the journal's changes into the database and syncs it. The journal restarts and keeps nothing of earlier
    /// lives.
    func renewJournal() throws {
        guard let journal else { return }
        try disk.withPrecursors { try copyBack(journal) }
        try mapErrors { try database.withWriter { _ in try journal.forgetEarlierLives() } }
    }
}
