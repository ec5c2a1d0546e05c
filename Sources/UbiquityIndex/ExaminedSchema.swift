import GRDB

/// `ubiquity doctor`: a file whose tables are not those of its format.
struct SchemaProblems {
    /// What a table lacks nobody can make up.
    var beyondRepair: [String] = []
    /// Of these the contents, the cloud and other tables tell what is needed, but for what a loss of power just now has
    /// left: that is put into set-aside. Each with the statement that fills it.
    private static let replaceable = [
        "chunks": "", "contents": "", "replacements": "", "sentVersions": Schema.knownSentVersions,
        "folderSums": Schema.uncountedFolders,
    ]

    /// Each with the statement that puts it right.
    var repairable: [(problem: String, repair: String)] = []

    /// Compares a file with a new one of the format that it says it has.
    init(in db: Database) throws {
        let format = try Schema.version(db)
        guard format <= Schema.formatVersion else { return }
        let found = try Layout(db)
        // An empty file becomes a new index.
        guard !found.columns.isEmpty else { return }
        let latest = try Layout(ofFormat: Schema.formatVersion)
        if format != Schema.formatVersion, found.has(latest) {
            repairable.append(
                (
                    "it says that its format is \(format), and has the tables of \(Schema.formatVersion)",
                    "PRAGMA user_version = \(Schema.formatVersion)"
                ))
            compare(found, with: latest)
        } else {
            compare(found, with: format > 0 ? try Layout(ofFormat: format) : latest)
        }
    }

    private mutating func compare(_ found: Layout, with expected: Layout) {
        for (table, columns) in expected.columns.sorted(by: { $0.key < $1.key }) {
            let missing = found.columns[table].map { columns.subtracting($0).sorted() }
            let problems = missing.map { $0.map { "the table \(table) has no column \($0)" } }
                ?? ["the table \(table) is missing"]
            if let filling = Self.replaceable[table], let statement = expected.tables[table] {
                repairable += problems.map { ($0, "DROP TABLE IF EXISTS \(table); \(statement); \(filling)") }
            } else {
                beyondRepair += problems
            }
            guard let there = found.columns[table] else { continue }
            repairable += there.subtracting(columns).sorted().map {
                (
                    "the table \(table) has a column \($0) that is none of ours",
                    "ALTER TABLE \(table) DROP COLUMN \"\($0.replacing("\"", with: "\"\""))\""
                )
            }
        }
        // Those of a table that was made anew are missing when it is looked at again.
        for (index, statement) in expected.indexes.sorted(by: { $0.key < $1.key }) where found.indexes[index] == nil {
            repairable.append(("the index \(index) is missing", statement))
        }
    }
}

/// The tables, columns and indexes of a file.
private struct Layout {
    var columns: [String: Set<String>] = [:]
    /// With the statement that makes each.
    var tables: [String: String] = [:]
    var indexes: [String: String] = [:]

    init(_ db: Database) throws {
        let rows = try Row.fetchAll(
            db, sql: "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite%'")
        for row in rows {
            let name: String = row["name"]
            switch row["type"] as String {
            case "table":
                tables[name] = row["sql"]
                columns[name] = try String.fetchSet(
                    db, sql: "SELECT name FROM pragma_table_info(?)", arguments: [name])
            case "index": indexes[name] = row["sql"]
            default: break
            }
        }
    }

    init(ofFormat format: Int64) throws {
        self = try DatabaseQueue().writeWithoutTransaction { db in
            try Schema.prepare(db, format: format)
            return try Layout(db)
        }
    }

    /// Whether it has all the columns of another.
    func has(_ other: Layout) -> Bool {
        other.columns.allSatisfy { table, columns in columns.isSubset(of: self.columns[table] ?? []) }
    }
}

extension ItemIndex {
    /// Puts right what can be of the tables of an index that nobody has open.
    /// - Returns: what could not be.
    package static func repairSchema(ofIndexAt path: String) throws -> [String] {
        try mapErrors {
            let database = try DatabaseQueue(path: path)
            let left = try database.writeWithoutTransaction { db in
                // What a table has lost with itself shows when it is there again.
                for _ in 1...2 {
                    for (_, repair) in try SchemaProblems(in: db).repairable { try? db.execute(sql: repair) }
                }
                return try SchemaProblems(in: db).repairable.map(\.problem)
            }
            try database.close()
            return left
        }
    }
}
