import FoundationEssentials
import GRDB
import UbiquityCore
import UbiquitySystem

/// Opens a database: this library's tables, the program's migrations, the rules of the schema.
package struct DatabaseOpening: Sendable {
    package var migrator: DatabaseMigrator
    /// The schema's number; nil for the number of migrations.
    package var schemaVersion: Int?
    package var localTables: Set<String> = []
    package var limits = LogLimits()
    package var fault: DatabaseFault?
    package var now: @Sendable () -> Int64
    package var random: any RandomSource

    package init(migrator: DatabaseMigrator, now: @escaping @Sendable () -> Int64, random: any RandomSource) {
        self.migrator = migrator
        self.now = now
        self.random = random
    }

    private var version: Int { schemaVersion ?? migrator.migrations.count }

    /// - Throws: `SchemaError`; `UbiquityError` if a newer program has written the database; `DatabaseError`.
    package func open(_ writer: any DatabaseWriter, _ store: any LogStore) throws -> LogContext {
        try writer.write { db in
            try LocalTables.create(db)
            if try Meta.device.int(db) == nil { try Meta.device.set(Int64(bitPattern: random.next() | 1), db) }
        }
        try finishOldSchema(writer, store)
        try migrator.migrate(writer)
        let (schema, dictionary, triggers, latest) = try writer.write { db -> Opened in
            let schema = try SyncedSchema.read(db, version: version, except: localTables)
            try Meta.schema.set(version, db)
            return (schema, try self.dictionary(db, schema), try self.triggers(db, schema), try latestTime(db))
        }
        return LogContext(
            writer: writer, schema: schema, dictionary: dictionary, store: store, clock: HybridClock(after: latest),
            limits: limits, now: now, random: random, fault: fault, triggers: triggers, hasNews: Lock(true))
    }

    private typealias Opened = (SyncedSchema, Int, [String: String], UInt64)

    /// Gives stamps to writes of the old schema, while the tables still have its columns.
    private func finishOldSchema(_ writer: any DatabaseWriter, _ store: any LogStore) throws {
        let old = try writer.write { db -> Opened? in
            guard let old = try Meta.schema.int(db) else { return nil }
            guard old <= version else {
                let reason = "a newer program wrote the database (schema \(old), this program knows \(version))"
                throw UbiquityError(.notSupported, reason, remedy: "update the program")
            }
            guard try Int.fetchOne(db, sql: "SELECT 1 FROM ubiquity_outbox WHERE entry IS NULL LIMIT 1") != nil else {
                return nil
            }
            // The tables still have the columns of these writes.
            let schema = try SyncedSchema.read(db, version: Int(old), except: localTables)
            return (schema, try dictionary(db, schema), try triggers(db, schema), try latestTime(db))
        }
        guard let (schema, dictionary, triggers, latest) = old else { return }
        let context = LogContext(
            writer: writer, schema: schema, dictionary: dictionary, store: store, clock: HybridClock(after: latest),
            limits: limits, now: now, random: random, fault: fault, triggers: triggers, hasNews: Lock(true))
        _ = try context.merging { db in try Outbox(context).absorb(db) }
    }

    private func dictionary(_ db: Database, _ schema: SyncedSchema) throws -> Int {
        var writer = ByteWriter()
        LogTables(schema).write(to: &writer)
        let bytes = Data(writer.bytes)
        if let id = try Int.fetchOne(
            db, sql: "SELECT id FROM ubiquity_schema WHERE version = ? AND tables = ?",
            arguments: [schema.version, bytes]) {
            return id
        }
        try db.execute(
            sql: "INSERT INTO ubiquity_schema (version, tables) VALUES (?, ?)", arguments: [schema.version, bytes])
        return Int(db.lastInsertedRowID)
    }

    private func latestTime(_ db: Database) throws -> UInt64 {
        let times = [
            try Meta.clock.int(db) ?? 0, try Int64.fetchOne(db, sql: "SELECT max(time) FROM ubiquity_outbox") ?? 0,
            try Int64.fetchOne(db, sql: "SELECT max(time) FROM ubiquity_device") ?? 0,
        ]
        return UInt64(max(0, times.max() ?? 0))
    }

    /// Triggers of synced tables whose statements write synced tables.
    private func triggers(_ db: Database, _ schema: SyncedSchema) throws -> [String: String] {
        let rows = try Row.fetchAll(
            db, sql: "SELECT name, tbl_name, sql FROM sqlite_schema WHERE type = 'trigger' AND sql IS NOT NULL")
        var result: [String: String] = [:]
        for row in rows where schema.table(row["tbl_name"]) != nil {
            let sql: String = row["sql"]
            let words = sql.uppercased().split { !($0.isLetter || $0.isNumber || $0 == "_") }.drop { $0 != "BEGIN" }
            let writes = zip(words, words.dropFirst()).contains { verb, name in
                ["INTO", "UPDATE", "FROM"].contains(verb)
                    && schema.tables.contains { $0.name.uppercased() == name }
            }
            if writes { result[row["name"]] = sql }
        }
        return result
    }
}
