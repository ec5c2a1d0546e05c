import FoundationEssentials
import GRDB
import UbiquityCore

/// The records of a base: the state of each row.
enum BaseRow {
    /// - Parameter values: By the column's position.
    static func write(
        _ table: SyncedTable, index: Int, _ key: [DatabaseValue], _ clock: RowClock, _ values: [Int: DatabaseValue],
        to writer: inout ByteWriter
    ) {
        writer.count(index)
        for value in key { writer.value(value) }
        writer.byte((clock.inserted == nil ? 0 : 1) | (clock.deleted == nil ? 0 : 2))
        if let inserted = clock.inserted { writer.stamp(inserted) }
        if let deleted = clock.deleted { writer.stamp(deleted) }
        let cells = table.others.compactMap { position in
            clock.cells[table.columns[position].number].flatMap { stamp in
                values[position].map { (position, stamp, $0) }
            }
        }
        writer.count(cells.count)
        for (position, stamp, value) in cells {
            let isSame = stamp == clock.inserted
            writer.count(position << 1 | (isSame ? 1 : 0))
            if !isSame { writer.stamp(stamp) }
            writer.value(value)
        }
    }

    static func read(_ reader: inout ByteReader, _ tables: LogTables, _ mapping: [TableMapping?]) throws -> RowDelta? {
        let index = Int(truncatingIfNeeded: try reader.varint())
        guard tables.tables.indices.contains(index) else { throw ByteReader.damage("a row has no table") }
        let key = try tables.tables[index].key.map { _ in try reader.value() }
        let flags = try reader.byte()
        let inserted = flags & 1 != 0 ? try reader.stamp() : nil, deleted = flags & 2 != 0 ? try reader.stamp() : nil
        var delta = mapping[index].map { RowDelta($0.table, key) }
        delta?.inserted = inserted
        delta?.deleted = deleted
        for _ in 0..<(try reader.count()) {
            let head = Int(truncatingIfNeeded: try reader.varint()), column = head >> 1
            guard tables.tables[index].columns.indices.contains(column) else {
                throw ByteReader.damage("a value has no column")
            }
            guard let stamp = head & 1 == 1 ? inserted : try reader.stamp() else {
                throw ByteReader.damage("a value has no stamp")
            }
            let value = try reader.value()
            if let position = mapping[index]?.positions[column] { delta?.cells.append(Cell(position, stamp, value)) }
        }
        return delta
    }
}
