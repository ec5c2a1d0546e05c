import GRDB
import Synchronization
internal import UbiquityCore
internal import UbiquitySystem

// Local transactions, made crash-safe by the journal, and the database commits that take them over.
//
// While a batch is open, only the writing connection sees its changes. So a short query after a change uses that
// connection (`peek`), and a longer one commits the batch first (`read`).
//
// Most operations of programs need no database query: rows and names are cached (`RowCache`). So a transaction's
// statements are written to the journal and run later: by a background thread if enough wait, or before the next
// database query.
extension IndexLog {
    /// Transactions that may wait before a thread is woken to run them.
    private static let enoughToRun = 16
    private static let noteLoss = "INSERT OR REPLACE INTO meta VALUES ('lost', 1)"

    /// Applies the journal to the database, after a process died with an open batch.
    func replay(_ db: Database, _ journal: IndexJournal) throws {
        // The database is new: the journal belongs to another one that is gone.
        guard try db.tableExists("meta") else { return try journal.clear() }
        let stored = try Int64.fetchOne(db, sql: "SELECT value FROM meta WHERE name = 'journal'") ?? 0
        guard stored >= 0 else {
            throw UbiquityError(
                .damaged, "the index is damaged: its change number is \(stored)",
                remedy: "run 'ubiquity doctor --state DIR': it rebuilds the index and keeps files that are only here")
        }
        let life = try Int64.fetchOne(db, sql: "SELECT value FROM meta WHERE name = 'life'") ?? 0
        let begun = try Int64.fetchOne(db, sql: "SELECT value FROM meta WHERE name = 'begun'")
        // A run started by an earlier program version recorded nothing to compare.
        if begun == life {
            let isDamaged = try journal.isDamaged(
                after: UInt64(bitPattern: stored), of: UInt64(bitPattern: life), looksThrough: !wasClosed)
            // Stored for a later repair: opening the index again would no longer show it.
            if isDamaged { try? db.run(Self.noteLoss, []) }
            losses.withLock { $0.isJournalLost = isDamaged }
        }
        try journal.load(after: UInt64(bitPattern: stored), of: UInt64(bitPattern: life))
        // Earlier formats have no stored totals.
        if try db.tableExists("folderSums") {
            let changes = try FolderReplay.changes(journal.batch, db)
            folderChanges.withLock { $0 = changes }
        }
        try commitBatch(db, journal)
        try bringEarlierLifeToDisk(journal, db)
    }

    /// Whether the last process closed the index cleanly: the database's log is empty then.
    private var wasClosed: Bool { database.logSize ?? 0 == 0 }

    /// Starts a new journal life, which separates new entries from those of earlier openings.
    func beginLife(_ db: Database, _ journal: IndexJournal, number life: UInt64) throws {
        let value = SQLValue.int(Int64(bitPattern: life))
        // Between the two statements nothing is assumed about the journal's beginning.
        try db.run("INSERT OR REPLACE INTO meta VALUES ('life', ?)", [value])
        try journal.beginLife(life)
        try db.run("INSERT OR REPLACE INTO meta VALUES ('begun', ?)", [value])
    }

    /// Whether this opening found that acknowledged changes may be missing.
    var hasLostChanges: Bool { losses.withLock { $0.isJournalLost } }

    /// Clears the loss once recovery has handled what remains of the changes.
    func forgetLoss() throws {
        let known = losses.withLock { $0.refused }
        try writeAlone { db in
            // Statements that run before this one may have been dropped.
            guard losses.withLock({ $0.refused }) == known else { return }
            try db.run("DELETE FROM meta WHERE name = 'lost'", [])
            losses.withLock { $0.isJournalLost = false }
        }
    }

    /// Runs `body` in the batch and appends its statements to the journal.
    func writeLocally<T>(
        _ db: Database, _ journal: IndexJournal, for index: ItemIndex, _ body: (IndexTransaction) throws -> T
    ) throws -> T {
        if numbers.isLow { try commitBatch(db, journal) }
        try numbers.refill(db, journal)
        let transaction = IndexTransaction(db, index: index, origin: .local, journal: journal)
        do {
            let result = try body(transaction)
            try numbers.recordOverdraft(transaction)
            // Runs all statements if some have run already, or if later queries rely on them without running the batch.
            if transaction.isUrgent || transaction.runCount > 0 { try transaction.runAll() }
            try acknowledge(transaction, db, journal)
            return result
        } catch {
            // Rolls back the whole open transaction, because part of this one has run. The journal restores the others
            // when the batch is opened next. SQLite may have rolled back by itself, as it does when the disk is full.
            if transaction.runCount > 0, db.isInsideTransaction { try db.rollback() }
            throw error
        }
    }

