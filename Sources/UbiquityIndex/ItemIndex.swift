import GRDB
import GRDBSQLite
import Synchronization
package import UbiquityCore
package import UbiquitySystem

/// This device's database of a container, in `index.db`: the local tree, the remote tree and the changes to upload.
///
/// Writes are serial. Each is one transaction; it survives the death of the process when it returns, and a power loss
/// after `makeDurable()`. Local writes gather in a batch (`IndexJournal`). Reads see every write that has returned;
/// most use a connection of their own, but short reads during an open batch use the writer's. Observers are notified of
/// changes in the order of the writes.
package final class ItemIndex: Sendable {
    /// Pages of the write-ahead log above which `checkpoint()` copies them back (4 KiB each: 16 MiB).
    private static let checkpointPages = 4096
    /// Pages of the log (64 MiB) above which the committing thread copies them back. This bounds the log if
    /// `checkpoint()` is never called.
    private static let forcedCheckpointPages = 16384
    /// Seconds a connection waits for another, which happens while one is opened or the log is emptied.
    private static let busyTimeout = 10.0
    /// Cache size of a reading connection, KiB.
    private static let readerCache = 4096
    /// Cache size of the writing connection, KiB. In a large index, one page of the feed changes that many pages; pages
    /// beyond the cache are written to the log twice.
    private static let writerCache = 24576

    private let writer: DatabaseQueue
    /// The lock for the writing connection and the journal.
    private let turn = BriefTurn()
    /// Nil for an index in memory: then the one connection also reads.
    private let readers: ReadConnections?
    let path: String?
    package let random: any RandomSource
    package let timekeeper: any Timekeeper
    let ignoreFiles: IgnoreFiles
    let tunnels = Tunnels()
    let replaced = ReplacedContents()
    package let packages: PackageRules
    /// The owner of the top folder and of items from other devices: owner and group are not synced.
    package let owner: (uid: UInt32, gid: UInt32)
    private let observers = Lock<[@Sendable ([IndexEvent]) -> Void]>([])
    let cache = RowCache()
    let namesInOrder = Lock(NamesInOrder())
    /// Nil for an index in memory.
    let journal: IndexJournal?
    let journalLoss = Lock(false)
    let refusals = Lock(Refusals())
    /// Runs the journal's statements in the background; nil if there is no such thread.
    let statementThread: BlockingPool?
    let isRunningElsewhere = Atomic<Bool>(false)
    /// Whether there are local transactions that only the writing connection sees.
    private let isBatchOpen = Atomic<Bool>(false)
    private let updateStatements = Lock<[UInt32: String]>([:])
    /// What must be on disk before the index is synced (`beforeDurable`).
    let precursors = Lock<[(begin: @Sendable () throws -> Void, end: @Sendable () -> Void)]>([])
    /// Locked during a sync.
    let syncFailures = Lock(SyncFailures())
    /// Nil if no space is reserved.
    let reserve = Lock<IndexReserve?>(nil)
    let roomLook = Lock(RoomLook())
    /// Whether the names of the files are known to be on disk.
    let isNameDurable = Lock(false)
    /// The write-ahead log, once it exists. It stays open as long as the database.
    let log = Lock<FileDescriptor?>(nil)
    let trust = Lock(OutdatedTrust(first: ContentID(.max)))
    let recorded = Lock(RecordedContents(newest: ContentID(.max)))
    let numbers = Lock(NumberReserve())
    let commitNumbers = Lock(CommitNumbers())
    /// Changes of the batch that the totals of folders do not include yet.
    let folderChanges = Lock(FolderChanges())

    /// Opens the index, or creates it.
    ///
    /// - Parameters:
    ///   - path: The database's file; nil for an index in memory (the simulator).
    ///   - ignoring: Rules for items excluded from sync at any place, unless an ignore file overrides them.
    ///   - packages: Rules for folders that are one document.
    ///   - statementThread: Runs statements in the background.
    /// - Throws: `.newerFormat`, `.noSpace`, `.io`.
    package init(
        path: String?, timekeeper: any Timekeeper, random: any RandomSource, ignoring: IgnoreRules = .standard,
        packages: PackageRules = .standard,
        owner: (uid: UInt32, gid: UInt32) = (0, 0), statementThread: BlockingPool? = nil
    ) throws {
        self.path = path
        self.statementThread = statementThread
        self.timekeeper = timekeeper
        self.random = random
        ignoreFiles = IgnoreFiles(standard: ignoring)
        self.packages = packages
        self.owner = owner
        // Stays open until the database itself is open, so that its log is read only once.
        let probe = try mapErrors { try path.flatMap(Schema.probe) }
        let configuration = Self.configuration
        readers = path.map { ReadConnections(path: $0, configuration: configuration) }
        writer = try mapErrors { try Self.open(path, configuration) }
        journal = try path.map { path in
            try describing("open the index's journal", at: Self.journalPath(path)) { () throws(Errno) in
                try IndexJournal(path: Self.journalPath(path))
            }
        }
        try mapErrors {
            try probe?.close()
            try withWriter { db in
                // Runs in the format the journal was written in.
                if let journal { try replay(db, journal) }
                try Schema.prepare(db)
                // Runs first, so that this life has its numbers even after a power loss.
                try reserveNumbers(db)
                if let journal { try beginLife(db, journal) }
            }
        }
        try write(.startup) { try $0.makeRoot() }
        let first = ContentID(numbers.withLock { $0.next })
        trust.withLock { $0 = OutdatedTrust(first: first) }
        recorded.withLock { $0 = RecordedContents(newest: first) }
        try loadIgnoreFiles()
        if try !hasCountedFolders { continueFolderCount() }
    }

    /// Returns the journal's file for the index at a path, and the offset from which others may use it. Bytes there are
    /// synced with the journal (`makeDurableByJournal`).
    package static func journalRoom(ofIndexAt path: String) -> (path: String, start: Int64) {
        (journalPath(path), IndexJournal.capacity)
    }

    private static func journalPath(_ path: String) -> String {
        Path.join(Path.parent(of: path), "index.journal")
    }

    private static var configuration: Configuration {
        var configuration = Configuration()
        configuration.label = "index"
        configuration.busyMode = .timeout(busyTimeout)
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA synchronous = NORMAL")
            try db.execute(sql: "PRAGMA wal_autocheckpoint = \(forcedCheckpointPages)")
            try db.execute(sql: "PRAGMA cache_size = -\(db.configuration.readonly ? readerCache : writerCache)")
        }
        return configuration
    }

    private static func open(_ path: String?, _ configuration: Configuration) throws -> DatabaseQueue {
        guard let path else { return try DatabaseQueue(configuration: configuration) }
        var configuration = configuration
        configuration.journalMode = .wal
        // A batch stays open between calls.
        configuration.allowsUnsafeTransactions = true
        return try DatabaseQueue(path: path, configuration: configuration)
    }

    /// Adds an observer. It is called with every commit's changes, in order, on the committing thread, and must return
    /// quickly.
    package func observe(_ observer: @escaping @Sendable ([IndexEvent]) -> Void) {
        observers.withLock { $0.append(observer) }
    }

    /// Reads the index, including all writes that have returned. One statement is consistent in itself; several may see
    /// different states.
    package func read<T>(_ body: (IndexReader) throws -> T) throws -> T {
        // Without disk space the batch stays open and is read through the writing connection.
        if isBatchOpen.load(ordering: .acquiring), (try? settle()) == nil { return try readWriter(body) }
        return try mapErrors {
            func answer(_ db: Database) throws -> T { try body(IndexReader(db)) }
            return try readers?.read(answer) ?? writer.unsafeRead(answer)
        }
    }

    /// Reads like `read`, for a short query: it does not commit the batch, and writers wait for it.
    package func peek<T>(_ body: (IndexReader) throws -> T) throws -> T {
        try isBatchOpen.load(ordering: .acquiring) ? readWriter(body) : read(body)
    }

    private func readWriter<T>(_ body: (IndexReader) throws -> T) throws -> T {
        try mapErrors {
            try withWriter { db in
                if let journal { try openBatch(db, journal) }
                return try body(IndexReader(db, seesBatch: folderChanges.withLock { !$0.isEmpty }))
            }
        }
    }

    /// Runs `body` with the writing connection, with exclusive access to it and to the journal.
    func withWriter<T>(_ body: (Database) throws -> T) rethrows -> T {
        try turn.take { try writer.writeWithoutTransaction(body) }
    }

    /// Runs `body` like `withWriter`, for background work: other waiting callers come first.
    func withWriterLast<T>(_ body: (Database) throws -> T) rethrows -> T {
        try turn.takeLast { try writer.writeWithoutTransaction(body) }
    }

    /// Takes the same lock as `withWriter`, without the connection.
    func withJournal<T>(_ body: () -> T) -> T { turn.take(body) }

    /// Commits the batch, so that all connections see it.
    func settle() throws {
        guard let journal else { return }
        try mapErrors { try withWriter { db in try commitBatch(db, journal) } }
    }

    func setBatch(isOpen: Bool) { isBatchOpen.store(isOpen, ordering: .releasing) }

    /// Runs `body` as one transaction: all of it takes effect, or nothing.
    package func write<T>(_ origin: IndexEvent.Origin, _ body: (IndexTransaction) throws -> T) throws -> T {
        try mapErrors {
            try withWriter { db in
                if let journal {
                    if origin == .local { return try writeLocally(db, journal, body) }
                    try commitBatch(db, journal)
                }
                try reserveNumbers(db)
                let transaction = IndexTransaction(db, index: self, origin: origin, journal: nil)
                let result = try commit(transaction, db, body)
                publish(transaction.events)
                return result
            }
        }
    }

    private func commit<T>(
        _ transaction: IndexTransaction, _ db: Database, _ body: (IndexTransaction) throws -> T
    ) throws -> T {
        // Uses cached statements: GRDB's own transactions compile theirs each time.
        try db.cachedStatement(sql: "BEGIN IMMEDIATE").execute()
        // Ends the cache's commit if the commit fails; a successful commit has ended it already.
        defer { cache.endCommit() }
        let changes = db.totalChangesCount
        do {
            let result = try body(transaction)
            try transaction.touchTopFolder()
            try recordOverdraft(transaction)
            let isToCount = try updateFolders(transaction.folderChanges, db)
            let number = try db.totalChangesCount == changes ? nil : journal.map { try count(db, $0) }
            cache.beginCommit(of: transaction)
            FaultPoints.reach("index.committing")
            try db.cachedStatement(sql: "COMMIT").execute()
            FaultPoints.reach("index.committed")
            cache.endCommit(of: transaction)
            if let number { journal?.skip(to: number, isChange: transaction.isChange) }
            if isToCount { countFoldersElsewhere() }
            return result
        } catch {
            // SQLite may have rolled back by itself, as it does when the disk is full.
            if db.isInsideTransaction { try db.rollback() }
            throw error
        }
    }

    /// Returns the SQL text that updates these columns (`RowCoding.difference`).
    func updateStatement(_ mask: UInt32) -> String {
        updateStatements.withLock { known in
            if let text = known[mask] { return text }
            let text = RowCoding.update(mask)
            known[mask] = text
            return text
        }
    }

    /// Waits until every observer has been notified of the last commit. A commit is readable shortly before that.
    package func awaitPublishing() { turn.take {} }

    func publish(_ events: [IndexEvent]) {
        guard !events.isEmpty else { return }
        for observer in observers.withLock({ $0 }) { observer(events) }
    }

    // MARK: The log

    /// Reserves disk space from now on, for a time when the disk is full.
    package func keepReserve() {
        guard let path else { return }
        let reserve = IndexReserve(besideIndexAt: path)
        self.reserve.withLock { $0 = reserve }
        reserve.take()
    }

    /// Copies the log back into the database if it has grown. Call it from time to time, from a thread that may block.
    package func checkpoint() throws {
        try settle()
        reserve.withLock { $0 }?.take()
        guard let path, let size = try? FileSystem.status(path + "-wal").size,
            size > Int64(Self.checkpointPages) * 4096
        else { return }
        // SQLite syncs the log before it copies it.
        try withPrecursors {
            try mapErrors {
                try withWriter { db in
                    if let journal { try commitBatch(db, journal) }
                    _ = try db.checkpoint(.passive)
                }
            }
        }
    }

    /// Frees the connections' page caches; later queries read the pages again.
    package func releaseMemory() {
        withWriterLast { db in _ = sqlite3_db_release_memory(db.sqliteConnection) }
        readers?.releaseMemory()
    }

    /// Copies the log back and closes the file.
    package func close() throws {
        try settle()
        log.withLock { $0 = nil }
        // The connection closed last copies the log back, which a read-only connection cannot do.
        try mapErrors {
            try readers?.close()
            try writer.close()
        }
    }
}

private func remedy(_ error: DatabaseError) -> String {
    switch error.resultCode {
    case .SQLITE_FULL: "free some space on the disk"
    case .SQLITE_CORRUPT, .SQLITE_NOTADB, .SQLITE_ERROR:
        "run 'ubiquity doctor --state DIR': it repairs or rebuilds the index and keeps files that are only here"
    default: "check the disk and the log"
    }
}

/// Runs `body` and converts database errors to `UbiquityError`.
func mapErrors<T>(_ body: () throws -> T) throws -> T {
    do {
        return try body()
    } catch let error as DatabaseError {
        throw UbiquityError(
            error.resultCode == .SQLITE_FULL ? .noSpace : .io, "the index failed: \(error.message ?? "\(error)")",
            remedy: remedy(error))
    } catch let error as Errno {
        throw UbiquityError(error, doing: "use the index")
    }
}
