package import UbiquityCore
internal import UbiquitySystem

/// The index's record of a backing file, independent of the item that has it.
package struct ContentRecord: Sendable, Hashable {
    package var content: ContentID
    /// The version whose bytes the file holds, or will hold while it is partial.
    package var version: VersionID
    package var size: Int64
    package var manifest: Manifest
    /// The boot during which the file was written, if it has not been synced since. After another boot its bytes must
    /// be verified before use.
    package var unsyncedBoot: [UInt8]?

    package init(content: ContentID, version: VersionID, size: Int64, manifest: Manifest, unsyncedBoot: [UInt8]?) {
        self.content = content
        self.version = version
        self.size = size
        self.manifest = manifest
        self.unsyncedBoot = unsyncedBoot
    }
}

/// A possible place of a chunk on this device. It is a hint: bytes read there must be verified.
package struct ChunkLocation: Sendable, Hashable {
    package var content: ContentID
    package var position: Int64
    package var length: Int
}

extension IndexReader {
    package func contentRecord(_ content: ContentID) throws -> ContentRecord? {
        try records(
            "SELECT content, version, size, manifest, boot FROM contents WHERE content = ?", [.int(content.rawValue)]
        )
            .first
    }

    /// Returns contents that were written before this boot and are not known to be synced to disk.
    package func unsyncedContents(notOf boot: [UInt8]) throws -> [ContentRecord] {
        try records(
            "SELECT content, version, size, manifest, boot FROM contents WHERE boot IS NOT NULL AND boot <> ?",
            [.bytes(boot)])
    }

    /// Returns complete contents that are versions of the cloud and not known to be synced to disk, at most `limit`.
    package func unsyncedContents(limit: Int) throws -> [ContentID] {
        var result = [ContentID]()
        try db.run(
            """
            SELECT contents.content FROM contents INDEXED BY contentsUnsynced
            CROSS JOIN items ON items.content = contents.content
            WHERE boot IS NOT NULL AND contentState = \(ContentState.complete.rawValue)
                AND dirty & \(DirtyFields.content.rawValue) = 0 AND flags & \(ItemFlags.writing.rawValue) = 0 LIMIT ?
            """, [.int(Int64(limit))]
        ) { result.append(ContentID($0.int(0))) }
        return result
    }

    /// Returns whether a content has a record that is not known to be synced to disk.
    package func isUnsynced(_ content: ContentID) throws -> Bool {
        var result = false
        try db.run("SELECT 1 FROM contents WHERE content = ? AND boot IS NOT NULL", [.int(content.rawValue)]) { _ in
            result = true
        }
        return result
    }

    /// Returns the machine's boot in which the index was last opened for use; nil at first.
    package func lastBoot() throws -> [UInt8]? {
        var result: [UInt8]?
        try db.run("SELECT value FROM meta WHERE name = 'boot'", []) { result = $0.bytes(0) }
        return result
    }

    /// Returns whether the last run ended cleanly, so that the index lost nothing in a later power loss.
    package func hasEnded() throws -> Bool { try metaNumber("ended") == 1 }

    private func records(_ sql: String, _ values: [SQLValue]) throws -> [ContentRecord] {
        var result = [ContentRecord]()
        try db.run(sql, values) { row in
            // A damaged record counts as no record.
            guard let version: VersionID = row.id(1), let manifest = try? BlobCoding.manifest(row.bytes(3) ?? []) else {
                return
            }
            result.append(
                ContentRecord(
                    content: ContentID(row.int(0)), version: version, size: row.int(2),
                    manifest: manifest, unsyncedBoot: row.bytes(4)))
        }
        return result
    }

    /// Returns backing files that may hold this chunk, at most 4.
    package func locations(of chunk: ChunkReference) throws -> [ChunkLocation] {
        var result = [ChunkLocation]()
        try db.run(
            "SELECT content, position, length FROM chunks WHERE prefix = ? AND length = ? LIMIT 4",
            [.int(ChunkPrefix.of(chunk.id)), .int(Int64(chunk.length))]
        ) {
            result.append(
                ChunkLocation(content: ContentID($0.int(0)), position: $0.int(1), length: Int($0.int(2))))
        }
        return result
    }

    /// Returns the content ids in use by items, for the sweep of orphaned backing files.
    package func contentsInUse() throws -> ContentList {
        var ids = [ContentID]()
        // Uses the column's index, which has this order.
        try db.run("SELECT content FROM items WHERE content IS NOT NULL ORDER BY content", []) { row in
            ids.append(ContentID(row.int(0)))
        }
        return ContentList(ascending: ids)
    }
}

