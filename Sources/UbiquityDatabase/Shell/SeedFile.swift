import GRDB

/// Adds the rows of another SQLite file.
struct SeedFile {
    let context: LogContext

    init(_ context: LogContext) { self.context = context }

    func add(_ path: String, _ db: Database) throws -> Int {
        try db.execute(sql: "ATTACH DATABASE ? AS ubiquity_seed", arguments: [path])
        defer { try? db.execute(sql: "DETACH DATABASE ubiquity_seed") }
        var count = 0
        try db.inTransaction(.immediate) {
            try db.execute(sql: "PRAGMA defer_foreign_keys = ON")
            count = try Outbox(context).record(db) { db in
                let before = db.totalChangesCount
                for table in context.schema.tables { try add(table, db) }
                return db.totalChangesCount - before
            }
            return .commit
        }
        return count
    }

    private func add(_ table: SyncedTable, _ db: Database) throws {
        let names = try String.fetchAll(
            db, sql: "SELECT name FROM pragma_table_info(?, 'ubiquity_seed')", arguments: [table.name])
        let columns = table.columns.map(\.name).filter(names.contains)
        guard table.key.allSatisfy({ columns.contains(table.columns[$0].name) }) else { return }
        let list = columns.map(SyncedTable.quote).joined(separator: ", ")
        try db.execute(sql: """
            INSERT OR IGNORE INTO main.\(table.quoted) (\(list)) SELECT \(list) FROM ubiquity_seed.\(table.quoted)
            """)
    }
}
