import FoundationEssentials
import GRDB
import Ubiquity
import UbiquityCore
import UbiquitySystem

/// A SQLite database whose rows travel to the account's other devices.
///
/// The database lies on this device, opens at once, and always works. Writes go into a log in the container; other
/// devices import it. Two devices may change one row at the same time: each column has the value of its last writer.
///
///     let database = try SyncedDatabase(named: "Photos", in: container, migrator: migrator)
///     try database.write { db in try photo.insert(db) }
///     for await changes in database.importedChanges { show(changes) }
///
/// The program needs no coordinator, presenter, query or version of the log's files.
///
/// - Source: `UIManagedDocument`, and Core Data's stores with ubiquitous content.
public final class SyncedDatabase: Sendable {
    /// The name, unique in the container.
    public let name: String
    /// Reads and observations. Imported changes reach every `ValueObservation`.
    public var reader: any DatabaseReader { pool }
    /// The file of the local database. It never travels.
    public let fileURL: URL

    private let pool: DatabasePool
    private let context: LogContext
    private let worker: SyncWorker
    private let watch: FolderWatch
    private let watching: Task<Void, Never>
    private let streams: SyncStreams
    /// One program at a time has the database.
    private let lock: ProcessLock

    /// Opens a database, or makes an empty one; other devices' rows come later. It does not wait for the network.
    ///
    /// - Parameter name: The name, unique in the container.
    /// - Parameter container: The folder of the container, or any folder that travels.
    /// - Parameter migrator: The program's migrations.
    /// - Parameter configuration: Other options.
    /// - Throws: `SchemaError` if a table cannot be synced; `UbiquitousFileError` if the folders cannot be used,
    ///   another program has the database, or a newer program wrote it; `DatabaseError`.
    public init(
        named name: String, in container: URL, migrator: DatabaseMigrator,
        configuration: SyncedDatabaseConfiguration = SyncedDatabaseConfiguration()
    ) throws {
        guard !name.isEmpty, !name.contains("/"), !name.hasPrefix(".") else {
            throw UbiquitousFileError(.fileWriteInvalidFileName, "'\(name)' is not a name of a database; use letters")
        }
        self.name = name
        let local = configuration.localFolder?.path ?? Path.join(container.path, "\(name).nosync")
        let log = configuration.logFolder?.path ?? Path.join(container.path, "\(name).logs")
        do {
            try describing("make the database's folders", at: container.path) { () throws(Errno) in
                try FileSystem.makeDirectories(local)
                try FileSystem.makeDirectories(log)
            }
            lock = try ProcessLock(Path.join(local, "lock"))
            let file = Path.join(local, "\(name).sqlite")
            fileURL = URL(filePath: file)
            var options = configuration.database
            if configuration.isDurable { options.prepareDatabase { try $0.execute(sql: "PRAGMA synchronous = FULL") } }
            pool = try DatabasePool(path: file, configuration: options)
            let clock = SystemTimekeeper()
            var opening = DatabaseOpening(
                migrator: migrator, now: { clock.now().nanoseconds / 1_000_000 }, random: SystemRandom())
            opening.schemaVersion = configuration.schemaVersion
            opening.localTables = configuration.localTables
            context = try opening.open(pool, FolderLogStore(log))
        } catch let error as UbiquityError {
            throw UbiquitousFileError(error)
        }
        let streams = SyncStreams()
        let worker = SyncWorker(context, report: { streams.send($0) }, changed: { streams.changed() })
        let watch = FolderWatch(log) { worker.request(publish: true, import: true) }
        streams.picture = { Self.status(worker, watch) }
        (self.streams, self.worker, self.watch) = (streams, worker, watch)
        watching = Task { await watch.run() }
        worker.request(publish: true, import: true)
    }

    deinit { watching.cancel() }

    // MARK: Writing

    /// Runs a transaction, and records its changes for other devices. It does not wait for the network.
    ///
    /// - Parameter updates: The changes.
    /// - Throws: What `updates` throws, and `DatabaseError`; then nothing has changed.
    public func write<T>(_ updates: (Database) throws -> T) throws -> T {
        let result = try pool.write { db in try Outbox(context).record(db) { try updates($0) } }
        worker.request(publish: true)
        return result
    }

    /// Runs a transaction without blocking the task's thread.
    ///
    /// - Parameter updates: The changes.
    /// - Throws: What `updates` throws, and `DatabaseError`; then nothing has changed.
    public func write<T: Sendable>(_ updates: @escaping @Sendable (Database) throws -> T) async throws -> T {
        let context = context
        let result = try await pool.write { db in try Outbox(context).record(db) { try updates($0) } }
        worker.request(publish: true)
        return result
    }

    /// Reads in a snapshot of the database.
    ///
    /// - Parameter value: The reads.
    /// - Throws: What `value` throws, and `DatabaseError`.
    public func read<T>(_ value: (Database) throws -> T) throws -> T { try pool.read(value) }

    /// Adds the rows of another SQLite file, by import: the rows travel like any others. Rows that exist stay as they
    /// are. The file is not changed.
    ///
    /// - Parameter url: The file. Its tables and columns have the names of this database's.
    /// - Returns: The number of new rows.
    /// - Throws: `DatabaseError`.
    @discardableResult
    public func seed(from url: URL) throws -> Int {
        let count = try pool.writeWithoutTransaction { db in
            try SeedFile(context).add(url.path, db)
        }
        worker.request(publish: true)
        return count
    }

    /// Writes a plain copy of the database, without the tables of this library.
    ///
    /// - Parameter url: The new file. It must not exist.
    /// - Throws: `DatabaseError`.
    public func export(to url: URL) throws {
        try pool.vacuum(into: url.path)
        let copy = try DatabaseQueue(path: url.path)
        try copy.write { db in
            for table in try String.fetchAll(db, sql: "SELECT name FROM sqlite_schema WHERE type = 'table'")
            where table.hasPrefix("ubiquity_") {
                try db.execute(sql: "DROP TABLE \(SyncedTable.quote(table))")
            }
        }
        try copy.close()
    }

    // MARK: State

    /// The state of the sync.
    public var status: SyncStatus { Self.status(worker, watch) }

    /// The state, then each new one.
    public var statuses: AsyncStream<SyncStatus> { streams.statuses() }

    /// The reason why changes do not travel now, such as a full disk; nil if they do. The next attempt follows by
    /// itself.
    public var problem: String? { worker.picture.problem }

    /// The rows that each import changed, from now on.
    public var importedChanges: AsyncStream<ImportedChanges> { streams.imports() }

    private static func status(_ worker: SyncWorker, _ watch: FolderWatch) -> SyncStatus {
        if watch.isSignedOut { return .signedOut }
        let picture = worker.picture
        if picture.waitsForNewerProgram { return .waitingForNewerProgram }
        if watch.isOffline { return .offline }
        return picture.isGathering ? .gathering : .current
    }

    /// Writes what waits into the log, and imports what has arrived.
    ///
    /// - Throws: `UbiquitousFileError`, `DatabaseError`.
    public func synchronize() async throws {
        do { try await worker.runNow() } catch let error as UbiquityError { throw UbiquitousFileError(error) }
    }

    /// Writes what waits into the log, and closes the database. Nothing is lost without it.
    ///
    /// - Throws: `UbiquitousFileError`, `DatabaseError`.
    public func close() async throws {
        watching.cancel()
        do { try await worker.close() } catch let error as UbiquityError { throw UbiquitousFileError(error) }
        streams.finish()
        try pool.close()
    }
}
