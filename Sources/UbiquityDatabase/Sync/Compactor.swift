import FoundationEssentials
import GRDB
import UbiquityCore

/// Keeps the log short: writes bases, retires devices that were away too long, removes files that no device needs.
package struct Compactor: Sendable {
    let context: LogContext

    package init(_ context: LogContext) { self.context = context }

    /// Writes the state of this device's import for other devices, if it has changed or if `always`.
    package func acknowledge(always: Bool = false) throws {
        let (own, record, old) = try context.writer.read { db in
            let devices = try DeviceTable(db), own = try Meta.deviceID(db)
            let seen = try devices.positions().mapValues(\.time)
            return (
                own, DeviceRecord(schema: context.schema.version, time: UInt64(max(0, context.now())), seen: seen),
                try own.flatMap { try devices.activity($0).record }
            )
        }
        let age = context.now() - Int64(truncatingIfNeeded: old?.time ?? 0)
        guard let own,
            always || old?.seen != record.seen || old?.schema != record.schema || age > context.limits.away / 10
        else { return }
        try context.store.replace(LogName.device(own).path, with: record.bytes)
        try context.writer.write { _ = try DeviceTable($0).setRecord(record.bytes, own) }
    }

    /// Writes a base if the log has grown enough, and removes old files. Call it after a complete import.
    package func compact(always: Bool = false) throws {
        let isNeeded = try context.writer.read { db in
            try always || Meta.needsBase.int(db) == 1 || Meta.logBytes.int(db) ?? 0 >= context.limits.baseBytes
        }
        if isNeeded { try writeBase() }
        try clean()
    }

    // MARK: Bases

    /// Devices whose records count, and the entries that all of them have.
    private struct Peers {
        var retired: [DeviceID: UInt64]
        /// Nil if a device has not written the state of its import.
        var floor: [DeviceID: UInt64]?
    }

    private func peers(_ db: Database, _ last: BaseManifest?) throws -> Peers {
        let devices = try DeviceTable(db), own = try Meta.deviceID(db), positions = try devices.positions()
        var result = Peers(retired: last?.retired ?? [:], floor: positions.mapValues(\.time))
        for device in devices.all where device != own && result.retired[device] == nil {
            let (record, active) = try devices.activity(device)
            if active > 0, context.now() - active > context.limits.away {
                result.retired[device] = positions[device]?.time ?? 0
                continue
            }
            // A device may have written more since its record. Without those entries, nobody knows whether it has seen
            // a deletion before them.
            guard let record, (positions[device]?.time ?? 0) >= record.seen[device] ?? 0 else {
                result.floor = nil
                continue
            }
            for (writer, time) in result.floor ?? [:] { result.floor?[writer] = min(time, record.seen[writer] ?? 0) }
        }
        return result
    }

    private func writeBase() throws {
        let last = try LogListing(context.store).bases.last
        if let last, last.schema > context.schema.version { return }
        try Publisher(context).publish()
        let written = try context.writer.read { db -> (BaseManifest, [(SyncedTable, [UInt8])])? in
            // Writes since the publishing have no stamps yet; the next call finds them.
            guard try Int.fetchOne(db, sql: "SELECT 1 FROM ubiquity_outbox LIMIT 1") == nil,
                let own = try Meta.deviceID(db)
            else { return nil }
            let devices = try DeviceTable(db), peers = try peers(db, last)
            var manifest = BaseManifest(
                id: BaseID(time: context.clock.next(context.now()), author: own), schema: context.schema.version,
                parts: 0, seen: try devices.positions(), retired: peers.retired, tables: context.tables)
            if let last, !manifest.follows(last) { return nil }
            let forgotten = try BaseRows(context, manifest.id, peers.floor).write(db, devices, &manifest)
            return (manifest, forgotten)
        }
        guard let (manifest, forgotten) = written else { return }
        try context.store.replace(LogName.manifest(manifest.id).path, with: manifest.bytes)
        try context.writer.write { db in
            for (table, key) in forgotten {
                try db.execute(
                    sql: "DELETE FROM ubiquity_clock WHERE tbl = ? AND key = ?", arguments: [table.number, Data(key)])
                try db.execute(
                    sql: "DELETE FROM ubiquity_parked WHERE tbl = ? AND key = ?", arguments: [table.number, Data(key)])
            }
            try Meta.base.set(Int64(manifest.id.time), db)
            try Meta.logBytes.set(0, db)
            try Meta.needsBase.set(0, db)
        }
    }

    // MARK: Old files

    private func clean() throws {
        let listing = try LogListing(context.store)
        guard let base = listing.bases.last else { return }
        for id in listing.allBases where id < base.id || listing.refused.contains(id) {
            for name in listing.names(of: id) { try context.store.remove(name) }
        }
        let (own, floor, numbers) = try context.writer.read { db -> (DeviceID?, [DeviceID: UInt64]?, [Int]) in
            let own = try Meta.deviceID(db), floor = try peers(db, base).floor
            guard let own, let least = floor?[own] else { return (own, floor, []) }
            let time = Int64(min(least, base.seen[own]?.time ?? 0))
            let numbers = try Int.fetchAll(
                db, sql: """
                    SELECT number FROM ubiquity_segment WHERE time <= ?
                    AND number < (SELECT max(number) FROM ubiquity_segment)
                    """, arguments: [time])
            return (own, floor, numbers)
        }
        guard let own, let floor else { return }
        for number in numbers {
            if let segment = listing.segments[own]?[number] { try context.store.remove(segment.name) }
            try context.writer.write {
                try $0.execute(sql: "DELETE FROM ubiquity_segment WHERE number = ?", arguments: [number])
            }
        }
        // Nobody else removes the log of a device that does not return.
        for (device, cutoff) in base.retired where device != own && (floor[device] ?? 0) >= cutoff {
            // The last segment may have entries that the device sends again when it returns.
            let last = base.seen[device]?.segment ?? 0
            for (number, segment) in listing.segments[device] ?? [:] where number < last {
                try context.store.remove(segment.name)
            }
            if listing.devices.contains(device) { try context.store.remove(LogName.device(device).path) }
        }
    }
}

