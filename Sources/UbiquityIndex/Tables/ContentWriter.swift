package import UbiquityCore
internal import UbiquitySystem

/// Changes of the tables `contents`, `chunks` and `replacements`.
package struct ContentWriter: TransactionPart {
    let transaction: IndexTransaction

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
        let isKnown = try transaction.currentPart.first(Self.isKnown, [.int(content.rawValue)]) { _ in true }
        guard isKnown == true else { return }
        try execute("DELETE FROM contents WHERE content = ?", [.int(content.rawValue)])
        try execute("DELETE FROM chunks WHERE content = ?", [.int(content.rawValue)])
    }

    private static let isKnown =
        "SELECT 1 FROM contents WHERE content = ?1 UNION ALL SELECT 1 FROM chunks WHERE content = ?1"

    /// Deletes the records of contents that no item has, left by a crash during a download. Call it once, at the start.
    /// Only the last run can have left any, so it examines only the contents of that run.
    package func forgetUnusedContents() throws {
        let first = try reader.meta.metaNumber(Self.firstNumber) ?? 0
        let unused = "content >= ? AND content NOT IN (SELECT content FROM items WHERE content IS NOT NULL)"
        try execute("DELETE FROM chunks WHERE \(unused)", [.int(first)])
        try execute("DELETE FROM contents WHERE \(unused)", [.int(first)])
        try transaction.meta.setMeta(Self.firstNumber, transaction.newNumber())
    }

    /// The name of the first number of the last run in `meta`.
    static let firstNumber = "firstNumber"

    /// Records the content replaced by a rename, if the source is not synced to disk yet.
    ///
    /// - Parameter item: The item that has the new content afterwards, if that is not the target.
    func noteReplacement(_ move: Move, of target: ItemRow, item: ItemRow? = nil) throws {
        guard !move.isOnDisk, move.source.kind == .file, let content = move.source.content,
            move.source.contentState == .complete
        else { return }
        try noteReplacement(of: target, by: content, size: move.source.size, item: item)
    }

    /// Records a replaced content. Call it before the old content's records are deleted.
    ///
    /// - Parameters:
    ///   - size: Bytes of the new content.
    ///   - version: The item's base version afterwards, if it changes.
    ///   - item: The item that has the new content afterwards, if that is not the target.
    func noteReplacement(
        of target: ItemRow, by content: ContentID, size: Int64, version: VersionID? = nil, item: ItemRow? = nil
    ) throws {
        guard let target = try items.named(target), target.kind == .file, target.content != content else { return }
        let old = target.contentState == .complete ? target.content : nil
        let isUnchanged = !target.isExcluded && !target.dirty.contains(.content)
        let base = item.map(\.version) ?? target.version
        try execute(
            """
            INSERT OR REPLACE INTO replacements (content, newSize, version, old, size, modified, base, manifest)
            VALUES (?,?,?,?,?,?,?, (SELECT manifest FROM contents WHERE content = ?))
            """,
            [
                .int(content.rawValue), .int(size), SQLValue(version ?? base), SQLValue(old?.rawValue),
                .int(target.size), .int(target.modifiedAt.nanoseconds), SQLValue(base),
                SQLValue(isUnchanged ? old?.rawValue : nil),
            ])
        index.cache.replaced.insert(content)
    }

    /// Deletes all records, at a start that has handled those of the last life.
    package func forgetReplacements() throws { try execute("DELETE FROM replacements", []) }
}
