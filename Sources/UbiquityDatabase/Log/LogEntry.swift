import GRDB
import UbiquityCore

/// The changes of one transaction.
package struct LogEntry: Sendable {
    package enum Change: Sendable {
        /// All columns outside the key, in the order of the table.
        case insert(table: Int, key: [DatabaseValue], values: [DatabaseValue])
        case update(table: Int, key: [DatabaseValue], cells: [(column: Int, value: DatabaseValue)])
        case delete(table: Int, key: [DatabaseValue])
    }

    package var time: UInt64
    /// The state of the writer's import when it wrote: only devices whose time has changed since its last entry.
    package var seen: [DeviceID: UInt64] = [:]
    package var changes: [Change] = []

    package init(time: UInt64) { self.time = time }

    // MARK: Bytes

    private static let insertKind: UInt64 = 0, updateKind: UInt64 = 1, deleteKind: UInt64 = 2

    package func body(_ tables: LogTables) -> [UInt8] {
        var writer = ByteWriter()
        writer.varint(time)
        writer.count(seen.count)
        for (device, time) in seen.sorted(by: { $0.key < $1.key }) {
            writer.fixed(device.number)
            writer.varint(time)
        }
        for change in changes {
            switch change {
            case .insert(let table, let key, let values):
                writer.varint(UInt64(table) << 2 | Self.insertKind)
                for value in key { writer.value(value) }
                for value in values { writer.value(value) }
            case .update(let table, let key, let cells):
                writer.varint(UInt64(table) << 2 | Self.updateKind)
                for value in key { writer.value(value) }
                writer.count(cells.count)
                for cell in cells {
                    writer.count(cell.column)
                    writer.value(cell.value)
                }
            case .delete(let table, let key):
                writer.varint(UInt64(table) << 2 | Self.deleteKind)
                for value in key { writer.value(value) }
            }
        }
        return writer.bytes
    }

    package init(_ body: ArraySlice<UInt8>, _ tables: LogTables) throws {
        var reader = ByteReader(body)
        time = try reader.varint()
        guard time < HybridClock.limit else { throw ByteReader.damage("its time is too large") }
        for _ in 0..<(try reader.count()) { seen[DeviceID(try reader.fixed())] = try reader.varint() }
        while !reader.isAtEnd {
            let head = try reader.varint()
            guard head >> 2 < UInt64(tables.tables.count) else { throw ByteReader.damage("a change has no table") }
            let index = Int(head >> 2), table = tables.tables[index]
            let key = try table.key.map { _ in try reader.value() }
            switch head & 3 {
            case Self.insertKind:
                let values = try table.others.map { _ in try reader.value() }
                changes.append(.insert(table: index, key: key, values: values))
            case Self.updateKind:
                var cells: [(column: Int, value: DatabaseValue)] = []
                for _ in 0..<(try reader.count()) {
                    let column = Int(truncatingIfNeeded: try reader.varint())
                    guard table.columns.indices.contains(column) else {
                        throw ByteReader.damage("a value has no column")
                    }
                    cells.append((column, try reader.value()))
                }
                changes.append(.update(table: index, key: key, cells: cells))
            case Self.deleteKind: changes.append(.delete(table: index, key: key))
            default: throw ByteReader.damage("a change has an unknown kind")
            }
        }
    }

    // MARK: Meaning

    /// The changes as states of rows of this device's schema. Tables and columns that the schema lacks are left out.
    package func deltas(_ stamp: Stamp, _ mapping: [TableMapping?], _ tables: LogTables) -> [RowDelta] {
        changes.compactMap { change in
            switch change {
            case .insert(let index, let key, let values):
                guard let map = mapping[index] else { return nil }
                var delta = RowDelta(map.table, key)
                delta.inserted = stamp
                for (column, value) in zip(tables.tables[index].others, values) {
                    if let position = map.positions[column] { delta.cells.append(Cell(position, stamp, value)) }
                }
                return delta
            case .update(let index, let key, let cells):
                guard let map = mapping[index] else { return nil }
                var delta = RowDelta(map.table, key)
                for cell in cells {
                    if let position = map.positions[cell.column] {
                        delta.cells.append(Cell(position, stamp, cell.value))
                    }
                }
                return delta
            case .delete(let index, let key):
                guard let map = mapping[index] else { return nil }
                var delta = RowDelta(map.table, key)
                delta.deleted = stamp
                return delta
            }
        }
    }

    /// Makes an entry of a recorded changeset.
    init(time: UInt64, seen: [DeviceID: UInt64], changeset: [UInt8], _ tables: LogTables) throws {
        self.time = time
        self.seen = seen
        var reader = ChangesetReader(changeset)
        while let change = try reader.next() {
            guard let index = tables.index(of: change.table) else { continue }
            let table = tables.tables[index]
            guard change.old.count == table.columns.count else { throw ByteReader.damage("a table has other columns") }
            let source = change.kind == .insert ? change.new : change.old
            let key = table.key.map { source[$0] ?? .null }
            switch change.kind {
            case .insert:
                changes.append(.insert(table: index, key: key, values: table.others.map { change.new[$0] ?? .null }))
            case .delete: changes.append(.delete(table: index, key: key))
            case .update:
                let cells = table.others.compactMap { column in change.new[column].map { (column, $0) } }
                changes.append(.update(table: index, key: key, cells: cells))
            }
        }
    }
}

/// A record in a segment: its length, a checksum, and its bytes.
package enum Frame {
    /// The largest record. A transaction that needs more is refused.
    package static let maximumLength = 256 << 20

    package static func encode(_ body: [UInt8]) -> [UInt8] {
        var writer = ByteWriter()
        writer.count(body.count)
        writer.raw(withUnsafeBytes(of: checksum(body[...]).bigEndian, Array.init))
        writer.raw(body)
        return writer.bytes
    }

    /// Returns the body and the position after it; nil if the record is not complete yet.
    ///
    /// - Throws: `.damaged` if the record is complete and its checksum is wrong.
    package static func decode(_ bytes: ArraySlice<UInt8>) throws -> (body: ArraySlice<UInt8>, end: Int)? {
        var position = bytes.startIndex, length: UInt64 = 0
        for shift in stride(from: 0, to: 35, by: 7) {
            guard position < bytes.endIndex else { return nil }
            let byte = bytes[position]
            position += 1
            length |= UInt64(byte & 0x7F) << UInt64(shift)
            if byte < 0x80 { break }
        }
        guard length <= UInt64(maximumLength) else { throw ByteReader.damage("a record is too long") }
        guard bytes.endIndex - position >= Int(length) + 4 else { return nil }
        let expected = bytes[position..<position + 4].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        let body = bytes[position + 4..<position + 4 + Int(length)]
        guard checksum(body) == expected else { throw ByteReader.damage("its checksum is wrong") }
        return (body, body.endIndex)
    }

    private static func checksum(_ body: ArraySlice<UInt8>) -> UInt32 {
        var sum = RecordChecksum(seed: 0x7562_6971)
        sum.add(body)
        return UInt32(truncatingIfNeeded: sum.value ^ sum.value >> 32)
    }
}
