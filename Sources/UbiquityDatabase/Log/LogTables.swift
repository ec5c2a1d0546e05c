import GRDB

/// The tables of a schema as a segment or a base names them. Records refer to them by position.
package struct LogTables: Hashable, Sendable {
    package struct Table: Hashable, Sendable {
        package var name: String
        package var columns: [String]
        /// Positions of the primary key's columns, in its order.
        package var key: [Int]

        var others: [Int] { columns.indices.filter { !key.contains($0) } }
    }

    package var tables: [Table]

    package init(_ tables: [Table]) { self.tables = tables }

    package init(_ schema: SyncedSchema) {
        tables = schema.tables.map { Table(name: $0.name, columns: $0.columns.map(\.name), key: $0.key) }
    }

    package func write(to writer: inout ByteWriter) {
        writer.count(tables.count)
        for table in tables {
            writer.text(table.name)
            writer.count(table.columns.count)
            for column in table.columns { writer.text(column) }
            writer.count(table.key.count)
            for position in table.key { writer.count(position) }
        }
    }

    package init(_ reader: inout ByteReader) throws {
        tables = []
        for _ in 0..<(try reader.count()) {
            let name = try reader.text()
            let columns = try (0..<(try reader.count())).map { _ in try reader.text() }
            let key = try (0..<(try reader.count())).map { _ in Int(truncatingIfNeeded: try reader.varint()) }
            guard key.allSatisfy(columns.indices.contains) else { throw ByteReader.damage("a key has no column") }
            tables.append(Table(name: name, columns: columns, key: key))
        }
    }

    package func index(of name: String) -> Int? { tables.firstIndex { $0.name == name } }

    /// For each table of the log: the local table with the positions of the log's columns in it; nil if this device's
    /// schema has no such table. A table with another primary key is another table.
    package func mapping(to schema: SyncedSchema) -> [TableMapping?] {
        tables.map { table in
            guard let local = schema.table(table.name),
                local.key.map({ local.columns[$0].name }) == table.key.map({ table.columns[$0] })
            else { return nil }
            return TableMapping(table: local, positions: table.columns.map(local.position))
        }
    }
}

/// How the columns of a table in a log correspond to those of this device.
package struct TableMapping: Sendable {
    package var table: SyncedTable
    package var positions: [Int?]
}
