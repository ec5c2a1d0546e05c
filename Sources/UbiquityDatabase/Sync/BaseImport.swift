import FoundationEssentials
import GRDB
import UbiquityCore
import UbiquitySystem

/// Brings a base into the database.
///
/// A new device merges it. A device starts again from it if the log lacks entries that it needs, if it was away too
/// long, or if it has imported entries that no other device accepts. Own entries that the base lacks are kept.
struct BaseImport {
    let context: LogContext
    let base: BaseManifest
    let listing: LogListing

    init(_ context: LogContext, _ base: BaseManifest, _ listing: LogListing) {
        (self.context, self.base, self.listing) = (context, base, listing)
    }

    private enum Way { case nothing, merge, startAgain }

    /// - Returns: What changed; nil if the base is not needed, or cannot be read now.
    func runIfNeeded() throws -> ImportedChanges? {
        let (own, positions) = try context.writer.read { db in
            (try Meta.deviceID(db), try DeviceTable(db).positions())
        }
        guard let own else { return nil }
        let way = way(own, positions)
        guard way != .nothing, base.schema <= context.schema.version else { return nil }
        // Own entries must be in the log before the tables are emptied.
        try Publisher(context).publish()
        guard let ownParts = try ownEntries(own), let deltas = try rows() else { return nil }
        return try context.merging { db in
            let before = way == .startAgain ? try keys(db) : [:]
            try Outbox(context).absorb(db)
            if way == .startAgain { try clear(db) }
            let devices = try DeviceTable(db)
            var merger = try context.merger(db, devices)
            for delta in deltas { try merger.merge(delta) }
            for (device, position) in base.seen where device != own {
                if (positions[device]?.time ?? 0) < position.time || way == .startAgain {
                    try devices.set(position, device)
                    try devices.touch(device, at: context.now())
                }
                context.clock.observe(position.time)
            }
            if way == .startAgain { try keepOwn(own, ownParts, db, devices, &merger) }
            try merger.finish()
            try Meta.base.set(Int64(base.id.time), db)
            try Meta.logBytes.set(0, db)
            context.hasNews.withLock { $0 = true }
            return way == .startAgain ? try difference(before, db) : merger.changes
        }
    }

    private func way(_ own: DeviceID, _ positions: [DeviceID: LogPosition]) -> Way {
        if base.retired[own] != nil, context.fault != .keepsRetiredName { return .startAgain }
        if base.retired.contains(where: { $0.key != own && (positions[$0.key]?.time ?? 0) > $0.value }) {
            return .startAgain
        }
        let isNew = !positions.keys.contains { $0 != own }
        for (device, position) in base.seen where device != own {
            let known = positions[device] ?? LogPosition()
            guard position.time > known.time else { continue }
            if isNew { return .merge }
            // The segment that this device would read next is gone.
            let segments = listing.segments[device] ?? [:]
            let needed = known.segment...max(known.segment, position.segment)
            if needed.contains(where: { segments[$0] == nil && !($0 == known.segment && isRead(known, segments)) }) {
                return .startAgain
            }
        }
        return .nothing
    }

    /// Whether a segment that is gone had been read to its end: then the next one says so.
    private func isRead(_ known: LogPosition, _ segments: [Int: LogListing.Segment]) -> Bool {
        guard let next = segments[known.segment + 1],
            let head = try? context.store.read(next.name, from: 0), let (body, _) = try? Frame.decode(head[...]),
            let header = try? SegmentHeader(body)
        else { return false }
        return header.previousSize == known.offset
    }

    /// Own entries that the base lacks; nil if the own log cannot be read.
    private func ownEntries(_ own: DeviceID) throws -> [SegmentReader.Part]? {
        let fresh = try LogListing(context.store)
        guard let segments = fresh.segments[own] else { return [] }
        let reader = SegmentReader(store: context.store, schema: context.schema.version, fault: nil)
        var start = base.seen[own] ?? LogPosition(segment: segments.keys.min() ?? 1)
        if segments[start.segment] == nil {
            // This device removed the segment, because the base contains it.
            guard let next = segments.keys.filter({ $0 > start.segment }).min() else { return [] }
            start = LogPosition(time: start.time, segment: next)
        }
        let (parts, stop) = try reader.read(segments, from: start, limit: .max, cutoff: nil)
        return stop == .atEnd ? parts : nil
    }

    private func rows() throws -> [RowDelta]? {
        let mapping = base.tables.mapping(to: context.schema)
        var deltas: [RowDelta] = []
        for number in 0..<base.parts {
            guard let bytes = try context.store.read(LogName.part(base.id, number).path, from: 0),
                let (body, _) = try Frame.decode(bytes[...])
            else { return nil }
            var reader = ByteReader(body)
            while !reader.isAtEnd {
                if let delta = try BaseRow.read(&reader, base.tables, mapping) { deltas.append(delta) }
            }
        }
        return deltas
    }

    private func clear(_ db: Database) throws {
        for table in context.schema.tables { try db.execute(sql: "DELETE FROM \(table.quoted)") }
        try db.execute(
            sql: "DELETE FROM ubiquity_clock; DELETE FROM ubiquity_parked; DELETE FROM ubiquity_missing")
        let own = try Meta.device.int(db)
        try db.execute(
            sql: "UPDATE ubiquity_device SET time = 0, segment = 1, position = 0 WHERE device <> ?", arguments: [own])
    }

    private func keepOwn(
        _ own: DeviceID, _ parts: [SegmentReader.Part], _ db: Database, _ devices: DeviceTable,
        _ merger: inout RowMerger
    ) throws {
        let isRetired = base.retired[own] != nil
        let pending = try DeviceIdentity(context).pending(db)
        let entries = parts.flatMap { part in part.entries.map { (entry: $0, tables: part.tables) } } + pending
        if isRetired {
            // The old log ends where the others stopped to accept it.
            try devices.set(base.seen[own] ?? LogPosition(), own)
            try DeviceIdentity(context).start(db)
        }
        for (entry, tables) in entries {
            if isRetired {
                try Outbox(context).resend([entry], tables, db, &merger)
            } else {
                let deltas = entry.deltas(Stamp(entry.time, own), tables.mapping(to: context.schema), tables)
                for delta in deltas { try merger.merge(delta) }
            }
        }
    }

    // MARK: What changed

    private func keys(_ db: Database) throws -> [String: Set<[DatabaseValue]>] {
        try Dictionary(uniqueKeysWithValues: context.schema.tables.map { table in
            let rows = try Row.fetchAll(db, sql: "SELECT \(table.keyColumns) FROM \(table.quoted)")
            return (table.name, Set(rows.map { Array($0.databaseValues) }))
        })
    }

    /// After a new start every row that stays may have changed.
    private func difference(_ before: [String: Set<[DatabaseValue]>], _ db: Database) throws -> ImportedChanges {
        var changes = ImportedChanges()
        for (name, after) in try keys(db) {
            let old = before[name] ?? []
            let rows = ImportedChanges.Rows(
                inserted: after.subtracting(old), updated: after.intersection(old), deleted: old.subtracting(after))
            if rows != ImportedChanges.Rows() { changes.tables[name] = rows }
        }
        return changes
    }
}
