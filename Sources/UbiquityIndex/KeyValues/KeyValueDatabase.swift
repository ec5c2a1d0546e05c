import GRDB
import GRDBSQLite
internal import UbiquityCore
internal import UbiquitySystem

/// The key-values of one container on a device: a SQLite file with the values of every account that the device has
/// used.
///
/// A transaction is durable when it returns (`synchronous = FULL`). Two processes may have the file open while one
/// mount takes the place of another.
package final class KeyValueDatabase: Sendable {
    /// The format this program writes. A greater one was written by a newer program and is left untouched.
    static let formatVersion: Int64 = 1
    /// Seconds to wait for another process.
    private static let busyTimeout = 10.0

    private let queue: DatabaseQueue

    /// Opens the file, or creates it.
    /// - Parameter path: nil for a database in memory.
    /// - Throws: `.newerFormat`, `.io`, `.noSpace`.
    package init(path: String?) throws {
        var configuration = Configuration()
        configuration.label = "keyvalues"
        configuration.busyMode = .timeout(Self.busyTimeout)
        if path != nil { configuration.journalMode = .wal }
        queue = try Self.mapErrors {
            try path.map { try DatabaseQueue(path: $0, configuration: configuration) }
                ?? DatabaseQueue(configuration: configuration)
        }
        try Self.mapErrors {
            // Not earlier: GRDB sets NORMAL when it turns WAL on, and a power loss would take the last sets.
            try queue.writeWithoutTransaction { try $0.execute(sql: "PRAGMA synchronous = FULL") }
            try queue.write { try Self.prepare($0) }
        }
    }

    private static func prepare(_ db: Database) throws {
        let found = try Int64.fetchOne(db, sql: "PRAGMA user_version") ?? 0
        guard found <= formatVersion else {
            throw UbiquityError(
                .newerFormat, "the key-values were written by a newer version of ubiquity (format \(found))",
                remedy: "install that version; nothing was changed")
        }
        guard found < formatVersion else { return }
        try db.execute(sql: KeyValueTable.setUp)
        try db.execute(sql: "PRAGMA user_version = \(formatVersion)")
    }

    func read<T>(_ body: (Database) throws -> T) throws -> T {
        try Self.mapErrors { try queue.unsafeRead(body) }
    }

    /// Runs a transaction. It is rolled back if the process ends, or `body` throws, before its end.
    func write<T>(_ body: (Database) throws -> T) throws -> T {
        let result = try Self.mapErrors {
            try queue.write { db in
                let result = try body(db)
                try FaultPoints.check("kv.write")
                return result
            }
        }
        FaultPoints.reach("kv.written")
        return result
    }

    package func close() throws { try Self.mapErrors { try queue.close() } }

    private static func mapErrors<T>(_ body: () throws -> T) throws -> T {
        do {
            return try body()
        } catch let error as DatabaseError {
            let isFull = error.resultCode == .SQLITE_FULL
            throw UbiquityError(
                isFull ? .noSpace : .io, "the database of key-values failed: \(error.message ?? "\(error)")",
                remedy: isFull ? "free some space on the disk" : "check the disk and the log")
        }
    }
}
