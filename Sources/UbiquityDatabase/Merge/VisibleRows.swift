import GRDB

/// Reads and writes rows of the program's tables.
struct VisibleRows {
    let db: Database

    init(_ db: Database) { self.db = db }

    func exists(_ table: SyncedTable, _ key: [DatabaseValue]) throws -> Bool {
        try Int.fetchOne(
            db.cachedStatement(sql: "SELECT 1 FROM \(table.quoted) WHERE \(table.keyCondition)"),
            arguments: StatementArguments(key)) != nil
    }

    /// All values of a row, by position; nil if there is no such row.
    func values(_ table: SyncedTable, _ key: [DatabaseValue]) throws -> [DatabaseValue]? {
        let columns = table.columns.map { SyncedTable.quote($0.name) }.joined(separator: ", ")
        let row = try Row.fetchOne(
            db.cachedStatement(sql: "SELECT \(columns) FROM \(table.quoted) WHERE \(table.keyCondition)"),
            arguments: StatementArguments(key))
        return row.map { Array($0.databaseValues) }
    }

    /// Returns false if a rule of the table refuses the values.
    func insert(_ table: SyncedTable, _ key: [DatabaseValue], _ values: [Int: DatabaseValue]) throws -> Bool {
        let positions = table.key + values.keys.sorted()
        let columns = positions.map { SyncedTable.quote(table.columns[$0].name) }.joined(separator: ", ")
        let marks = positions.map { _ in "?" }.joined(separator: ", ")
        let statement = try db.cachedStatement(
            sql: "INSERT INTO \(table.quoted) (\(columns)) VALUES (\(marks))")
        return try isAccepted {
            try statement.execute(arguments: StatementArguments(key + values.keys.sorted().compactMap { values[$0] }))
        }
    }

    /// Returns false if a rule of the table refuses the values.
    func update(_ table: SyncedTable, _ key: [DatabaseValue], _ values: [Int: DatabaseValue]) throws -> Bool {
        let positions = values.keys.sorted()
        let sets = positions.map { "\(SyncedTable.quote(table.columns[$0].name)) = ?" }.joined(separator: ", ")
        let statement = try db.cachedStatement(
            sql: "UPDATE \(table.quoted) SET \(sets) WHERE \(table.keyCondition)")
        return try isAccepted {
            try statement.execute(arguments: StatementArguments(positions.compactMap { values[$0] } + key))
        }
    }

    func delete(_ table: SyncedTable, _ key: [DatabaseValue]) throws {
        try db.cachedStatement(sql: "DELETE FROM \(table.quoted) WHERE \(table.keyCondition)")
            .execute(arguments: StatementArguments(key))
    }

    /// Keys of the rows that reference a parent.
    func children(
        _ table: SyncedTable, _ foreignKey: SyncedTable.ForeignKey, of parentKey: [DatabaseValue]
    ) throws -> [[DatabaseValue]] {
        let condition = foreignKey.columns.map { "\(SyncedTable.quote(table.columns[$0].name)) = ?" }
            .joined(separator: " AND ")
        return try Row.fetchAll(
            db.cachedStatement(sql: "SELECT \(table.keyColumns) FROM \(table.quoted) WHERE \(condition)"),
            arguments: StatementArguments(parentKey)
        ).map { Array($0.databaseValues) }
    }

    /// A broken rule is a property of the values and parks the row. Every other failure, such as a full disk, may pass:
    /// it ends the import, and nothing is lost.
    private func isAccepted(_ body: () throws -> Void) throws -> Bool {
        do { try body() } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT { return false }
        return true
    }
}
