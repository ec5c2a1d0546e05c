import Crypto
import GRDB
package import Logging
package import UbiquityCore
package import UbiquitySystem
package import UbiquityWire

/// A cloud over one data folder: `metadata.db` (SQLite) and, per account, a folder of chunks.
///
/// A commit is acknowledged when its rows and all chunks it names survive a power loss: chunks are synced before its
/// transaction, and SQLite syncs the transaction (`synchronous = FULL`). One process at a time has the folder.
package final class Cloud: Sendable {
    let database: DatabasePool
    let folder: String
    let timekeeper: any Timekeeper
    let random: any RandomSource
    let pool: BlockingPool
    let logger: Logger
    /// Rules that a running cloud can change.
    private let rules: Lock<Rules>
    let news = NewsHub()
    /// Announces the revisions of key-values.
    let keyValueNews = NewsHub()
    package let revocations = Revocations()
    let contacts = RecentContacts()
    let pendingSignIns = PendingSignIns()
    let incarnation: UInt64
    /// The features of the data.
    let features: FormatFeatures
    /// Containers whose incarnation this process has changed (`ContainerService.renew`).
    let renewed = Lock<Set<Int64>>([])
    /// Nil once the cloud is closed: a remaining reference to one of its containers blocks no other process.
    private let lock: Lock<ProcessLock?>
    private let stores = Lock<[Int64: FileChunkStore]>([:])
    let damagedChunks = DamagedChunks()
    let commits = AccountTurns(total: CloudLimits.commitsAtOnce, perAccount: CloudLimits.commitsOfAnAccount)
    /// For the verification of chunks, which reads all of them.
    let checks = AccountTurns(total: 1, perAccount: 1)

    /// Opens a cloud's data, or creates it. Blocks.
    /// - Parameters:
    ///   - quotaBytes: quota of each account; nil keeps the existing quotas and gives new accounts the standard.
    ///   - noticesCopies: whether a database copied here since it was last open gets a new incarnation.
    /// - Throws: `.inUse` if another process has it, `.newerFormat`, `.io`, `.noSpace`.
    package init(
        data folder: String, timekeeper: any Timekeeper, random: any RandomSource, pool: BlockingPool, logger: Logger,
        keeping: KeepingRules = .standard, quotaBytes: Int64? = nil, noticesCopies: Bool = true
    ) throws {
        try describing("create the cloud's folder", at: folder) { () throws(Errno) in
            try FileSystem.makeDirectories(folder)
            try FileSystem.setPermissions(folder, 0o700)
            try FileSystem.syncPath(to: folder)
        }
        lock = Lock(try ProcessLock(Self.lockPath(folder)))
        self.folder = folder
        self.timekeeper = timekeeper
        self.random = random
        self.pool = pool
        self.logger = logger
        rules = Lock(Rules(keeping: keeping, quotaBytes: quotaBytes ?? CloudLimits.defaultQuotaBytes))
        let database = try Self.open(Path.join(folder, "metadata.db"))
        self.database = database
        (incarnation, features) = try Self.mapErrors {
            try database.write { db in
                let features = try CloudSchema.prepare(db, incarnation: random.next())
                let isReadOnly = features.access(knowing: FormatFeatures.known) != .full
                if !isReadOnly, noticesCopies, try DatabasePlace(of: Path.join(folder, "metadata.db")).isNew(in: db) {
                    logger.warning(
                        "the cloud's database is a copy; devices compare their complete state with it",
                        metadata: ["data": "\(folder)"])
                    try db.execute(
                        sql: "UPDATE meta SET value = ? WHERE name = 'incarnation'",
                        arguments: [Int64(bitPattern: random.next())])
                }
                if !isReadOnly, let quotaBytes { try Self.setQuotas(quotaBytes, db) }
                let number = try Int64.fetchOne(db, sql: "SELECT value FROM meta WHERE name = 'incarnation'") ?? 0
                return (UInt64(bitPattern: number), features)
            }
        }
        if let refusal = writeRefusal { logger.warning("the cloud serves its data for reading only: \(refusal)") }
    }

    /// Why nothing is written: a newer program made the data. Nil if this program may write.
    private var writeRefusal: UbiquityError? {
        guard case .readOnly(let unknown) = features.access(knowing: FormatFeatures.known) else { return nil }
        return features.refusal(of: "the cloud's data", unknown)
    }

    private struct Rules {
        var keeping: KeepingRules
        /// Quota of a new account in bytes.
        var quotaBytes: Int64
    }

    var keeping: KeepingRules { rules.withLock { $0.keeping } }
    var quotaBytes: Int64 { rules.withLock { $0.quotaBytes } }

    /// Changes the rules of the running cloud.
    /// - Parameter quotaBytes: as at the start: nil keeps the existing quotas.
    package func apply(keeping: KeepingRules, quotaBytes: Int64?) async throws {
        rules.withLock { rules in
            rules.keeping = keeping
            if let quotaBytes { rules.quotaBytes = quotaBytes }
        }
        guard let quotaBytes else { return }
        try await pool.run { [self] in try write { try Self.setQuotas(quotaBytes, $0) } }
    }

    /// The quota of all accounts that have none of their own.
    private static func setQuotas(_ bytes: Int64, _ db: Database) throws {
        try db.execute(sql: "UPDATE accounts SET quota = ? WHERE ownQuota = 0", arguments: [bytes])
    }

    package static let lockName = "cloud.lock"
    private static func lockPath(_ folder: String) -> String { Path.join(folder, lockName) }

    /// Whether the path still leads to the folder that this cloud has opened, with its lock in it.
    private func stands() throws(UbiquityError) -> Bool {
        guard let held = lock.withLock({ $0 }) else { return false }
        return try held.stands(at: Self.lockPath(folder))
    }

    /// False only if the folder or its lock is known to be gone.
    package var isInPlace: Bool { (try? stands()) ?? true }

    /// Throws `.offline` if the folder is gone or moved away: data stored there now would be lost.
    func requirePlace() throws {
        do {
            guard try !stands() else { return }
        } catch {
            throw UbiquityError(.offline, "the cloud cannot check its data folder: \(error.message)", at: folder)
        }
        throw UbiquityError(
            .offline, "the cloud's data folder, or its \(Self.lockName), was removed or moved while it was in use",
            at: folder, remedy: "put it back, or start the cloud with the folder's new place")
    }

    private static func open(_ path: String) throws -> DatabasePool {
        var configuration = Configuration()
        configuration.label = "cloud"
        configuration.maximumReaderCount = 4
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA wal_autocheckpoint = 8192")
            try db.execute(sql: "PRAGMA cache_size = -16384")
            // Without it a row that replaces another one is added to the sum of the rows and the old one is not
            // taken off (`StoredRows`).
            try db.execute(sql: "PRAGMA recursive_triggers = ON")
            // Overwrites deleted rows, so that a purged secret is not in the file any more.
            try db.execute(sql: "PRAGMA secure_delete = ON")
        }
        return try mapErrors {
            let pool = try DatabasePool(path: path, configuration: configuration)
            // Not earlier: GRDB sets NORMAL when it turns WAL on, and a power loss would take the last commits.
            try pool.writeWithoutTransaction { try $0.execute(sql: "PRAGMA synchronous = FULL") }
            return pool
        }
    }

    /// Whether SQLite syncs every transaction, which a commit's answer promises.
    package func isDurable() async throws -> Bool {
        try await pool.run { [database] in
            try database.writeWithoutTransaction { try Int.fetchOne($0, sql: "PRAGMA synchronous") == 2 }
        }
    }

    package func close() async throws {
        news.close()
        keyValueNews.close()
        try await pool.run(evenIfCancelled: true) { [self] in
            // Without its sum the next process counts the files of a store.
            for store in stores.withLock({ Array($0.values) }) { try? store.keepSize() }
            // GRDB's last connections are readers, whose end does not empty the log.
            emptyLog()
            try database.close()
        }
        lock.withLock { $0 = nil }
    }

    package var tokens: AccountTokens { AccountTokens(cloud: self) }
    package var signInCodes: SignInCodes { SignInCodes(cloud: self) }
    package var containers: AccountContainers { AccountContainers(cloud: self) }
    package var devices: AccountDevices { AccountDevices(cloud: self) }
    package var links: Links { Links(cloud: self) }
    package var purges: Purges { Purges(cloud: self) }
    package var deletions: ContainerDeletions { ContainerDeletions(cloud: self) }
    package var survey: UsageSurvey { UsageSurvey(cloud: self) }

    /// Moves the database's log into it and empties the log, which has deleted rows still. The next call does it if a
    /// reader keeps the log now.
    func emptyLog() {
        do { _ = try database.writeWithoutTransaction { try $0.checkpoint(.truncate) } } catch {
            logger.notice("cannot empty the database's log now", metadata: ["reason": "\(error)"])
        }
    }

    /// One container of an account, as one device sees it. Throws `.notFound` if there is no such account; the account
    /// `local` is created on first use.
    /// - Parameter isReadOnly: whether `open` must not create the container.
    package func service(
        account: String, container: ContainerID, isReadOnly: Bool = false
    ) async throws -> any CloudService {
        let account = try await pool.run { try self.account(named: account) }
        return ContainerService(cloud: self, account: account, container: container, mayCreate: !isReadOnly)
    }

    /// The account's own chunk store: knowing a chunk's name gives no access to another account's chunk.
    func chunks(of account: Int64) throws -> FileChunkStore {
        try stores.withLock { stores in
            if let store = stores[account] { return store }
            let path = Path.join(folder, "chunks/\(account)")
            try describing("create the chunk folder", at: path) { () throws(Errno) in
                try FileSystem.makeDirectories(path)
                try FileSystem.syncDirectory(Path.parent(of: path))
                try FileSystem.syncDirectory(folder)
            }
            let store = try FileChunkStore(directory: path, timekeeper: timekeeper)
            stores[account] = store
            return store
        }
    }

    /// The same; nil if the account has never had a chunk in a file.
    func existingChunks(of account: Int64) throws -> FileChunkStore? {
        if let store = stores.withLock({ $0[account] }) { return store }
        let path = Path.join(folder, "chunks/\(account)")
        let isThere = try describing("find the chunk folder", at: path) { () throws(Errno) in
            try FileSystem.exists(path)
        }
        return isThere ? try chunks(of: account) : nil
    }

    func forgetStore(of account: Int64) { stores.withLock { _ = $0.removeValue(forKey: account) } }

    // MARK: Database

    func read<T>(_ body: (Database) throws -> T) throws -> T {
        try requirePlace()
        return try Self.mapErrors { try database.read(body) }
    }

    /// Throws `.newerFormat` if a newer program made the data so that this one may only read it.
    func write<T>(_ body: (Database) throws -> T) throws -> T {
        try requirePlace()
        if let writeRefusal { throw writeRefusal }
        return try Self.mapErrors { try database.write(body) }
    }

    private static func mapErrors<T>(_ body: () throws -> T) throws -> T {
        do {
            return try body()
        } catch let error as DatabaseError {
            let isFull = error.resultCode == .SQLITE_FULL
            throw UbiquityError(
                isFull ? .noSpace : .io, "the cloud's database failed: \(error.message ?? "\(error)")",
                remedy: isFull ? "free some space on the cloud's disk" : "check the cloud's disk and its log")
        }
    }
}