/// Writes the rows of a base in parts.
struct BaseRows {
    let context: LogContext
    let id: BaseID
    let floor: [DeviceID: UInt64]?

    init(_ context: LogContext, _ id: BaseID, _ floor: [DeviceID: UInt64]?) {
        (self.context, self.id, self.floor) = (context, id, floor)
    }

    /// - Returns: The tombstones that the base leaves out.
    func write(
        _ db: Database, _ devices: DeviceTable, _ manifest: inout BaseManifest
    ) throws -> [(SyncedTable, [UInt8])] {
        var writer = ByteWriter(), forgotten: [(SyncedTable, [UInt8])] = []
        func finishPart() throws {
            try context.store.replace(LogName.part(id, manifest.parts).path, with: Frame.encode(writer.bytes))
            manifest.parts += 1
            writer = ByteWriter()
        }
        let parked = try ParkedRows(db)
        let merger = try context.merger(db, devices)
        for (index, table) in context.schema.tables.enumerated() {
            let columns = table.columns.map { SyncedTable.quote($0.name) }.joined(separator: ", ")
            let rows = try Row.fetchCursor(db, sql: "SELECT \(columns) FROM \(table.quoted)")
            while let row = try rows.next() {
                let values = Array(row.databaseValues), key = table.key.map { values[$0] }
                let clock = try merger.clock(table, SyncedTable.keyBytes(key))
                    ?? RowClock(madeByMigrationWith: table.others.map { table.columns[$0].number })
                let others = Dictionary(uniqueKeysWithValues: table.others.map { ($0, values[$0]) })
                BaseRow.write(table, index: index, key, clock, others, to: &writer)
                if writer.bytes.count >= context.limits.partBytes { try finishPart() }
            }
            let hidden = try Row.fetchCursor(
                db, sql: "SELECT key, clock FROM ubiquity_clock WHERE tbl = ?", arguments: [table.number])
            while let row = try hidden.next() {
                let key = Array(row["key"] as Data), clock = try RowClock(Array(row["clock"] as Data), devices.device)
                let waiting = try parked.fetch(table, key)
                if clock.isLive, waiting == nil { continue }
                if isForgotten(clock) {
                    forgotten.append((table, key))
                    continue
                }
                BaseRow.write(
                    table, index: index, try SyncedTable.key(key), clock, waiting?.values ?? [:], to: &writer)
                if writer.bytes.count >= context.limits.partBytes { try finishPart() }
            }
        }
        if !writer.bytes.isEmpty { try finishPart() }
        return forgotten
    }

    /// Whether every device has the whole history of a deleted row.
    private func isForgotten(_ clock: RowClock) -> Bool {
        guard let floor, !clock.isLive, clock.inserted != .migration, clock.deleted != nil else { return false }
        let latest = clock.stamps.map(\.time).max() ?? 0
        guard Int64(latest >> 16) < context.now() - context.limits.tombstoneAge else { return false }
        return clock.stamps.allSatisfy { $0.time <= floor[$0.device] ?? 0 }
    }
}