/// Contents ordered by id. For one entry per file it is built in a third of a set's time and takes half the space.
package struct ContentList: Sendable {
    package let ids: [ContentID]

    init(ascending ids: [ContentID]) { self.ids = ids }

    package func contains(_ id: ContentID) -> Bool {
        var low = 0, high = ids.count
        while low < high {
            let middle = (low + high) / 2
            if ids[middle] < id { low = middle + 1 } else { high = middle }
        }
        return low < ids.count && ids[low] == id
    }
}

/// Tells which contents cannot have a record: those newer than the newest recorded one. While nothing is uploaded, most
/// contents that programs write are replaced or removed before they get a record.
struct RecordedContents {
    private var newest: ContentID

    /// - Parameter newest: The newest content that an earlier run of the index can have allocated.
    init(newest: ContentID) { self.newest = newest }

    func mayHave(_ content: ContentID) -> Bool { content <= newest }

    mutating func note(_ content: ContentID) { newest = max(newest, content) }
}

extension IndexTransaction {
    /// Records that a content holds, or will hold, a version.
    package func setContent(_ record: ContentRecord) throws {
        index.cache.recorded.withLock { $0.note(record.content) }
        try executeAtOnce(
            "INSERT OR REPLACE INTO contents (content, version, size, manifest, boot) VALUES (?,?,?,?,?)",
            [
                .int(record.content.rawValue), SQLValue(record.version), .int(record.size),
                .bytes(BlobCoding.encode(record.manifest)), record.unsyncedBoot.map(SQLValue.bytes) ?? nil,
            ])
    }

    /// Records the position of each chunk in a complete content, so that downloads can reuse it.
    package func setLocations(_ manifest: Manifest, in content: ContentID) throws {
        index.cache.recorded.withLock { $0.note(content) }
        try execute("DELETE FROM chunks WHERE content = ?", [.int(content.rawValue)])
        var position: Int64 = 0
        for chunk in manifest {
            try executeAtOnce(
                "INSERT OR IGNORE INTO chunks (prefix, content, position, length) VALUES (?,?,?,?)",
                [.int(ChunkPrefix.of(chunk.id)), .int(content.rawValue), .int(position), .int(Int64(chunk.length))])
            position += Int64(chunk.length)
        }
    }

    /// Marks the index as cleanly ended, just before it is synced to disk, or as in use again.
    package func setEnded(_ isEnded: Bool) throws { try setMeta("ended", isEnded ? 1 : nil) }

    package func setLastBoot(_ boot: [UInt8]) throws {
        try execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('boot', ?)", [.bytes(boot)])
    }

    package func markSynced(_ contents: [ContentID]) throws {
        for content in contents {
            try execute("UPDATE contents SET boot = NULL WHERE content = ?", [.int(content.rawValue)])
        }
    }

    /// Deletes the records of a content that is being removed.
    package func forgetContent(_ content: ContentID) throws {
        // Most contents replaced by a save have no record. So this skips the query, or makes one query instead of two
        // deletions and their space in the journal.
        guard index.cache.recorded.withLock({ $0.mayHave(content) }) else { return }
        let isKnown = try currentPart.first(Self.isKnown, [.int(content.rawValue)]) { _ in true }
        guard isKnown == true else { return }
        try execute("DELETE FROM contents WHERE content = ?", [.int(content.rawValue)])
        try execute("DELETE FROM chunks WHERE content = ?", [.int(content.rawValue)])
    }

    private static let isKnown =
        "SELECT 1 FROM contents WHERE content = ?1 UNION ALL SELECT 1 FROM chunks WHERE content = ?1"

    /// Deletes the records of contents that no item has, left by a crash during a download. Call it once, at the start.
    /// Only the last run can have left any, so it examines only the contents of that run.
    package func forgetUnusedContents() throws {
        let first = try metaNumber(Self.firstNumber) ?? 0
        let unused = "content >= ? AND content NOT IN (SELECT content FROM items WHERE content IS NOT NULL)"
        try execute("DELETE FROM chunks WHERE \(unused)", [.int(first)])
        try execute("DELETE FROM contents WHERE \(unused)", [.int(first)])
        try setMeta(Self.firstNumber, newNumber())
    }

    /// The name of the first number of the last run in `meta`.
    fileprivate static let firstNumber = "firstNumber"
}

extension IndexReader {
    /// Returns whether an item had this content before the last start and lost it through damage. A regular removal
    /// would have deleted the record too.
    package func hadItem(_ content: ContentID) throws -> Bool {
        guard let first = try metaNumber(IndexTransaction.firstNumber), content.rawValue < first else { return false }
        return try number("SELECT 1 FROM contents WHERE content = ?", [.int(content.rawValue)]) != nil
    }
}

/// The first eight bytes of a chunk's id as an integer: enough to find it, and half the space in the index.
enum ChunkPrefix {
    static func of(_ id: ChunkID) -> Int64 {
        id.bytes.prefix(8).reduce(0) { $0 << 8 | Int64($1) }
    }
}
