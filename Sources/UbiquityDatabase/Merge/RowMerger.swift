import FoundationEssentials
import GRDB

/// Merges states of rows into the database, column by column: the later stamp wins.
///
/// It works inside one transaction with foreign keys off, so that no action of a foreign key runs: the device that
/// deleted a parent recorded the rows that went with it. `finish` parks rows without parents and shows those whose
/// parents have come, so that references hold at the end.
struct RowMerger {
    /// The rules that a test can switch off, to see that the simulator finds it.
    package struct Faults: Sendable {
        var ignoresStamps = false
        var dropsOrphans = false

        init() {}
    }

    private let schema: SyncedSchema
    private let devices: DeviceTable
    private let db: Database
    private let visible: VisibleRows
    private var parked: ParkedRows
    private let faults: Faults
    private(set) var changes = ImportedChanges()
    private var appeared: [RowName] = [], vanished: [RowName] = [], unchecked: [RowName] = []

    /// A row by its table and key.
    private struct RowName: Hashable {
        var table: SyncedTable
        var key: [DatabaseValue]
        var bytes: [UInt8] { SyncedTable.keyBytes(key) }
    }

    init(_ db: Database, _ schema: SyncedSchema, _ devices: DeviceTable, faults: Faults = Faults()) throws {
        self.db = db
        self.schema = schema
        self.devices = devices
        self.faults = faults
        visible = VisibleRows(db)
        parked = try ParkedRows(db)
    }

    // MARK: Clocks

    func clock(_ table: SyncedTable, _ key: [UInt8]) throws -> RowClock? {
        let bytes = try Data.fetchOne(
            db.cachedStatement(sql: "SELECT clock FROM ubiquity_clock WHERE tbl = ? AND key = ?"),
            arguments: [table.number, Data(key)])
        return try bytes.map { try RowClock(Array($0), devices.device) }
    }

    private func store(_ clock: RowClock, _ table: SyncedTable, _ key: [UInt8]) throws {
        try db.cachedStatement(sql: "INSERT OR REPLACE INTO ubiquity_clock (tbl, key, clock) VALUES (?, ?, ?)")
            .execute(arguments: [table.number, Data(key), Data(try clock.encoded(devices.id))])
    }

    private func currentClock(_ row: RowName, _ bytes: [UInt8]) throws -> RowClock? {
        if let clock = try clock(row.table, bytes) { return clock }
        guard row.table.hasMigrationRows, try visible.exists(row.table, row.key) else { return nil }
        return RowClock(madeByMigrationWith: row.table.others.map { row.table.columns[$0].number })
    }

    // MARK: Own writes

    /// Gives stamps to rows that this device has written already.
    mutating func absorb(_ delta: RowDelta) throws {
        let row = RowName(table: delta.table, key: delta.key), bytes = row.bytes
        // The write is newer than everything else, so after an insert the row's older stamps say nothing, except when
        // it was deleted.
        let hadMigrationRow = delta.inserted == nil
        var clock = try clock(delta.table, bytes)
            ?? (hadMigrationRow
                ? RowClock(madeByMigrationWith: row.table.others.map { row.table.columns[$0].number }) : RowClock())
        if let stamp = delta.inserted { clock.inserted = stamp }
        for cell in delta.cells { clock.cells[delta.table.columns[cell.column].number] = cell.stamp }
        if let stamp = delta.deleted {
            clock.deleted = stamp
            clock.cells = [:]
        }
        try store(clock, delta.table, bytes)
        if delta.deleted == nil, delta.inserted != nil {
            try parked.remove(delta.table, bytes)
            appeared.append(row)
        } else if delta.deleted != nil {
            try parked.remove(delta.table, bytes)
        }
    }

    // MARK: Other devices' writes

    mutating func merge(_ delta: RowDelta) throws {
        let table = delta.table, row = RowName(table: table, key: delta.key), bytes = row.bytes
        let old = try currentClock(row, bytes)
        var clock = old ?? RowClock(), winners: [Int: DatabaseValue] = [:]
        if let stamp = delta.inserted { clock.inserted = max(clock.inserted ?? stamp, stamp) }
        if let stamp = delta.deleted { clock.deleted = max(clock.deleted ?? stamp, stamp) }
        for cell in delta.cells {
            let number = table.columns[cell.column].number
            if let deleted = clock.deleted, cell.stamp < deleted { continue }
            if !faults.ignoresStamps, let present = clock.cells[number], present >= cell.stamp { continue }
            clock.cells[number] = cell.stamp
            winners[cell.column] = cell.value
        }
        let void = voidColumns(&clock, table).subtracting(winners.keys)
        guard clock != old || faults.ignoresStamps else { return }
        let wasLive = old?.isLive ?? false
        if clock.isLive {
            try wasLive ? change(row, bytes, winners, void) : appear(row, bytes, winners, void)
        } else {
            var late = wasLive ? try disappear(row, bytes, clock) : [:]
            late.merge(winners) { $1 }
            try keepLate(row, bytes, late, void)
        }
        try store(clock, table, bytes)
    }

    /// Removes stamps earlier than the deletion, and returns their columns.
    private func voidColumns(_ clock: inout RowClock, _ table: SyncedTable) -> Set<Int> {
        guard let deleted = clock.deleted else { return [] }
        var void: Set<Int> = []
        for (number, stamp) in clock.cells where stamp < deleted {
            clock.cells[number] = nil
            if let position = table.columns.firstIndex(where: { $0.number == number }) { void.insert(position) }
        }
        return void
    }

