import GRDB

/// The stamps of a row: when it was last inserted and deleted, and when each column was last written.
///
/// A row exists if its last insertion is later than its last deletion. An update never brings a deleted row back. A
/// column's stamp that is earlier than the deletion is void: the column has its default then.
package struct RowClock: Hashable, Sendable {
    package var inserted: Stamp?
    package var deleted: Stamp?
    /// By the column's number in its table.
    package var cells: [Int: Stamp] = [:]

    package init() {}

    /// The clock of a row that a migration made on every device.
    package init(madeByMigrationWith columns: some Sequence<Int>) {
        inserted = .migration
        for column in columns { cells[column] = .migration }
    }

    package var isLive: Bool {
        guard let inserted else { return false }
        guard let deleted else { return true }
        return inserted > deleted
    }

    package var stamps: [Stamp] { [inserted, deleted].compactMap { $0 } + cells.values }

    /// Returns the bytes that the device stores; `device` gives a device's local number.
    func encoded(_ device: (DeviceID) throws -> Int) rethrows -> [UInt8] {
        var writer = ByteWriter()
        func add(_ stamp: Stamp) throws {
            writer.count(try device(stamp.device))
            writer.varint(stamp.time)
        }
        writer.byte((inserted == nil ? 0 : 1) | (deleted == nil ? 0 : 2))
        if let inserted { try add(inserted) }
        if let deleted { try add(deleted) }
        let same = cells.filter { $0.value == inserted }.keys.sorted()
        // Most rows were inserted and never changed, so a bit each is enough for their columns.
        var bits = [UInt8](repeating: 0, count: (same.last ?? -1) / 8 + (same.isEmpty ? 0 : 1))
        for column in same { bits[column / 8] |= 1 << UInt8(column % 8) }
        writer.block(bits)
        for (column, stamp) in cells.sorted(by: { $0.key < $1.key }) where stamp != inserted {
            writer.count(column)
            try add(stamp)
        }
        return writer.bytes
    }

    /// - Parameter device: The device with a local number.
    init(_ bytes: [UInt8], _ device: (Int) throws -> DeviceID) throws {
        var reader = ByteReader(bytes)
        func stamp() throws -> Stamp {
            let device = try device(Int(truncatingIfNeeded: reader.varint()))
            return Stamp(try reader.varint(), device)
        }
        let flags = try reader.byte()
        if flags & 1 != 0 { inserted = try stamp() }
        if flags & 2 != 0 { deleted = try stamp() }
        for (index, byte) in try reader.block().enumerated() {
            for bit in 0..<8 where byte & 1 << UInt8(bit) != 0 { cells[index * 8 + bit] = inserted }
        }
        while !reader.isAtEnd {
            let column = Int(truncatingIfNeeded: try reader.varint())
            cells[column] = try stamp()
        }
    }
}

/// A value of a column with the stamp of its write.
package struct Cell: Sendable {
    /// The position in the table's columns.
    package var column: Int
    package var stamp: Stamp
    package var value: DatabaseValue

    package init(_ column: Int, _ stamp: Stamp, _ value: DatabaseValue) {
        self.column = column
        self.stamp = stamp
        self.value = value
    }
}

/// A part of a row's state that another device, or a base, announces. Deltas can be merged in any order, and more than
/// once, with the same result.
package struct RowDelta: Sendable {
    package var table: SyncedTable
    package var key: [DatabaseValue]
    package var inserted: Stamp?
    package var deleted: Stamp?
    package var cells: [Cell] = []

    package init(_ table: SyncedTable, _ key: [DatabaseValue]) {
        self.table = table
        self.key = key
    }
}
