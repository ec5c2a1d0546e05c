import FoundationEssentials
import GRDB
import UbiquityCore

/// The number of this device, and its change.
package struct DeviceIdentity: Sendable {
    let context: LogContext

    package init(_ context: LogContext) { self.context = context }

    /// Gives this device a new number. The old number's log was written by somebody else too: the database is a copy,
    /// or came back from a backup. Writes that are not in the log are sent under the new number. The old log is
    /// imported like the log of another device.
    func renew() throws {
        try context.merging { db in
            try Outbox(context).absorb(db)
            let entries = try pending(db)
            try start(db)
            var merger = try context.merger(db, try DeviceTable(db))
            for (entry, tables) in entries { try Outbox(context).resend([entry], tables, db, &merger) }
            try merger.finish()
        }
    }

    /// Own entries that are not in a segment yet.
    func pending(_ db: Database) throws -> [(entry: LogEntry, tables: LogTables)] {
        let rows = try Row.fetchAll(
            db, sql: """
                SELECT entry, tables FROM ubiquity_outbox JOIN ubiquity_schema ON ubiquity_schema.id = dictionary
                WHERE entry IS NOT NULL ORDER BY ubiquity_outbox.id
                """)
        return try rows.map { row in
            var reader = ByteReader(Array(row["tables"] as Data))
            let tables = try LogTables(&reader)
            return (try LogEntry(Array(row["entry"] as Data)[...], tables), tables)
        }
    }

    /// Sets a new number, with an empty log. The old number is silent from now on.
    func start(_ db: Database) throws {
        try db.execute(
            sql: "UPDATE ubiquity_device SET active = ? WHERE device = ?",
            arguments: [context.now(), try Meta.device.int(db)])
        try db.execute(sql: "DELETE FROM ubiquity_outbox")
        try db.execute(sql: "DELETE FROM ubiquity_segment")
        try Meta.device.set(Int64(bitPattern: context.random.next() | 1), db)
    }
}