    /// New values of a live row.
    private mutating func change(
        _ row: RowName, _ bytes: [UInt8], _ winners: [Int: DatabaseValue], _ void: Set<Int>
    ) throws {
        var values = winners
        for position in void { values[position] = row.table.columns[position].defaultValue }
        if var waiting = try parked.fetch(row.table, bytes) {
            waiting.values.merge(values) { $1 }
            try parked.remove(row.table, bytes)
            try show(row, bytes, waiting.values)
            return
        }
        guard !values.isEmpty else { return }
        if try visible.update(row.table, row.key, values) {
            changes.update(row.table.name, row.key)
            let references = Set(row.table.foreignKeys.flatMap(\.columns))
            if !references.isDisjoint(with: values.keys) { unchecked.append(row) }
        } else {
            var all = try visibleValues(row)
            all.merge(values) { $1 }
            try hide(row)
            try parked.put(row.table, bytes, ParkedRows.Parked(reason: .refused, values: all))
        }
    }

    /// A row that was not live.
    private mutating func appear(
        _ row: RowName, _ bytes: [UInt8], _ winners: [Int: DatabaseValue], _ void: Set<Int>
    ) throws {
        var values = try parked.fetch(row.table, bytes)?.values ?? [:]
        for position in void { values[position] = nil }
        values.merge(winners) { $1 }
        try parked.remove(row.table, bytes)
        try show(row, bytes, values)
    }

    private mutating func show(_ row: RowName, _ bytes: [UInt8], _ values: [Int: DatabaseValue]) throws {
        if try visible.insert(row.table, row.key, values) {
            changes.insert(row.table.name, row.key)
            appeared.append(row)
            if !row.table.foreignKeys.isEmpty { unchecked.append(row) }
        } else {
            try parked.put(row.table, bytes, ParkedRows.Parked(reason: .refused, values: values))
        }
    }

    /// A row that is live no longer. Returns its values that are later than the deletion: they count if an insertion
    /// before them arrives.
    private mutating func disappear(
        _ row: RowName, _ bytes: [UInt8], _ clock: RowClock
    ) throws -> [Int: DatabaseValue] {
        let values: [Int: DatabaseValue]
        if let waiting = try parked.fetch(row.table, bytes) {
            values = waiting.values
            try parked.remove(row.table, bytes)
        } else {
            values = try visibleValues(row)
            try hide(row)
        }
        return values.filter { clock.cells[row.table.columns[$0.key].number] != nil }
    }

    private mutating func hide(_ row: RowName) throws {
        try visible.delete(row.table, row.key)
        changes.delete(row.table.name, row.key)
        vanished.append(row)
    }

    /// Values of a row that is deleted or not here yet.
    private mutating func keepLate(
        _ row: RowName, _ bytes: [UInt8], _ winners: [Int: DatabaseValue], _ void: Set<Int>
    ) throws {
        var values = try parked.fetch(row.table, bytes)?.values ?? [:]
        for position in void { values[position] = nil }
        values.merge(winners) { $1 }
        try parked.remove(row.table, bytes)
        if !values.isEmpty { try parked.put(row.table, bytes, ParkedRows.Parked(reason: .late, values: values)) }
    }

    private func visibleValues(_ row: RowName) throws -> [Int: DatabaseValue] {
        guard let all = try visible.values(row.table, row.key) else { return [:] }
        return Dictionary(uniqueKeysWithValues: row.table.others.map { ($0, all[$0]) })
    }

    // MARK: References

    /// Shows orphans whose parents have come, and parks rows whose parents are missing.
    mutating func finish() throws {
        while let parent = appeared.popLast() {
            for orphan in try parked.waiting(for: parent.table, parent.bytes) {
                guard let table = schema.table(number: orphan.table), let waiting = try parked.fetch(table, orphan.key),
                    waiting.reason == .orphan
                else { continue }
                try parked.remove(table, orphan.key)
                try show(RowName(table: table, key: try SyncedTable.key(orphan.key)), orphan.key, waiting.values)
            }
        }
        while let row = try unchecked.popLast() ?? nextChild() { try check(row) }
    }

    /// Adds the children of rows that are gone to the rows to check.
    private mutating func nextChild() throws -> RowName? {
        while let parent = vanished.popLast() {
            for (table, foreignKey) in schema.children(of: parent.table) {
                for key in try visible.children(table, foreignKey, of: parent.key) {
                    unchecked.append(RowName(table: table, key: key))
                }
            }
            if let row = unchecked.popLast() { return row }
        }
        return nil
    }

    private mutating func check(_ row: RowName) throws {
        guard let values = try visible.values(row.table, row.key) else { return }
        var missing: [(parent: SyncedTable, key: [DatabaseValue])] = []
        for foreignKey in row.table.foreignKeys {
            let key = foreignKey.columns.map { values[$0] }
            guard !key.contains(.null), let parent = schema.table(foreignKey.parent) else { continue }
            if try !visible.exists(parent, key) { missing.append((parent, key)) }
        }
        guard !missing.isEmpty else { return }
        let bytes = row.bytes
        let others = Dictionary(uniqueKeysWithValues: row.table.others.map { ($0, values[$0]) })
        try hide(row)
        guard !faults.dropsOrphans else { return }
        try parked.put(row.table, bytes, ParkedRows.Parked(reason: .orphan, values: others))
        for (parent, key) in missing {
            try parked.wait(row.table, bytes, for: parent, SyncedTable.keyBytes(key))
        }
    }
}
