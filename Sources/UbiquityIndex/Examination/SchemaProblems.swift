import GRDB

/// `ubiquity doctor`: differences between a file's tables and those of its format.
struct SchemaProblems {
    /// Missing tables or columns whose data cannot be recreated.
    var beyondRepair: [String] = []
    /// Tables whose data can be recreated from the contents, the cloud and other tables, each with the statement that
    /// fills it. Traces of a recent power loss are the exception: such contents go to set-aside.
    private static let replaceable = [
        "chunks": "", "contents": "", "replacements": "", "sentVersions": Schema.knownSentVersions,
        "folderSums": Schema.uncountedFolders,
    ]

    /// Problems, each with the statement that repairs it.
    var repairable: [(problem: String, repair: String)] = []

    /// Compares a file with a new one of the format it declares.
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
                    "the file declares format \(format) but has the tables of format \(Schema.formatVersion)",
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
                    "the table \(table) has an unknown column \($0)",
                    "ALTER TABLE \(table) DROP COLUMN \"\($0.replacing("\"", with: "\"\""))\""
                )
            }
        }
        // The indexes of a recreated table are missing at the next comparison, which repairs them.
        for (index, statement) in expected.indexes.sorted(by: { $0.key < $1.key }) where found.indexes[index] == nil {
            repairable.append(("the index \(index) is missing", statement))
        }
    }
}

/// The tables, columns and indexes of a file.
private struct Layout {
    var columns: [String: Set<String>] = [:]
    /// Tables, each with the statement that creates it.
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

    /// Returns whether this layout has all columns of another.
    func has(_ other: Layout) -> Bool {
        other.columns.allSatisfy { table, columns in columns.isSubset(of: self.columns[table] ?? []) }
    }
}
