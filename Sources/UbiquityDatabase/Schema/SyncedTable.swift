import GRDB

/// A table whose rows travel.
package struct SyncedTable: Hashable, Sendable {
    package struct Column: Hashable, Sendable {
        package var name: String
        /// The number in the stored clocks. It stays the same through migrations.
        package var number: Int
        /// The constant that a new row has if nobody wrote the column.
        package var defaultValue: DatabaseValue
    }

    /// A reference to a row of another table, by its primary key.
    package struct ForeignKey: Hashable, Sendable {
        package var parent: String
        /// Positions of this table's columns, in the order of the parent's primary key.
        package var columns: [Int]
    }

    package var name: String
    /// The number in the stored clocks.
    package var number: Int
    /// All columns, in the order of the table.
    package var columns: [Column]
    /// Positions of the primary key's columns, in its order.
    package var key: [Int]
    package var foreignKeys: [ForeignKey] = []
    /// Whether rows may exist that only migrations wrote.
    package var hasMigrationRows = true

    package var quoted: String { Self.quote(name) }
    /// Positions of the columns outside the primary key.
    package var others: [Int] { columns.indices.filter { !key.contains($0) } }
    package var keyCondition: String {
        key.map { "\(Self.quote(columns[$0].name)) = ?" }.joined(separator: " AND ")
    }
    package var keyColumns: String { key.map { Self.quote(columns[$0].name) }.joined(separator: ", ") }

    package static func quote(_ name: String) -> String {
        "\"" + name.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"") + "\""
    }

    package func position(of column: String) -> Int? { columns.firstIndex { $0.name == column } }

    /// The bytes that identify a row of this table.
    package static func keyBytes(_ key: [DatabaseValue]) -> [UInt8] {
        var writer = ByteWriter()
        for value in key { writer.value(value) }
        return writer.bytes
    }

    package static func key(_ bytes: [UInt8]) throws -> [DatabaseValue] {
        var reader = ByteReader(bytes), key: [DatabaseValue] = []
        while !reader.isAtEnd { key.append(try reader.value()) }
        return key
    }

    package static func == (left: SyncedTable, right: SyncedTable) -> Bool { left.number == right.number }
    package func hash(into hasher: inout Hasher) { hasher.combine(number) }
}
