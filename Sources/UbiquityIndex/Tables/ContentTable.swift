package import UbiquityCore

/// Queries of the tables `contents`, `chunks` and `replacements`: what the backing files hold.
package struct ContentTable: IndexTable {
    let reader: IndexReader

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

    /// Returns whether an item had this content before the last start and lost it through damage. A regular removal
    /// would have deleted the record too.
    package func hadItem(_ content: ContentID) throws -> Bool {
        guard let first = try reader.meta.metaNumber(ContentWriter.firstNumber), content.rawValue < first else {
            return false
        }
        return try number("SELECT 1 FROM contents WHERE content = ?", [.int(content.rawValue)]) != nil
    }

    /// Returns whether the whole content should be here: an item has it, or may get it back.
    package func needsWhole(_ content: ContentID) throws -> Bool {
        if try reader.items.row(content: content)?.contentState == .complete { return true }
        return try exists("SELECT 1 FROM replacements WHERE old = ?", [.int(content.rawValue)])
    }

    package func replacedContents() throws -> [ReplacedContent] {
        var result = [ReplacedContent]()
        let columns = "content, newSize, version, old, size, modified, base, manifest"
        try db.run("SELECT \(columns) FROM replacements ORDER BY content", []) { row in
            let bytes = row.bytes(7), manifest = bytes.flatMap { try? BlobCoding.manifest($0) }
            // A record with an unreadable chunk list cannot restore anything.
            guard (bytes == nil) == (manifest == nil) else { return }
            result.append(
                ReplacedContent(
                    content: ContentID(row.int(0)), newSize: row.int(1), version: row.id(2),
                    old: row.optionalInt(3).map(ContentID.init), size: row.int(4), modifiedAt: row.time(5),
                    base: row.id(6), manifest: manifest))
        }
        return result
    }
}
