import GRDB

/// The tables that travel, with the rules that they keep.
package struct SyncedSchema: Sendable {
    package let version: Int
    package let tables: [SyncedTable]
    private let byName: [String: Int]

    package init(version: Int, tables: [SyncedTable]) {
        self.version = version
        self.tables = tables
        byName = Dictionary(uniqueKeysWithValues: tables.enumerated().map { ($1.name, $0) })
    }

    package func table(_ name: String) -> SyncedTable? { byName[name].map { tables[$0] } }
    package func index(of name: String) -> Int? { byName[name] }
    package func table(number: Int) -> SyncedTable? { tables.first { $0.number == number } }

    /// Tables with a foreign key to that table, with the key.
    package func children(of parent: SyncedTable) -> [(table: SyncedTable, foreignKey: SyncedTable.ForeignKey)] {
        tables.flatMap { table in table.foreignKeys.filter { $0.parent == parent.name }.map { (table, $0) } }
    }

    // MARK: Reading

    /// Names of tables that belong to SQLite, GRDB or this library.
    private static let ownPrefixes = ["sqlite_", "grdb_", "ubiquity_"]

    /// Reads the schema of a database, and gives numbers to new tables and columns.
    ///
    /// - Throws: `SchemaError` for a table that breaks a rule.
    package static func read(_ db: Database, version: Int, except local: Set<String>) throws -> SyncedSchema {
        let list = try Row.fetchAll(db, sql: "SELECT name, type, wr FROM pragma_table_list WHERE schema = 'main'")
        var tables: [SyncedTable] = [], localTables: [String] = []
        for row in list.sorted(by: { ($0["name"] as String) < ($1["name"] as String) }) {
            let name: String = row["name"]
            guard row["type"] == "table", !ownPrefixes.contains(where: name.hasPrefix) else { continue }
            if local.contains(name) {
                localTables.append(name)
            } else {
                tables.append(try table(db, name))
            }
        }
        let schema = SyncedSchema(version: version, tables: tables)
        for index in tables.indices { tables[index].foreignKeys = try foreignKeys(db, tables[index], schema) }
        for name in localTables {
            let parents = try String.fetchAll(
                db, sql: "SELECT \"table\" FROM pragma_foreign_key_list(?)", arguments: [name])
            if let parent = parents.first(where: { schema.table($0) != nil }) {
                throw SchemaError(table: name, reason: "it is local, and references the synced \(parent); sync both")
            }
        }
        return SyncedSchema(version: version, tables: tables)
    }

    private static func table(_ db: Database, _ name: String) throws -> SyncedTable {
        let sql: String = try String.fetchOne(
            db, sql: "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?", arguments: [name]) ?? ""
        if sql.uppercased().contains("AUTOINCREMENT") {
            throw SchemaError(
                table: name, reason: "AUTOINCREMENT gives rows of two devices one number; use a UUID as primary key")
        }
        let rows = try Row.fetchAll(
            db, sql: "SELECT name, type, \"notnull\", dflt_value, pk, hidden FROM pragma_table_xinfo(?)",
            arguments: [name])
        let keyRows = rows.filter { ($0["pk"] as Int) > 0 }
        guard !keyRows.isEmpty else {
            throw SchemaError(table: name, reason: "it has no primary key, so SQLite records no changes; add one")
        }
        if let row = rows.first(where: { ($0["hidden"] as Int) > 0 }) {
            throw SchemaError(
                table: name, reason: "the column \(row["name"] as String) is generated; use a view instead")
        }
        let isRowID = keyRows.count == 1 && (keyRows[0]["type"] as String).uppercased() == "INTEGER"
        if !isRowID, let row = keyRows.first(where: { ($0["notnull"] as Int) == 0 }) {
            throw SchemaError(
                table: name,
                reason: "the key column \(row["name"] as String) allows NULL, and such rows do not travel; "
                    + "add NOT NULL")
        }
        let unique = try String.fetchOne(
            db, sql: "SELECT name FROM pragma_index_list(?) WHERE \"unique\" = 1 AND origin <> 'pk'", arguments: [name])
        if let unique {
            throw SchemaError(
                table: name,
                reason: "it has a UNIQUE rule beside the primary key (\(unique)), which two devices break together; "
                    + "make those columns the primary key, or check in the program")
        }
        let numbers = ColumnNumbers(db)
        let columns = try rows.map { row in
            let column: String = row["name"], text: String? = row["dflt_value"]
            return SyncedTable.Column(
                name: column, number: try numbers.number(of: column, in: name),
                defaultValue: try text.map { try constant(db, $0) } ?? .null)
        }
        let key = keyRows.sorted { ($0["pk"] as Int) < ($1["pk"] as Int) }
            .compactMap { row in columns.firstIndex { $0.name == row["name"] } }
        return SyncedTable(name: name, number: try numbers.number(ofTable: name), columns: columns, key: key)
    }

    private static func constant(_ db: Database, _ expression: String) throws -> DatabaseValue {
        try DatabaseValue.fetchOne(db, sql: "SELECT (\(expression))") ?? .null
    }

    private static func foreignKeys(
        _ db: Database, _ table: SyncedTable, _ schema: SyncedSchema
    ) throws -> [SyncedTable.ForeignKey] {
        let rows = try Row.fetchAll(
            db, sql: "SELECT id, \"table\", \"from\", \"to\", on_update, on_delete FROM pragma_foreign_key_list(?)",
            arguments: [table.name])
        return try Dictionary(grouping: rows) { $0["id"] as Int }.sorted { $0.key < $1.key }.map { _, parts in
            let name: String = parts[0]["table"]
            guard let parent = schema.table(name) else {
                throw SchemaError(table: table.name, reason: "it references \(name), which is not synced")
            }
            for action in ["on_delete", "on_update"] where (parts[0][action] as String).uppercased() == "RESTRICT" {
                throw SchemaError(
                    table: table.name,
                    reason: "its reference to \(name) has RESTRICT, which no merge can keep; use NO ACTION or CASCADE")
            }
            // Without a list of columns, the reference means the primary key.
            let keyNames = parent.key.map { parent.columns[$0].name }
            var columns: [Int] = []
            for (index, keyName) in keyNames.enumerated() {
                let part = parts.first { ($0["to"] as String?) == keyName }
                    ?? (parts.allSatisfy { ($0["to"] as String?) == nil } && index < parts.count ? parts[index] : nil)
                guard let part, let position = table.position(of: part["from"]) else {
                    throw SchemaError(table: table.name, reason: "it references \(name) by other columns than its key")
                }
                columns.append(position)
            }
            return SyncedTable.ForeignKey(parent: parent.name, columns: columns)
        }
    }
}

/// The numbers of tables and columns in stored clocks.
private struct ColumnNumbers {
    let db: Database

    init(_ db: Database) { self.db = db }

    func number(ofTable table: String) throws -> Int { try number(of: "", in: "", named: table) }
    func number(of column: String, in table: String) throws -> Int { try number(of: column, in: table, named: column) }

    private func number(of column: String, in table: String, named name: String) throws -> Int {
        if let number = try Int.fetchOne(
            db, sql: "SELECT number FROM ubiquity_column WHERE tbl = ? AND name = ?", arguments: [table, name]) {
            return number
        }
        let next = try Int.fetchOne(
            db, sql: "SELECT ifnull(max(number) + 1, 0) FROM ubiquity_column WHERE tbl = ?", arguments: [table]) ?? 0
        try db.execute(
            sql: "INSERT INTO ubiquity_column (tbl, name, number) VALUES (?, ?, ?)", arguments: [table, name, next])
        return next
    }
}
