import GRDB
import Synchronization
internal import UbiquityCore
internal import UbiquitySystem

// Local transactions, which the journal makes survive, and the commits of the database that take them over.
//
// While a batch is open the writing connection alone sees it. So what one thread asks shortly after another's change is
// answered by that connection (`peek`), and whoever reads more commits the batch first (`read`).
//
// What a program does asks the database hardly anything: rows and names are remembered (`RowCache`). So a transaction's
// statements stand in the journal, and are run later: by a thread that does nothing else, if there are some, or by
// whoever asks the database next.
extension ItemIndex {
    /// So many transactions are left for others to run before a thread is woken for them.
    private static let enoughToRun = 16
    private static let noteLoss = "INSERT OR REPLACE INTO meta VALUES ('lost', 1)"

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
            if isDamaged { try? db.run(Self.noteLoss, []) }
            journalLoss.withLock { $0 = isDamaged }
        }
        try journal.load(after: UInt64(bitPattern: stored), of: UInt64(bitPattern: life))
        // Formats before have no totals to keep.
        if try db.tableExists("folderSums") {
            let changes = try FolderReplay.changes(journal.batch, db)
            folderChanges.withLock { $0 = changes }
        }
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
        let known = refusals.withLock { $0.count }
        try write(.startup) { transaction in
            // What is run before this may have been given up.
            guard refusals.withLock({ $0.count }) == known else { return }
            try transaction.execute("DELETE FROM meta WHERE name = 'lost'", [])
            journalLoss.withLock { $0 = false }
        }
    }

    /// Runs `body` in the batch and writes down what it changed.
    func writeLocally<T>(
        _ db: Database, _ journal: IndexJournal, _ body: (IndexTransaction) throws -> T
    ) throws -> T {
        if needsNumbers { try commitBatch(db, journal) }
        try reserveNumbers(db)
        let transaction = IndexTransaction(db, index: self, origin: .local, journal: journal)
        do {
            let result = try body(transaction)
            try recordOverdraft(transaction)
            // Not in part, and not what is asked for without looking at what waits.
            if transaction.isUrgent || transaction.runCount > 0 { try transaction.runAll() }
            try acknowledge(transaction, db, journal)
            return result
        } catch {
            // What it has done goes, and with it the whole open transaction: the journal brings the others back when
            // the batch is opened next. SQLite may have rolled back already, as it does when the disk is full.
            if transaction.runCount > 0, db.isInsideTransaction { try db.rollback() }
            throw error
        }
    }

    private func acknowledge(_ transaction: IndexTransaction, _ db: Database, _ journal: IndexJournal) throws {
        guard !transaction.statements.isEmpty else { return publish(transaction.events) }
        cache.beginCommit(of: transaction)
        defer { cache.endCommit() }
        FaultPoints.reach("index.committing")
        let hasRoom = try journal.append(transaction.statements, isChange: transaction.isChange)
        let former = hasRoom ? nil : folderChanges.withLock { $0 }
        folderChanges.withLock { $0.add(transaction.folderChanges) }
        if transaction.runCount > 0 { journal.noteRun() }
        if transaction.isUrgent { journal.noteUrgent() }
        if !hasRoom {
            do {
                try commitBatch(db, journal)
            } catch {
                journal.removeLast()
                if let former { folderChanges.withLock { $0 = former } }
                throw error
            }
        }
        FaultPoints.reach("index.committed")
        setBatch(isOpen: !journal.batch.isEmpty)
        cache.endCommit(of: transaction)
        publish(transaction.events)
        // The journal holds what is in the batch. If the database does not take it now it is asked again, and when the
        // journal is full whoever changes something is told.
        if journal.isLong { try? commitBatch(db, journal) } else { runElsewhere(journal) }
    }

    /// Begins the transaction that the batch gathers in, and runs what is in the batch and was not run in it.
    func openBatch(_ db: Database, _ journal: IndexJournal) throws {
        while try runNext(db, journal) {}
    }

    /// Runs the first transaction of the batch that was not run.
    /// - Returns: false if there is none.
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
            // One that stands nowhere yet is refused: who wants it waits to hear of it.
            let isRefused = journal.lacksLast && place == journal.batch.count - 1
            guard !isRefused, let error = error as? DatabaseError, error.resultCode == .SQLITE_CONSTRAINT else {
                throw error
            }
            giveUp(place, journal, error)
        }
        return true
    }

    /// What was remembered when a transaction of the batch was made contradicts the database. That is a fault of ours;
    /// but no other change is to be lost for it, nor the index be stuck with it. The next start looks for what is
    /// missing, as after the loss of a journal.
    private func giveUp(_ place: Int, _ journal: IndexJournal, _ error: DatabaseError) {
        journal.replace(place, by: [JournalStatement(sql: Self.noteLoss, values: [])])
        journalLoss.withLock { $0 = true }
        cache.forgetAll()
        folderChanges.withLock { $0.isIncomplete = true }
        refusals.withLock { refusals in
            refusals.count += 1
            if refusals.texts.count < Refusals.capacity { refusals.texts.append("\(error)") }
        }
    }

    /// What was given up since this was called last, in words.
    package func takeRefusals() -> [String] {
        refusals.withLock { refusals in
            defer { refusals.texts = [] }
            return refusals.texts
        }
    }

    /// - Returns: false if nothing waits.
    func runOne(of journal: IndexJournal) throws -> Bool {
        try withWriterLast { db in
            if !db.isInsideTransaction { journal.noteOpening() }
            return try journal.waitingCount > 0 && runNext(db, journal)
        }
    }

    /// Has a thread run what waits. It takes one transaction after the other: who changes something meanwhile waits
    /// for no more than that.
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
                // Who asks the database next hears of it; till it has taken all, it is not tried here again.
            }
        }
        if !isStarted { isRunningElsewhere.store(false, ordering: .releasing) }
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
        setBatch(isOpen: false)
        isRunningElsewhere.store(false, ordering: .releasing)
        if journal.isTight { makeRoom(in: journal) }
        if isToCount { countFoldersElsewhere() }
    }
}

/// Changes that were acknowledged and that the database would not take.
struct Refusals {
    /// Of so many it is kept why.
    static let capacity = 100

    var count = 0
    var texts: [String] = []
}
