import FoundationEssentials
import GRDB
import UbiquitySystem

/// Own transactions on their way into the log. A write stores its changeset in the same transaction; stamps of rows and
/// the entry of the log are made later, so that a write costs little.
package struct Outbox: Sendable {
    let context: LogContext

    package init(_ context: LogContext) { self.context = context }

    /// Runs a write of the program, and records its changes.
    package func record<T>(_ db: Database, _ updates: (Database) throws -> T) throws -> T {
        let session = try ChangeSession(db, context.schema.tables)
        let result = try updates(db)
        if let changes = try session.changeset(db) {
            let time = context.clock.next(context.now())
            try db.cachedStatement(
                sql: "INSERT INTO ubiquity_outbox (time, dictionary, seen, changes) VALUES (?, ?, ?, ?)"
            ).execute(arguments: [Int64(time), context.dictionary, try seen(db).map { Data($0) }, Data(changes)])
        }
        return result
    }

    /// The state of this device's import, if it is later than at its last write.
    private func seen(_ db: Database) throws -> [UInt8]? {
        let hasNews = context.hasNews.withLock { value in
            defer { value = false }
            return value
        }
        guard hasNews else { return nil }
        let own = try Meta.device.int(db)
        let rows = try Row.fetchAll(
            db, sql: "SELECT device, time FROM ubiquity_device WHERE time > 0 AND device <> ?", arguments: [own])
        guard !rows.isEmpty else { return nil }
        var writer = ByteWriter()
        for row in rows {
            writer.fixed(UInt64(bitPattern: row["device"]))
            writer.varint(UInt64(row["time"] as Int64))
        }
        return writer.bytes
    }

    private static func seen(_ bytes: Data?) throws -> [DeviceID: UInt64] {
        guard let bytes else { return [:] }
        var reader = ByteReader(Array(bytes)), result: [DeviceID: UInt64] = [:]
        while !reader.isAtEnd { result[DeviceID(try reader.fixed())] = try reader.varint() }
        return result
    }

    /// Gives stamps to the rows of recorded transactions, and makes their entries. Call it in `merging`.
    @discardableResult
    package func absorb(_ db: Database) throws -> ImportedChanges {
        let rows = try Row.fetchAll(
            db, sql: "SELECT id, time, seen, changes FROM ubiquity_outbox WHERE entry IS NULL ORDER BY id")
        guard !rows.isEmpty, let device = try Meta.deviceID(db) else { return ImportedChanges() }
        let devices = try DeviceTable(db), tables = context.tables, mapping = tables.mapping(to: context.schema)
        var merger = try context.merger(db, devices)
        for row in rows {
            let time = UInt64(row["time"] as Int64)
            let entry = try LogEntry(
                time: time, seen: try Self.seen(row["seen"]), changeset: Array(row["changes"] as Data), tables)
            for delta in entry.deltas(Stamp(time, device), mapping, tables) { try merger.absorb(delta) }
            try db.cachedStatement(
                sql: "UPDATE ubiquity_outbox SET entry = ?, changes = NULL, seen = NULL WHERE id = ?"
            ).execute(arguments: [Data(entry.body(tables)), row["id"] as Int64])
        }
        try merger.finish()
        return merger.changes
    }

    /// Writes entries of this device again, as new ones. Call it in `merging`, after a change of the device's number.
    func resend(_ entries: [LogEntry], _ logTables: LogTables, _ db: Database, _ merger: inout RowMerger) throws {
        guard let device = try Meta.deviceID(db) else { return }
        let mapping = logTables.mapping(to: context.schema)
        for var entry in entries {
            entry.time = context.clock.next(context.now())
            for delta in entry.deltas(Stamp(entry.time, device), mapping, logTables) { try merger.merge(delta) }
            try db.execute(
                sql: "INSERT INTO ubiquity_outbox (time, dictionary, entry) VALUES (?, ?, ?)",
                arguments: [Int64(entry.time), try dictionary(logTables, db), Data(entry.body(logTables))])
        }
    }

    private func dictionary(_ tables: LogTables, _ db: Database) throws -> Int {
        var writer = ByteWriter()
        tables.write(to: &writer)
        let bytes = Data(writer.bytes)
        if let id = try Int.fetchOne(
            db, sql: "SELECT id FROM ubiquity_schema WHERE tables = ? ORDER BY version DESC", arguments: [bytes]) {
            return id
        }
        // Only logs of older schemas have other tables; this device's schema can name them all.
        try db.execute(
            sql: "INSERT INTO ubiquity_schema (version, tables) VALUES (?, ?)",
            arguments: [context.schema.version, bytes])
        return Int(db.lastInsertedRowID)
    }
}
