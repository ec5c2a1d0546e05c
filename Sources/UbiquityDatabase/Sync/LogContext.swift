import GRDB
import UbiquityCore
import UbiquitySystem

/// Sizes and times of the log. The simulator uses smaller ones.
package struct LogLimits: Sendable {
    /// A segment that has reached this size gets no more entries.
    package var segmentBytes = 1 << 20
    /// Bytes of log after which a device writes a base.
    package var baseBytes = 16 << 20
    /// The size of a part of a base.
    package var partBytes = 4 << 20
    /// Bytes of entries that one transaction imports.
    package var importBytes = 8 << 20
    /// A device that was silent for so long is retired with the next base, in milliseconds.
    package var away: Int64 = 90 * 86_400_000
    /// The age of the youngest tombstone that a base leaves out, in milliseconds.
    package var tombstoneAge: Int64 = 7 * 86_400_000

    package init() {}
}

/// Faults that tests plant, to see that the simulator finds them.
package enum DatabaseFault: String, CaseIterable, Sendable {
    /// The last import decides, not the last write.
    case ignoresStamps
    /// A row without its parent is lost.
    case dropsOrphans
    /// A segment counts as read although a part of it has not arrived.
    case skipsShortSegments
    /// A device that was away too long sends its old entries again as they are.
    case keepsRetiredName
    /// An entry leaves the outbox before it is in a segment.
    case forgetsOutbox
}

/// All parts of a database's sync know this.
package struct LogContext: Sendable {
    package let writer: any DatabaseWriter
    package let schema: SyncedSchema
    /// The dictionary of the schema in `ubiquity_schema`.
    package let dictionary: Int
    package let store: any LogStore
    package let clock: HybridClock
    package let limits: LogLimits
    /// Milliseconds since 1970, as this device believes.
    package let now: @Sendable () -> Int64
    package let random: any RandomSource
    package let fault: DatabaseFault?
    /// Triggers that write synced tables: they run where the user's write runs, and not in imports.
    package let triggers: [String: String]
    /// Whether this device has imported anything since its last own entry.
    package let hasNews: Lock<Bool>

    package var tables: LogTables { LogTables(schema) }

    func merger(_ db: Database, _ devices: DeviceTable) throws -> RowMerger {
        var faults = RowMerger.Faults()
        faults.ignoresStamps = fault == .ignoresStamps
        faults.dropsOrphans = fault == .dropsOrphans
        return try RowMerger(db, schema, devices, faults: faults)
    }

    /// Runs a transaction of this library on the program's tables: without the actions of foreign keys, and without
    /// triggers that write synced tables.
    func merging<T>(_ body: (Database) throws -> T) throws -> T {
        try writer.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA foreign_keys = OFF")
            defer { try? db.execute(sql: "PRAGMA foreign_keys = ON") }
            var result: T?
            try db.inTransaction(.immediate) {
                for name in triggers.keys.sorted() { try db.execute(sql: "DROP TRIGGER \(SyncedTable.quote(name))") }
                result = try body(db)
                for (_, sql) in triggers.sorted(by: { $0.key < $1.key }) { try db.execute(sql: sql) }
                try Meta.clock.set(Int64(clock.latest), db)
                return .commit
            }
            guard let result else { throw UbiquityError(.invalid, "a transaction has no result") }
            return result
        }
    }
}