    private func acknowledge(_ transaction: IndexTransaction, _ db: Database, _ journal: IndexJournal) throws {
        guard !transaction.statements.isEmpty else { return publish(transaction.events) }
        cache.rows.beginCommit(of: transaction)
        defer { cache.rows.endCommit() }
        FaultPoints.reach("index.committing")
        let fits = try journal.append(transaction.statements, isChange: transaction.isChange)
        let former = fits ? nil : folderChanges.withLock { $0 }
        folderChanges.withLock { $0.add(transaction.folderChanges) }
        if transaction.runCount > 0 { journal.noteRun() }
        if transaction.isUrgent { journal.noteUrgent() }
        if !fits {
            do {
                try commitBatch(db, journal)
            } catch {
                journal.removeLast()
                if let former { folderChanges.withLock { $0 = former } }
                throw error
            }
        }
        FaultPoints.reach("index.committed")
        isBatchOpen.store(!journal.batch.isEmpty, ordering: .releasing)
        cache.rows.endCommit(of: transaction)
        publish(transaction.events)
        // The journal has the batch's changes. If this commit fails it is tried again; once the journal is full, the
        // next change reports the failure.
        if journal.isLong { try? commitBatch(db, journal) } else { runElsewhere(journal) }
    }

    /// Opens the database transaction of the batch and runs the batch's waiting statements.
    func openBatch(_ db: Database, _ journal: IndexJournal) throws {
        while try runNext(db, journal) {}
    }

    /// Runs the next waiting transaction of the batch.
    ///
    /// - Returns: False if there is none.
    private func runNext(_ db: Database, _ journal: IndexJournal) throws -> Bool {
        if !db.isInsideTransaction {
            journal.noteOpening()
            try db.cachedStatement(sql: "BEGIN IMMEDIATE").execute()
        }
        guard journal.waitingCount > 0 else { return false }
        let place = journal.runCount
        do {
            for statement in journal.batch[place] { try db.run(statement.sql, statement.values) }
            journal.noteRun()
        } catch {
            if db.isInsideTransaction { try db.rollback() }
            // A transaction not stored yet can still be refused: its caller waits for the result.
            let isRefused = journal.lacksLast && place == journal.batch.count - 1
            guard !isRefused, let error = error as? DatabaseError, error.resultCode == .SQLITE_CONSTRAINT else {
                throw error
            }
            giveUp(place, journal, error)
        }
        return true
    }

    /// Drops a transaction whose cached state contradicts the database. This is a bug in this program, but it must
    /// neither lose other changes nor block the index. The next start looks for missing changes, as after the loss of a
    /// journal.
    private func giveUp(_ place: Int, _ journal: IndexJournal, _ error: DatabaseError) {
        journal.replace(place, by: [JournalStatement(sql: Self.noteLoss, values: [])])
        losses.withLock { $0.isJournalLost = true }
        cache.rows.forgetAll()
        folderChanges.withLock { $0.isIncomplete = true }
        losses.withLock { losses in
            losses.refused += 1
            if losses.texts.count < Losses.capacity { losses.texts.append("\(error)") }
        }
    }

    /// Returns descriptions of the transactions dropped since the last call.
    func takeRefusals() -> [String] {
        losses.withLock { losses in
            defer { losses.texts = [] }
            return losses.texts
        }
    }

    /// - Returns: False if nothing waits.
    func runOne(of journal: IndexJournal) throws -> Bool {
        try database.withWriterLast { db in
            if !db.isInsideTransaction { journal.noteOpening() }
            return try journal.waitingCount > 0 && runNext(db, journal)
        }
    }

    /// Runs waiting transactions on a background thread, one at a time, so a writer waits for one at most.
    private func runElsewhere(_ journal: IndexJournal) {
        guard journal.waitingCount >= Self.enoughToRun, let pool = statementThread,
            !isRunningElsewhere.exchange(true, ordering: .acquiringAndReleasing)
        else { return }
        let core = CoreBinding.current
        let isStarted = pool.start { [self] in
            if let core { CoreBinding.avoid(core) }
            do {
                while try runOne(of: journal) {}
                isRunningElsewhere.store(false, ordering: .releasing)
            } catch {
                // The next database query reports the error. Until the batch is committed, this thread does not retry.
            }
        }
        if !isStarted { isRunningElsewhere.store(false, ordering: .releasing) }
    }

    /// Numbers a transaction that bypasses the journal. After a power loss, later journal entries must not run on a
    /// database without this transaction.
    func count(_ db: Database, _ journal: IndexJournal) throws -> UInt64 {
        let number = journal.sequence + 1
        try db.run("INSERT OR REPLACE INTO meta VALUES ('journal', ?)", [.int(Int64(bitPattern: number))])
        return number
    }

    /// Commits the batch, if there is one. If the commit fails, the batch stays.
    func commitBatch(_ db: Database, _ journal: IndexJournal) throws {
        guard !journal.batch.isEmpty else {
            if db.isInsideTransaction { try db.cachedStatement(sql: "COMMIT").execute() }
            return
        }
        try openBatch(db, journal)
        let isToCount: Bool
        do {
            isToCount = try updateFolders(folderChanges.withLock { $0 }, db)
            let number = SQLValue.int(Int64(bitPattern: journal.sequence))
            try db.run("INSERT OR REPLACE INTO meta VALUES ('journal', ?)", [number])
            try db.cachedStatement(sql: "COMMIT").execute()
        } catch {
            if db.isInsideTransaction { try db.rollback() }
            throw error
        }
        FaultPoints.reach("index.gathered")
        journal.noteCommit()
        folderChanges.withLock { $0 = FolderChanges() }
        isBatchOpen.store(false, ordering: .releasing)
        isRunningElsewhere.store(false, ordering: .releasing)
        if journal.isTight { disk.freeSpace(in: journal) }
        if isToCount { countFoldersElsewhere() }
    }
}
