package import UbiquityCore
internal import UbiquitySystem

/// What is known of a backing file beyond the item that has it.
package struct ContentRecord: Sendable, Hashable {
    package var content: ContentID
    /// The version whose bytes it holds (or will hold, while partial).
    package var version: VersionID
    package var size: Int64
    package var manifest: Manifest
    /// The boot during which it was written, if it has not been synced since; after another boot its bytes must be
    /// verified before they are believed.
    package var unsyncedBoot: [UInt8]?

    package init(content: ContentID, version: VersionID, size: Int64, manifest: Manifest, unsyncedBoot: [UInt8]?) {
        self.content = content
        self.version = version
        self.size = size
        self.manifest = manifest
        self.unsyncedBoot = unsyncedBoot
    }
}

/// Where a chunk may be found on this device. A hint: what is read there must be verified.
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

    /// Contents not known to be on the disk since before this boot of the machine.
    package func unsyncedContents(notOf boot: [UInt8]) throws -> [ContentRecord] {
        try records(
            "SELECT content, version, size, manifest, boot FROM contents WHERE boot IS NOT NULL AND boot <> ?",
            [.bytes(boot)])
    }

    /// Whole contents that are versions of the cloud's and not known to be on the disk, at most `limit`.
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

    /// Whether it is a content of the cloud's that is not known to be on the disk.
    package func isUnsynced(_ content: ContentID) throws -> Bool {
        var result = false
        try db.run("SELECT 1 FROM contents WHERE content = ? AND boot IS NOT NULL", [.int(content.rawValue)]) { _ in
            result = true
        }
        return result
    }

    /// The boot of the machine in which the index was last opened for use; nil at first.
    package func lastBoot() throws -> [UInt8]? {
        var result: [UInt8]?
        try db.run("SELECT value FROM meta WHERE name = 'boot'", []) { result = $0.bytes(0) }
        return result
    }

    /// Whether the last run came to its end, so that nothing of the index was lost with the power since.
    package func hasEnded() throws -> Bool { try metaNumber("ended") == 1 }

    private func records(_ sql: String, _ values: [SQLValue]) throws -> [ContentRecord] {
        var result = [ContentRecord]()
        try db.run(sql, values) { row in
            // Of one that cannot be read as little is known as of none.
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

    /// Backing files that may hold this chunk, at most 4.
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

    /// The content ids that items refer to, for the sweep of backing files nobody has.
    package func contentsInUse() throws -> ContentList {
        var ids = [ContentID]()
        // By the index, which has them in this order.
        try db.run("SELECT content FROM items WHERE content IS NOT NULL ORDER BY content", []) { row in
            ids.append(ContentID(row.int(0)))
        }
        return ContentList(ascending: ids)
    }
}

/// Contents in the order of their ids: for as many as there are files it takes a third of the time that
/// a set takes to make, and half its room.
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

/// Of which contents nothing can be known: those newer than the newest of which something was noted. What programs
/// write while nothing goes up is such, and is saved anew or removed before anything is known of it.
struct RecordedContents {
    private var newest: ContentID

    /// - Parameter newest: the newest content that an earlier opening of the index can have given.
    init(newest: ContentID) { self.newest = newest }

    func mayHave(_ content: ContentID) -> Bool { content <= newest }

    mutating func note(_ content: ContentID) { newest = max(newest, content) }
}

extension IndexTransaction {
    /// Notes that a content holds (or is to hold) a version.
    package func setContent(_ record: ContentRecord) throws {
        index.recorded.withLock { $0.note(record.content) }
        try executeAtOnce(
            "INSERT OR REPLACE INTO contents (content, version, size, manifest, boot) VALUES (?,?,?,?,?)",
            [
                .int(record.content.rawValue), SQLValue(record.version), .int(record.size),
                .bytes(BlobCoding.encode(record.manifest)), record.unsyncedBoot.map(SQLValue.bytes) ?? nil,
            ])
    }

    /// Notes where each chunk of a complete content stands, so that downloads can be built from it.
    package func setLocations(_ manifest: Manifest, in content: ContentID) throws {
        index.recorded.withLock { $0.note(content) }
        try execute("DELETE FROM chunks WHERE content = ?", [.int(content.rawValue)])
        var position: Int64 = 0
        for chunk in manifest {
            try executeAtOnce(
                "INSERT OR IGNORE INTO chunks (prefix, content, position, length) VALUES (?,?,?,?)",
                [.int(ChunkPrefix.of(chunk.id)), .int(content.rawValue), .int(position), .int(Int64(chunk.length))])
            position += Int64(chunk.length)
        }
    }

    /// Notes that the index is at its end, which is to be brought to the disk next, or that it goes on.
    package func setEnded(_ isEnded: Bool) throws { try setMeta("ended", isEnded ? 1 : nil) }

    package func setLastBoot(_ boot: [UInt8]) throws {
        try execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('boot', ?)", [.bytes(boot)])
    }

    package func markSynced(_ contents: [ContentID]) throws {
        for content in contents {
            try execute("UPDATE contents SET boot = NULL WHERE content = ?", [.int(content.rawValue)])
        }
    }

    /// Drops what is known of a content that is going away.
    package func forgetContent(_ content: ContentID) throws {
        // Of most that a save replaces nothing is known: no question, or one instead of two changes and their places in
        // the journal.
        guard index.recorded.withLock({ $0.mayHave(content) }) else { return }
        let isKnown = try currentPart.first(Self.isKnown, [.int(content.rawValue)]) { _ in true }
        guard isKnown == true else { return }
        try execute("DELETE FROM contents WHERE content = ?", [.int(content.rawValue)])
        try execute("DELETE FROM chunks WHERE content = ?", [.int(content.rawValue)])
    }

    private static let isKnown =
        "SELECT 1 FROM contents WHERE content = ?1 UNION ALL SELECT 1 FROM chunks WHERE content = ?1"

    /// Drops records of contents that no item has (a crash came between a download and its end). Only the last run can
    /// have left any, and only of contents that it began: this is asked once, at the start, and looks at those.
    package func forgetUnusedContents() throws {
        let first = try metaNumber(Self.firstNumber) ?? 0
        let unused = "content >= ? AND content NOT IN (SELECT content FROM items WHERE content IS NOT NULL)"
        try execute("DELETE FROM chunks WHERE \(unused)", [.int(first)])
        try execute("DELETE FROM contents WHERE \(unused)", [.int(first)])
        try setMeta(Self.firstNumber, newNumber())
    }

    /// The first number of the run that was the last to start.
    fileprivate static let firstNumber = "firstNumber"
}

extension IndexReader {
    /// Whether an item had this content before the last start, and has lost it otherwise than by giving it up: then
    /// the record of it would have gone as well.
    package func hadItem(_ content: ContentID) throws -> Bool {
        guard let first = try metaNumber(IndexTransaction.firstNumber), content.rawValue < first else { return false }
        return try number("SELECT 1 FROM contents WHERE content = ?", [.int(content.rawValue)]) != nil
    }
}

/// The first eight bytes of a chunk's id as an integer: enough to find it, half the size in the index.
enum ChunkPrefix {
    static func of(_ id: ChunkID) -> Int64 {
        id.bytes.prefix(8).reduce(0) { $0 << 8 | Int64($1) }
    }
}
