import GRDB
import Synchronization
internal import UbiquityCore
internal import UbiquitySystem

/// Makes transactions last: the journal, the batches of the database, durability, and the observers of commits.
///
/// `ItemIndex` passes it every transaction. It uses the connections (`IndexDatabase`), the syncs (`DiskSync`), the
/// numbers and the cache, and calls nothing else. `IndexLog+Batch.swift` writes local transactions,
/// `IndexLog+Durability.swift` brings changes to the disk.
final class IndexLog: Sendable {
    /// Pages of the write-ahead log above which `checkpoint()` copies them back (4 KiB each: 16 MiB).
    static let checkpointPages = 4096

    let database: IndexDatabase
    /// Nil for an index in memory.
    let journal: IndexJournal?
    let disk: DiskSync
    let cache: IndexCache
    let numbers: ItemNumbers
    /// Runs the journal's statements in the background; nil if there is no such thread.
    let statementThread: BlockingPool?
    let isRunningElsewhere = Atomic<Bool>(false)
    let isBatchOpen = Atomic<Bool>(false)
    /// Changes of the batch that the totals of folders do not include yet.
    let folderChanges = Lock(FolderChanges())
    let losses = Lock(Losses())
    private let observers = Lock<[@Sendable ([IndexEvent]) -> Void]>([])

    /// Acknowledged changes that were lost.
    struct Losses {
        /// Maximum number of refusals kept with a description.
        static let capacity = 100

        /// Whether the journal was damaged or missing, or the database refused some of its changes.
        var isJournalLost = false
        /// How many transactions the database has refused.
        var refused = 0
        var texts: [String] = []
    }

    init(_ database: IndexDatabase, cache: IndexCache, numbers: ItemNumbers, statementThread: BlockingPool?) throws {
        self.database = database
        self.cache = cache
        self.numbers = numbers
        self.statementThread = statementThread
        disk = DiskSync(path: database.path)
        journal = try database.path.map { path in
            let path = IndexJournal.path(ofIndexAt: path)
            return try describing("open the index's journal", at: path) { () throws(Errno) in
                try IndexJournal(path: path)
            }
        }
    }

    /// Whether there are local transactions that only the writing connection sees.
    var hasOpenBatch: Bool { isBatchOpen.load(ordering: .acquiring) }

    // MARK: Observers

    func observe(_ observer: @escaping @Sendable ([IndexEvent]) -> Void) { observers.withLock { $0.append(observer) } }

    func publish(_ events: [IndexEvent]) {
        guard !events.isEmpty else { return }
        for observer in observers.withLock({ $0 }) { observer(events) }
    }

    // MARK: Transactions

    /// Runs `body` as one transaction and notifies the observers.
    func write<T>(
        _ origin: IndexEvent.Origin, for index: ItemIndex, _ body: (IndexTransaction) throws -> T
    ) throws -> T {
        try mapErrors {
            try database.withWriter { db in
                if let journal {
                    if origin == .local { return try writeLocally(db, journal, for: index, body) }
                    try commitBatch(db, journal)
                }
                try numbers.refill(db, journal)
                let transaction = IndexTransaction(db, index: index, origin: origin, journal: nil)
                let result = try commit(db, transaction) {
                    let result = try body(transaction)
                    try transaction.touchTopFolder()
                    try numbers.recordOverdraft(transaction)
                    return result
                }
                publish(transaction.events)
                return result
            }
        }
    }

    /// Runs `body` as one transaction on records of the index itself. It changes no item, and nobody is notified.
    func writeAlone<T>(_ body: (Database) throws -> T) throws -> T {
        try mapErrors {
            try database.withWriter { db in
                if let journal { try commitBatch(db, journal) }
                try numbers.refill(db, journal)
                return try commit(db, nil) { try body(db) }
            }
        }
    }

    private func commit<T>(_ db: Database, _ transaction: IndexTransaction?, _ body: () throws -> T) throws -> T {
        // Uses cached statements: GRDB's own transactions compile theirs each time.
        try db.cachedStatement(sql: "BEGIN IMMEDIATE").execute()
        // Ends the cache's commit if the commit fails; a successful commit has ended it already.
        defer { cache.rows.endCommit() }
        let changes = db.totalChangesCount
        do {
            let result = try body()
            let isToCount = try transaction.map { try updateFolders($0.folderChanges, db) } ?? false
            let number = try db.totalChangesCount == changes ? nil : journal.map { try count(db, $0) }
            if let transaction { cache.rows.beginCommit(of: transaction) }
            FaultPoints.reach("index.committing")
            try db.cachedStatement(sql: "COMMIT").execute()
            FaultPoints.reach("index.committed")
            if let transaction { cache.rows.endCommit(of: transaction) }
            if let number { journal?.skip(to: number, isChange: transaction?.isChange ?? false) }
            if isToCount { countFoldersElsewhere() }
            return result
        } catch {
            // SQLite may have rolled back by itself, as it does when the disk is full.
            if db.isInsideTransaction { try db.rollback() }
            throw error
        }
    }

    /// Commits the batch, so that all connections see it.
    func commitBatch() throws {
        guard let journal else { return }
        try mapErrors { try database.withWriter { db in try commitBatch(db, journal) } }
    }

    /// Runs `body` with the writing connection, which sees the open batch.
    func withBatch<T>(_ body: (Database) throws -> T) throws -> T {
        try mapErrors {
            try database.withWriter { db in
                if let journal { try openBatch(db, journal) }
                return try body(db)
            }
        }
    }

    // MARK: Totals of folders

    /// Updates the stored totals to the state of the database, before its transaction commits.
    ///
    /// - Returns: Whether the totals must be counted again after the commit.
    func updateFolders(_ changes: FolderChanges, _ db: Database) throws -> Bool {
        guard !changes.isEmpty else { return false }
        do {
            guard !changes.isIncomplete else { return try beginFolderCount(db) }
            var update = try FolderUpdate(changes, db, counted: FolderCount.counted(db))
            try update.run()
            return false
        } catch let error as DatabaseError {
            throw error
        } catch {
            // An unreadable row must not prevent the commit.
            return try beginFolderCount(db)
        }
    }

    private func beginFolderCount(_ db: Database) throws -> Bool {
        // A journal may be replayed into an index of an earlier format.
        guard try db.tableExists("folderSums") else { return false }
        try FolderCount.begin(db)
        guard statementThread == nil else { return true }
        while try FolderCount.countPage(db) {}
        return false
    }

    /// Counts the next page of items.
    ///
    /// - Returns: Whether there are more.
    func countFolderPage() throws -> Bool { try writeAlone(FolderCount.countPage) }

    /// Counts all totals that are not counted yet.
    func countFolders() throws { while try countFolderPage() {} }

    /// Deletes the stored totals and counts all items again.
    func recountFolders() throws {
        try writeAlone(FolderCount.begin)
        try countFolders()
    }

    /// Starts or continues a count, in the background if there is a thread for that.
    func continueFolderCount() {
        guard statementThread == nil else { return countFoldersElsewhere() }
        // Without disk space, totals are counted when they are requested.
        try? countFolders()
    }

    /// Counts on a background thread, one page at a time.
    func countFoldersElsewhere() {
        guard let statementThread else { return }
        // Without disk space, the next opening of the index continues the count.
        _ = statementThread.start { [weak self] in
            if (try? self?.countFolderPage()) ?? false { self?.countFoldersElsewhere() }
        }
    }
}
