import GRDB
internal import Logging
internal import UbiquityCore
internal import UbiquitySystem

/// One collection of an account's chunks: removes those that no version and no link names and that were not stored or
/// requested recently.
///
/// A commit touches its chunks before it relies on them. So a chunk in use is named by a version read here, or was
/// touched too recently to be removed. Its time is checked again at the moment of removal.
///
/// An unused chunk stays for a day, because a device may be about to commit it. A purged chunk goes at once, unless it
/// was touched after the purge, or within the time of a request. A device that relied on it sends it again.
struct ChunkCollection {
    let cloud: Cloud
    let account: Int64

    func run() throws {
        let now = cloud.timekeeper.now(), limit = now.advanced(bySeconds: -CloudLimits.unusedChunkAge)
        let store = try cloud.chunks(of: account)
        let purged = try purgedChunks(), used = try usedChunks()
        var unused = [ChunkID](), early = [ChunkID: Timestamp]()
        try store.forEachStored { id, storedAt in
            guard !used.contains(id) else { return }
            if storedAt < limit { unused.append(id) } else if let bound = bound(purged[id], now), storedAt < bound {
                early[id] = bound
            }
        }
        try store.remove(unused, storedBefore: limit)
        for (id, bound) in early { try store.remove([id], storedBefore: bound) }
        let small = try collectSmall(used, purged, before: limit, now)
        try forgetPurged(before: limit)
        guard !unused.isEmpty || !early.isEmpty || small > 0 else { return }
        cloud.logger.info(
            "collected chunks", metadata: ["files": "\(unused.count + early.count)", "rows": "\(small)"])
    }

    /// The time before which a purged chunk must have been touched for the last time. Nil if it was not purged.
    private func bound(_ purgedAt: Timestamp?, _ now: Timestamp) -> Timestamp? {
        purgedAt.map { min($0, now.advanced(bySeconds: -CloudLimits.purgedChunkAge)) }
    }

    private func purgedChunks() throws -> [ChunkID: Timestamp] {
        try cloud.read { db in
            var purged = [ChunkID: Timestamp]()
            let rows = try Row.fetchAll(
                db, sql: "SELECT id, purged FROM purgedChunks WHERE account = ?", arguments: [account])
            for row in rows {
                guard let id = row.bytes(0).flatMap({ ChunkID(bytes: $0) }) else { continue }
                // The chunk's own time may be that of the purge.
                purged[id] = row.time(1).advanced(bySeconds: 1)
            }
            return purged
        }
    }

    private func usedChunks() throws -> Set<ChunkID> {
        try cloud.read { db in
            var used = Set<ChunkID>()
            let cursor = try Row.fetchCursor(
                db,
                sql: """
                    SELECT manifest FROM versions JOIN containers ON containers.number = versions.container
                    WHERE containers.account = ?1 AND manifest IS NOT NULL
                    UNION ALL SELECT manifest FROM linkFiles JOIN links ON links.number = linkFiles.link
                    WHERE links.account = ?1 AND links.ended IS NULL AND manifest IS NOT NULL
                    """, arguments: [account])
            while let row = try cursor.next() {
                for reference in try BlobCoding.manifest(row.bytes(0) ?? []) { used.insert(reference.id) }
            }
            return used
        }
    }

    private func collectSmall(
        _ used: Set<ChunkID>, _ purged: [ChunkID: Timestamp], before limit: Timestamp, _ now: Timestamp
    ) throws -> Int {
        let old = try cloud.read { db in
            try Row.fetchAll(
                db, sql: "SELECT id FROM smallChunks WHERE account = ? AND asked < ?",
                arguments: [account, limit.nanoseconds]
            ).compactMap { $0.bytes(0).flatMap { ChunkID(bytes: $0) } }
        }
        var bounds = old.filter { !used.contains($0) }.map { (id: $0, bound: limit) }
        for (id, purgedAt) in purged where !used.contains(id) {
            if let bound = bound(purgedAt, now) { bounds.append((id, bound)) }
        }
        var removed = 0
        for start in stride(from: 0, to: bounds.count, by: CloudLimits.maintenanceBatch) {
            try cloud.write { db in
                for (id, bound) in bounds[start..<min(start + CloudLimits.maintenanceBatch, bounds.count)] {
                    try db.execute(
                        sql: "DELETE FROM smallChunks WHERE account = ? AND id = ? AND asked < ?",
                        arguments: [account, Bytes(id.bytes), bound.nanoseconds])
                    removed += db.changesCount
                }
            }
        }
        return removed
    }

    /// After a day a purged chunk is like any other one that is unused.
    private func forgetPurged(before limit: Timestamp) throws {
        let isNeeded = try cloud.read { db in
            try Int.fetchOne(db, sql: "SELECT 1 FROM purgedChunks WHERE account = ? LIMIT 1", arguments: [account])
        }
        guard isNeeded != nil else { return }
        try cloud.write { db in
            try db.execute(
                sql: "DELETE FROM purgedChunks WHERE account = ? AND purged < ?",
                arguments: [account, limit.nanoseconds])
        }
    }
}
