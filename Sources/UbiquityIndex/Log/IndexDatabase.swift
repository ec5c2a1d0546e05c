import GRDB
import GRDBSQLite
internal import UbiquitySystem

/// The connections to `index.db`: one that writes, and several that read.
///
/// `IndexLog` and `ItemIndex` use it. It calls nothing else of the index.
final class IndexDatabase: Sendable {
    /// Pages of the log (4 KiB each: 64 MiB) above which the committing thread copies them back. This bounds the log if
    /// `IndexLog.checkpoint()` is never called.
    private static let forcedCheckpointPages = 16384
    /// Seconds a connection waits for another, which happens while one is opened or the log is emptied.
    private static let busyTimeout = 10.0
    /// Cache size of a reading connection, KiB.
    private static let readerCache = 4096
    /// Cache size of the writing connection, KiB. In a large index, one page of the feed changes that many pages; pages
    /// beyond the cache are written to the log twice.
    private static let writerCache = 24576

    /// Nil for an index in memory.
    let path: String?
    private let writer: DatabaseQueue
    /// The lock for the writing connection and the journal.
    private let turn: BriefTurn
    /// Nil for an index in memory: then the one connection also reads.
    private let readers: ReadConnections?

    /// - Parameter spins: whether a thread that waits for the writer spins for a moment before it sleeps.
    init(path: String?, spins: Bool) throws {
        self.path = path
        turn = BriefTurn(spins: spins)
        // Stays open until the database itself is open, so that its log is read only once.
        let probe = try path.flatMap(Schema.probe)
        let configuration = Self.configuration
        readers = path.map { ReadConnections(path: $0, configuration: configuration) }
        writer = try Self.open(path, configuration)
        try probe?.close()
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

    /// Bytes of the write-ahead log; nil if there is none.
    var logSize: Int64? { path.flatMap { try? FileSystem.status($0 + "-wal").size } }

    /// Runs `body` with a reading connection.
    func read<T>(_ body: (Database) throws -> T) throws -> T {
        try readers?.read(body) ?? writer.unsafeRead(body)
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

    /// Frees the connections' page caches; later queries read the pages again.
    func releaseMemory() {
        withWriterLast { db in _ = sqlite3_db_release_memory(db.sqliteConnection) }
        readers?.releaseMemory()
    }

    func close() throws {
        // The connection closed last copies the log back, which a read-only connection cannot do.
        try readers?.close()
        try writer.close()
    }
}
