import GRDB
import GRDBSQLite
import Synchronization
package import UbiquityCore
package import UbiquitySystem

/// What this device knows of a container: the local tree, the remote tree and what waits to go up, in `index.db`.
///
/// Writes are serial; each is one transaction that survives the death of the process when it returns, and power loss
/// after `makeDurable()`. Local ones gather in a batch (`IndexJournal`). Reads see every write that has returned; but
/// for short ones while a batch is open they take a connection of their own. Changes are told to the observers in the
/// order of the writes.
package final class ItemIndex: Sendable {
    /// Pages of the write-ahead log that `checkpoint()` lets pass before it copies them back (4 KiB each: 16 MiB).
    private static let checkpointPages = 4096
    /// When the log is this long (64 MiB), the committing thread itself copies back: a bound should nobody call
    /// `checkpoint()`.
    private static let forcedCheckpointPages = 16384
    /// Seconds a connection waits for another, which happens while one is opened or the log is emptied.
    private static let busyTimeout = 10.0
    /// Pages a reading connection keeps in memory, KiB.
    private static let readerCache = 4096
    /// Pages the writing connection keeps: a page of the feed changes that many in a large index, and what has no room
    /// is written to the log twice.
    private static let writerCache = 24576

    private let writer: DatabaseQueue
    /// The turn with the writing connection and with the journal.
    private let turn = BriefTurn()
    /// Nil if all is in memory: then the one connection reads as well.
    private let readers: ReadConnections?
    let path: String?
    package let random: any RandomSource
    package let timekeeper: any Timekeeper
    let ignoreFiles: IgnoreFiles
    let tunnels = Tunnels()
    let replaced = ReplacedContents()
    package let packages: PackageRules
    /// Who owns the top folder and what comes from other devices: owner and group are not synced.
    package let owner: (uid: UInt32, gid: UInt32)
    private let observers = Lock<[@Sendable ([IndexEvent]) -> Void]>([])
    let cache = RowCache()
    let namesInOrder = Lock(NamesInOrder())
    /// Nil if all is in memory.
    let journal: IndexJournal?
    let journalLoss = Lock(false)
    let refusals = Lock(Refusals())
    /// Runs what the journal has; nil if others do.
    let statementThread: BlockingPool?
    let isRunningElsewhere = Atomic<Bool>(false)
    /// Whether there are local transactions that only the writing connection sees.
    private let isBatchOpen = Atomic<Bool>(false)
    private let updateStatements = Lock<[UInt32: String]>([:])
    /// What must be on the disk before the index is (`beforeDurable`).
    let precursors = Lock<[(begin: @Sendable () throws -> Void, end: @Sendable () -> Void)]>([])
    /// Locked while something is synced.
    let syncFailures = Lock(SyncFailures())
    /// Nil if none is kept.
    let reserve = Lock<IndexReserve?>(nil)
    let roomLook = Lock(RoomLook())
    /// Whether the names of the files are known to be on the disk.
    let isNameDurable = Lock(false)
    /// The write-ahead log, once there is one: it stays as long as the database is open.
    let log = Lock<FileDescriptor?>(nil)
    let trust = Lock(OutdatedTrust(first: ContentID(.max)))
    let recorded = Lock(RecordedContents(newest: ContentID(.max)))
    let numbers = Lock(NumberReserve())
    let commitNumbers = Lock(CommitNumbers())
    /// Changes of the batch that the totals of folders do not include yet.
    let folderChanges = Lock(FolderChanges())

    /// Opens the index, or makes it. Throws `.newerFormat`, `.noSpace`, `.io`.
    /// - Parameters:
    ///   - path: the database's file; nil keeps all in memory (the simulator).
    ///   - ignoring: what stays on this device, wherever it lies, unless an ignore file takes it back.
    ///   - packages: which folders are one document.
    ///   - statementThread: runs statements that nobody waits for.
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
        // Open until the database itself is: so its log is read through once, not twice.
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
                // In the format it was written in.
                if let journal { try replay(db, journal) }
                try Schema.prepare(db)
                // First: a life that a loss of power leaves has its numbers.
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

    /// The file of the journal of the index at a path, and from which byte on others may use it: what stands there
    /// comes to the disk with the journal (`makeDurableByJournal`).
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

    /// Tells `observer` of every commit's changes, in order, on the committing thread: it must only take note.
    package func observe(_ observer: @escaping @Sendable ([IndexEvent]) -> Void) {
        observers.withLock { $0.append(observer) }
    }

    /// Reads what was written. One statement is consistent in itself; several may see different states.
    package func read<T>(_ body: (IndexReader) throws -> T) throws -> T {
        // Without room on the disk the batch stays open, and is read where it is.
        if isBatchOpen.load(ordering: .acquiring), (try? settle()) == nil { return try readWriter(body) }
        return try mapErrors {
            func answer(_ db: Database) throws -> T { try body(IndexReader(db)) }
            return try readers?.read(answer) ?? writer.unsafeRead(answer)
        }
    }

    /// The same for a question that is answered at once: it does not commit the batch, and writers wait for it.
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

    /// Runs `body` with the writing connection, alone with that and with the journal.
    func withWriter<T>(_ body: (Database) throws -> T) rethrows -> T {
        try turn.take { try writer.writeWithoutTransaction(body) }
    }

    /// The same for a part of what nobody waits for: whoever wants it too comes first.
    func withWriterLast<T>(_ body: (Database) throws -> T) rethrows -> T {
        try turn.takeLast { try writer.writeWithoutTransaction(body) }
    }

    /// The same as `withWriter`, without the connection.
    func withJournal<T>(_ body: () -> T) -> T { turn.take(body) }

    /// Commits the batch, so that all connections see it.
    func settle() throws {
        guard let journal else { return }
        try mapErrors { try withWriter { db in try commitBatch(db, journal) } }
    }

    func setBatch(isOpen: Bool) { isBatchOpen.store(isOpen, ordering: .releasing) }

    /// Runs `body` as one transaction: all of it happens, or nothing.
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
        // Kept statements: GRDB's own transactions compile theirs each time.
        try db.cachedStatement(sql: "BEGIN IMMEDIATE").execute()
        // For a commit that fails; of one that is made it was told.
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
            // SQLite may have rolled back already, as it does when the disk is full.
            if db.isInsideTransaction { try db.rollback() }
            throw error
        }
    }

    /// The text of an update of these columns (`RowCoding.difference`).
    func updateStatement(_ mask: UInt32) -> String {
        updateStatements.withLock { known in
            if let text = known[mask] { return text }
            let text = RowCoding.update(mask)
            known[mask] = text
            return text
        }
    }

    /// Waits until all have been told of what the index has now: it can be read a moment before.
    package func awaitPublishing() { turn.take {} }

    func publish(_ events: [IndexEvent]) {
        guard !events.isEmpty else { return }
        for observer in observers.withLock({ $0 }) { observer(events) }
    }

    // MARK: The log

    /// Keeps room on the disk from now on, for a time when there is none.
    package func keepReserve() {
        guard let path else { return }
        let reserve = IndexReserve(besideIndexAt: path)
        self.reserve.withLock { $0 = reserve }
        reserve.take()
    }

    /// Copies the log back into the database if it has grown; to be called now and then from a thread that may wait.
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

    /// Gives back the pages that the connections keep in memory; what is asked next is read anew.
    package func releaseMemory() {
        withWriterLast { db in _ = sqlite3_db_release_memory(db.sqliteConnection) }
        readers?.releaseMemory()
    }

    /// Copies the log back and lets go of the file.
    package func close() throws {
        try settle()
        log.withLock { $0 = nil }
        // The connection that is closed last copies the log back; one that only reads cannot.
        try mapErrors {
            try readers?.close()
            try writer.close()
        }
    }
}

private func remedy(_ error: DatabaseError) -> String {
    switch error.resultCode {
    case .SQLITE_FULL: "make room on the disk"
    case .SQLITE_CORRUPT, .SQLITE_NOTADB, .SQLITE_ERROR:
        "'ubiquity doctor --state DIR' repairs it, or makes it anew from the cloud and keeps what only is here"
    default: "look at the disk; see the log"
    }
}

/// Runs `body`; an error of the database becomes one of ours.
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
