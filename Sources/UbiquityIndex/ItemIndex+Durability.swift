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

    /// Makes every change so far survive power loss. Throws `.io`: then it may not survive, until a later call has
    /// succeeded.
    package func makeDurable() throws {
        guard let journal else { return }
        let known = trust.withLock { $0.last }
        // Asked first: what a change from here on needs is the business of whoever made it.
        let sync = writer.writeWithoutTransaction { _ in journal.beginSync() }
        var ends: [@Sendable () -> Void] = []
        defer { for end in ends { end() } }
        for precursor in precursors.withLock({ $0 }) {
            ends.append(precursor.end)
            try precursor.begin()
        }
        if isSyncSuspect.withLock({ $0 }) {
            try copyBack(journal)
        } else {
            try bringToDisk(journal, sync)
        }
        trust.withLock { $0.forget(through: known) }
    }

    private func bringToDisk(_ journal: IndexJournal, _ sync: IndexDurability.Sync) throws {
        try syncing { () throws(Errno) in try journal.sync() }
        guard sync.needsLog else { return }
        try bringLogToDisk()
        writer.writeWithoutTransaction { _ in journal.noteLog(of: sync) }
    }

    /// With synchronous = NORMAL a commit has reached the log by write(2), and SQLite syncs a log before it is copied
    /// back and the database after. So syncing the log makes all commits durable.
    func bringLogToDisk() throws {
        try syncing { () throws(Errno) in
            // No log: nothing was ever committed.
            guard let path, let log = try openLog(path) else { return }
            try log.syncData()
            guard !isNameDurable.withLock({ $0 }) else { return }
            try FileSystem.syncDirectory(Path.parent(of: path))
            isNameDurable.withLock { $0 = true }
        }
    }

    private func syncing(_ body: () throws(Errno) -> Void) throws {
        do {
            try FaultPoints.check("index.sync")
            try describing("bring the index to the disk", at: path ?? "", body)
        } catch {
            isSyncSuspect.withLock { $0 = true }
            throw error
        }
    }

    private func openLog(_ path: String) throws(Errno) -> FileDescriptor? {
        if let log = log.withLock({ $0 }) { return log }
        do throws(Errno) {
            let file = try FileDescriptor.open(path + "-wal", .readOnly)
            log.withLock { $0 = file }
            return file
        } catch .ENOENT { return nil }
    }

    /// The journal's room comes to its end, and it may not begin anew before the log is on the disk. If that fails it
    /// goes on to its end, and then each change is a commit.
    func makeRoom(in journal: IndexJournal) {
        let sync = journal.beginSync()
        guard !isSyncSuspect.withLock({ $0 }), (try? bringLogToDisk()) != nil else { return }
        journal.noteLog(of: sync)
        journal.noteCommit()
    }

    /// After a failed sync the kernel takes the pages for written, and another sync would say so too. What they hold is
    /// written anew, into the database, which is synced; and the journal begins anew.
    private func copyBack(_ journal: IndexJournal) throws {
        try mapErrors {
            try writer.writeWithoutTransaction { db in
                try commitBatch(db, journal)
                let sync = journal.beginSync()
                _ = try db.checkpoint(.truncate)
                journal.noteLog(of: sync)
                journal.noteCommit()
            }
        }
        isSyncSuspect.withLock { $0 = false }
    }

    // MARK: For the doctor

    /// Whether the journal's file has what is only there: changes that were acknowledged and are not committed.
    package func isJournalWhole() throws -> Bool {
        guard let journal else { return true }
        return try mapErrors { try writer.writeWithoutTransaction { _ in try journal.isWhole() } }
    }

    /// Brings what is in the journal to the disk in the database; the journal begins anew then.
    package func renewJournal() throws {
        if let journal { try copyBack(journal) }
    }
}
