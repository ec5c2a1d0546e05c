import GRDB
internal import UbiquityCore
internal import UbiquitySystem

// Local transactions, which the journal makes survive, and the commits of the database that take them over.
//
// While a batch is open the writing connection alone sees it. So what one thread asks shortly after another's change is
// answered by that connection (`peek`), and whoever reads more commits the batch first (`read`).
extension ItemIndex {
    /// Brings the database up to the journal: after the process died with a batch open.
    func replay(_ db: Database, _ journal: IndexJournal) throws {
        // A new database: what stands there was another's, which is gone.
        guard try db.tableExists("meta") else { return try journal.clear() }
        let stored = try Int64.fetchOne(db, sql: "SELECT value FROM meta WHERE name = 'journal'") ?? 0
        guard stored >= 0 else {
            throw UbiquityError(
                .damaged, "the index is damaged: its number of changes is \(stored)",
                remedy: "'ubiquity doctor --state DIR' makes it anew from the cloud and keeps what only is here")
        }
        let life = try Int64.fetchOne(db, sql: "SELECT value FROM meta WHERE name = 'life'") ?? 0
        let begun = try Int64.fetchOne(db, sql: "SELECT value FROM meta WHERE name = 'begun'")
        // Of a life that was begun by a former version nothing is known.
        if begun == life {
            let isDamaged = try journal.isDamaged(
                after: UInt64(bitPattern: stored), of: UInt64(bitPattern: life), looksThrough: !wasClosed)
            // Kept for whoever deals with it: to open the index once more shows it no longer.
            if isDamaged { try? db.run("INSERT OR REPLACE INTO meta VALUES ('lost', 1)", []) }
            journalLoss.withLock { $0 = isDamaged }
        }
        try journal.load(after: UInt64(bitPattern: stored), of: UInt64(bitPattern: life))
        try commitBatch(db, journal)
        try bringEarlierLifeToDisk(journal, db)
    }

    /// Whether the last process that had the index open ended by itself: then the database's log is empty.
    private var wasClosed: Bool {
        guard let path, let size = try? FileSystem.status(path + "-wal").size else { return true }
        return size == 0
    }

    /// Tells what the journal gets from now on from what an earlier opening left in it.
    func beginLife(_ db: Database, _ journal: IndexJournal) throws {
        let life = random.next()
        let value = SQLValue.int(Int64(bitPattern: life))
        // Between the two nothing is claimed of what stands at the journal's beginning.
        try db.run("INSERT OR REPLACE INTO meta VALUES ('life', ?)", [value])
        try journal.beginLife(life)
        try db.run("INSERT OR REPLACE INTO meta VALUES ('begun', ?)", [value])
    }

    /// Whether the journal was found damaged or gone when the index was opened, now or earlier, or the database older
    /// than it: changes may be missing that were acknowledged. A loss of power, too, leaves it so.
    package var hasLostJournal: Bool {
        get throws {
            if journalLoss.withLock({ $0 }) { return true }
            return try read { try $0.number("SELECT 1 FROM meta WHERE name = 'lost'", []) } != nil
        }
    }

    /// What is left of those changes has been looked after.
    package func forgetJournalLoss() throws {
        try write(.startup) { try $0.execute("DELETE FROM meta WHERE name = 'lost'", []) }
        journalLoss.withLock { $0 = false }
    }

    /// Runs `body` in the batch and writes down what it changed.
    func writeLocally<T>(
        _ db: Database, _ journal: IndexJournal, _ body: (IndexTransaction) throws -> T
    ) throws -> T {
        if needsNumbers { try commitBatch(db, journal) }
        try reserveNumbers(db)
        try openBatch(db, journal)
        let transaction = IndexTransaction(db, index: self, origin: .local, keepsStatements: true)
        do {
            let result = try body(transaction)
            try recordOverdraft(transaction)
            try acknowledge(transaction, db, journal)
            return result
        } catch {
            // What it has done goes, and with it the whole open transaction: the journal brings the others back when
            // the batch is opened next. SQLite may have rolled back already, as it does when the disk is full.
            if !transaction.statements.isEmpty, db.isInsideTransaction { try db.rollback() }
            throw error
        }
    }

    private func acknowledge(_ transaction: IndexTransaction, _ db: Database, _ journal: IndexJournal) throws {
        guard !transaction.statements.isEmpty else { return publish(transaction.events) }
        cache.beginCommit(of: transaction)
        defer { cache.endCommit() }
        FaultPoints.reach("index.committing")
        if try !journal.append(transaction.statements, isChange: transaction.isChange) {
            do {
                try commitBatch(db, journal)
            } catch {
                journal.removeLast()
                throw error
            }
        }
        FaultPoints.reach("index.committed")
        setBatch(isOpen: !journal.batch.isEmpty)
        cache.endCommit(of: transaction)
        publish(transaction.events)
        // The journal holds what is in the batch. If the database does not take it now it is asked again, and when the
        // journal is full whoever changes something is told.
        if journal.isLong { try? commitBatch(db, journal) }
    }

    /// Begins the transaction that the batch gathers in; what is in the batch is run again if that was undone.
    func openBatch(_ db: Database, _ journal: IndexJournal) throws {
        guard !db.isInsideTransaction else { return }
        try db.cachedStatement(sql: "BEGIN IMMEDIATE").execute()
        do {
            for statement in journal.batch.joined() { try db.run(statement.sql, statement.values) }
        } catch {
            if db.isInsideTransaction { try db.rollback() }
            throw error
        }
    }

    /// Counts a transaction that does not go through the journal: after a power loss, what the journal holds from after
    /// it must not be run on a database that has lost it.
    func count(_ db: Database, _ journal: IndexJournal) throws -> UInt64 {
        let number = journal.sequence + 1
        try db.run("INSERT OR REPLACE INTO meta VALUES ('journal', ?)", [.int(Int64(bitPattern: number))])
        return number
    }

    /// Commits the batch, if there is one. If that fails it is still there.
    func commitBatch(_ db: Database, _ journal: IndexJournal) throws {
        guard !journal.batch.isEmpty else {
            if db.isInsideTransaction { try db.cachedStatement(sql: "COMMIT").execute() }
            return
        }
        try openBatch(db, journal)
        do {
            let number = SQLValue.int(Int64(bitPattern: journal.sequence))
            try db.run("INSERT OR REPLACE INTO meta VALUES ('journal', ?)", [number])
            try db.cachedStatement(sql: "COMMIT").execute()
        } catch {
            if db.isInsideTransaction { try db.rollback() }
            throw error
        }
        FaultPoints.reach("index.gathered")
        journal.noteCommit()
        setBatch(isOpen: false)
        if journal.isTight { makeRoom(in: journal) }
    }
}
