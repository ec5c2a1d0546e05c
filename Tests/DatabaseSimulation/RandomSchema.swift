import GRDB

/// A schema that a seed draws, in two versions. The second one adds a column to each table, and a table.
package struct RandomSchema: Sendable {
    package struct Table: Sendable {
        package var name: String
        package var columns: [String]
        /// The table that the column `parent` references; its action on deletion.
        package var parent: (name: String, action: String)?
        package var hasCheck: Bool
        /// Rows that the migration makes on every device.
        package var seeds: Int
        package var hasTwoKeys: Bool
    }

    package var tables: [Table] = []

    package init(_ random: SimulationRandom) {
        for index in 0..<(1 + random.below(3)) {
            var table = Table(
                name: "t\(index)", columns: (0..<(1 + random.below(3))).map { "c\($0)" }, parent: nil,
                hasCheck: random.below(4) == 0, seeds: random.below(4) == 0 ? 1 : 0, hasTwoKeys: random.below(5) == 0)
            let candidates = (0..<index).filter { !tables[$0].hasTwoKeys }.map { "t\($0)" }
                + (table.hasTwoKeys ? [] : ["t\(index)"])
            if !candidates.isEmpty, random.below(3) > 0 {
                table.parent = (
                    candidates[random.below(candidates.count)],
                    ["NO ACTION", "CASCADE", "SET NULL"][random.below(3)]
                )
            }
            tables.append(table)
        }
    }

    package func tables(_ version: Int) -> [Table] {
        guard version > 1 else { return tables }
        return tables.map { table in
            var table = table
            table.columns.append("added")
            return table
        } + [Table(name: "late", columns: ["c0"], parent: ("t0", "CASCADE"), hasCheck: false, seeds: 0, hasTwoKeys: false)]
            .filter { _ in !tables[0].hasTwoKeys }
    }

    static let addedDefault = 7

    package func migrator(_ version: Int) -> DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1") { db in
            for table in tables { try create(table, db) }
        }
        guard version > 1 else { return migrator }
        migrator.registerMigration("2") { db in
            for table in tables {
                try db.execute(
                    sql: "ALTER TABLE \(table.name) ADD COLUMN added INTEGER DEFAULT \(Self.addedDefault)")
            }
            if let late = self.tables(2).last, late.name == "late" { try create(late, db) }
        }
        return migrator
    }

    private func create(_ table: Table, _ db: Database) throws {
        var parts = ["id TEXT NOT NULL"]
        if table.hasTwoKeys { parts.append("second INTEGER NOT NULL") }
        parts += table.columns.map { "\($0) INTEGER DEFAULT 0" }
        if let parent = table.parent {
            parts.append("parent TEXT REFERENCES \(parent.name) ON DELETE \(parent.action)")
        }
        parts.append("PRIMARY KEY (id\(table.hasTwoKeys ? ", second" : ""))")
        if table.hasCheck, table.columns.count > 1 { parts.append("CHECK (c0 + c1 < 150)") }
        try db.execute(sql: "CREATE TABLE \(table.name) (\(parts.joined(separator: ", ")))")
        for seed in 0..<table.seeds {
            let second = table.hasTwoKeys ? ", second" : "", value = table.hasTwoKeys ? ", 1" : ""
            try db.execute(sql: "INSERT INTO \(table.name) (id\(second)) VALUES ('seed\(seed)'\(value))")
        }
    }
}

/// SplitMix64, on one thread.
package final class SimulationRandom: @unchecked Sendable {
    private var state: UInt64

    package init(_ seed: UInt64) { state = seed }

    package func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }

    package func below(_ bound: Int) -> Int { Int(next() % UInt64(max(1, bound))) }
}
