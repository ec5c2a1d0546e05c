import FoundationEssentials
import GRDB
import UbiquityCore

/// Appends own entries to this device's segments.
///
/// An entry leaves the outbox after it is on disk in a segment. After a crash between the two, the same bytes are
/// written again at the same place.
package struct Publisher: Sendable {
    let context: LogContext
    private static let batchBytes = 4 << 20

    package init(_ context: LogContext) { self.context = context }

    private struct Batch {
        var device: DeviceID
        var lastID: Int64
        var lastTime: UInt64
        var dictionary: Int
        var version: Int
        var number: Int
        var offset: Int
        var bytes: [UInt8]
        var name: String { LogName.segment(schema: version, device: device, number: number).path }
    }

    /// - Returns: Changes that became visible because own writes brought parents of waiting rows.
    @discardableResult
    package func publish() throws -> ImportedChanges {
        let changes = try absorb()
        while let batch = try nextBatch() {
            if context.fault == .forgetsOutbox { try finish(batch) }
            guard try place(batch) else { continue }
            if context.fault != .forgetsOutbox { try finish(batch) }
        }
        return changes
    }

    private func absorb() throws -> ImportedChanges {
        let isNeeded = try context.writer.read {
            try Int.fetchOne($0, sql: "SELECT 1 FROM ubiquity_outbox WHERE entry IS NULL LIMIT 1") != nil
        }
        guard isNeeded else { return ImportedChanges() }
        return try context.merging { db in try Outbox(context).absorb(db) }
    }

    private func nextBatch() throws -> Batch? {
        try context.writer.read { db in
            guard let device = try Meta.deviceID(db),
                let first = try Row.fetchOne(
                    db, sql: "SELECT id, dictionary FROM ubiquity_outbox WHERE entry IS NOT NULL ORDER BY id LIMIT 1")
            else { return nil }
            let dictionary: Int = first["dictionary"]
            guard let schema = try Row.fetchOne(
                db, sql: "SELECT version, tables FROM ubiquity_schema WHERE id = ?", arguments: [dictionary])
            else { throw UbiquityError(.damaged, "the database lacks the schema of its own entries") }
            let last = try Row.fetchOne(
                db, sql: "SELECT number, dictionary, size FROM ubiquity_segment ORDER BY number DESC LIMIT 1")
            var batch = Batch(
                device: device, lastID: 0, lastTime: 0, dictionary: dictionary, version: schema["version"], number: 1,
                offset: 0, bytes: [])
            if let last, last["dictionary"] == dictionary, last["size"] < context.limits.segmentBytes {
                batch.number = last["number"]
                batch.offset = last["size"]
            } else {
                if let last { batch.number = (last["number"] as Int) + 1 }
                var reader = ByteReader(Array(schema["tables"] as Data))
                batch.bytes = SegmentHeader(
                    schema: batch.version, device: device, number: batch.number, previousSize: last?["size"] ?? 0,
                    tables: try LogTables(&reader)).frame
            }
            let rows = try Row.fetchCursor(
                db, sql: """
                    SELECT id, time, dictionary, entry FROM ubiquity_outbox
                    WHERE id >= ? AND entry IS NOT NULL ORDER BY id
                    """, arguments: [first["id"] as Int64])
            while let row = try rows.next(), row["dictionary"] == dictionary,
                batch.lastID == 0
                    || batch.bytes.count < Self.batchBytes
                        && batch.offset + batch.bytes.count < context.limits.segmentBytes {
                batch.bytes += Frame.encode(Array(row["entry"] as Data))
                batch.lastID = row["id"]
                batch.lastTime = UInt64(row["time"] as Int64)
            }
            return batch
        }
    }

    /// Appends a batch; returns false if the log shows that the batch must be another one.
    private func place(_ batch: Batch) throws -> Bool {
        let tail = try context.store.read(batch.name, from: batch.offset)
        if tail == nil, batch.offset > 0 {
            guard try !context.store.files().contains(where: { $0.name == batch.name }) else {
                throw UbiquityError(
                    .offline, "cannot read this device's own log", at: batch.name, remedy: "it goes on by itself")
            }
            try startAgain(batch)
            return false
        }
        if let tail, !tail.isEmpty {
            let common = min(tail.count, batch.bytes.count)
            guard tail.count <= batch.bytes.count, tail[..<common] == batch.bytes[..<common] else {
                try DeviceIdentity(context).renew()
                return false
            }
        }
        try context.store.append(batch.bytes, to: batch.name, at: batch.offset)
        return true
    }

    /// The own log was removed. Other devices need a base; entries go on in a new segment.
    private func startAgain(_ batch: Batch) throws {
        try context.writer.write { db in
            try Meta.needsBase.set(1, db)
            // A full segment gets no more entries.
            try db.execute(
                sql: "UPDATE ubiquity_segment SET size = max(size, ?) WHERE number = ?",
                arguments: [context.limits.segmentBytes, batch.number])
        }
    }

    private func finish(_ batch: Batch) throws {
        try context.writer.write { db in
            let size = batch.offset + batch.bytes.count
            try db.execute(sql: "DELETE FROM ubiquity_outbox WHERE id <= ?", arguments: [batch.lastID])
            try db.execute(
                sql: "INSERT OR REPLACE INTO ubiquity_segment (number, dictionary, time, size) VALUES (?, ?, ?, ?)",
                arguments: [batch.number, batch.dictionary, Int64(batch.lastTime), size])
            try DeviceTable(db).set(
                LogPosition(time: batch.lastTime, segment: batch.number, offset: size), batch.device)
            try Meta.logBytes.set((try Meta.logBytes.int(db) ?? 0) + Int64(batch.bytes.count), db)
            try Meta.clock.set(Int64(context.clock.latest), db)
        }
    }
}
