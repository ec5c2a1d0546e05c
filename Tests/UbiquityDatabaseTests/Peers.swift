import GRDB
import UbiquityCore
import UbiquityDatabase
import UbiquitySystem

/// The log's folder, in memory; every device sees a write at once.
final class MemoryLog: LogStore {
    private let contents = Lock<[String: [UInt8]]>([:])
    private let refusal = Lock<UbiquityError?>(nil)
    private let hidden = Lock<(@Sendable (String) -> Bool)?>(nil)

    var names: [String] { contents.withLock { $0.keys.sorted() } }
    var size: Int { contents.withLock { $0.values.reduce(0) { $0 + $1.count } } }

    /// All writes fail with this error.
    func refuse(_ error: UbiquityError?) { refusal.withLock { $0 = error } }
    /// Files that have not arrived.
    func hide(_ condition: (@Sendable (String) -> Bool)?) { hidden.withLock { $0 = condition } }
    private func isHidden(_ name: String) -> Bool { hidden.withLock { $0 }?(name) ?? false }

    func files() throws -> [LogFile] {
        contents.withLock { $0.sorted { $0.key < $1.key }.map { LogFile($0.key, size: $0.value.count) } }
            .filter { !isHidden($0.name) }
    }

    func read(_ name: String, from offset: Int) throws -> [UInt8]? {
        if isHidden(name) { return nil }
        return contents.withLock { $0[name] }.map { offset <= $0.count ? Array($0[offset...]) : [] }
    }

    func append(_ bytes: [UInt8], to name: String, at offset: Int) throws {
        try check()
        contents.withLock { $0[name] = Array(($0[name] ?? []).prefix(offset)) + bytes }
    }

    func replace(_ name: String, with bytes: [UInt8]) throws {
        try check()
        contents.withLock { $0[name] = bytes }
    }

    func remove(_ name: String) throws {
        try check()
        contents.withLock { _ = $0.removeValue(forKey: name) }
    }

    private func check() throws { if let error = refusal.withLock({ $0 }) { throw error } }
}

/// A device with a database in memory.
struct Peer {
    let queue: DatabaseQueue
    let context: LogContext

    init(
        _ log: MemoryLog, _ migrator: DatabaseMigrator = Peer.people, on queue: DatabaseQueue? = nil,
        at milliseconds: Int64 = 1_700_000_000_000, limits: LogLimits = LogLimits(), local: Set<String> = []
    ) throws {
        self.queue = try queue ?? DatabaseQueue()
        var opening = DatabaseOpening(migrator: migrator, now: { milliseconds }, random: SystemRandom())
        opening.limits = limits
        opening.localTables = local
        context = try opening.open(self.queue, log)
    }

    static var people: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("people") { db in
            try db.execute(sql: """
                CREATE TABLE person (id TEXT PRIMARY KEY NOT NULL, first TEXT, last TEXT, email TEXT);
                CREATE TABLE note (
                    id TEXT PRIMARY KEY NOT NULL, text TEXT, person TEXT REFERENCES person ON DELETE CASCADE);
                """)
        }
        return migrator
    }

    func write(_ sql: String, _ arguments: StatementArguments = StatementArguments()) throws {
        try queue.write { db in
            try Outbox(context).record(db) { try $0.execute(sql: sql, arguments: arguments) }
        }
    }

    func publish() throws { try Publisher(context).publish() }

    @discardableResult
    func load() throws -> (outcome: Importer.Outcome, changes: [ImportedChanges]) {
        var changes: [ImportedChanges] = []
        let outcome = try Importer(context).run { changes.append($0) }
        return (outcome, changes)
    }

    func rows(_ sql: String) throws -> [[String]] {
        try queue.read { db in
            try Row.fetchAll(db, sql: sql).map { row in row.map { Self.text($0.1) } }
        }
    }

    private static func text(_ value: DatabaseValue) -> String {
        String.fromDatabaseValue(value) ?? Int.fromDatabaseValue(value).map { "\($0)" } ?? "-"
    }

    func number() throws -> UInt64 { try queue.read { try Meta.deviceID($0)?.number ?? 0 } }
}

/// Publishes and imports on all devices until nothing moves.
func exchange(_ peers: Peer...) throws {
    for _ in 0..<3 {
        for peer in peers { try peer.publish() }
        for peer in peers { try peer.load() }
    }
}
