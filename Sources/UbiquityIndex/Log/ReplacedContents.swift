package import UbiquityCore
internal import UbiquitySystem

/// A content that replaced another one and may not be synced to disk yet.
///
/// The kernel may write the index to disk before the new content. After a power loss the name must have the old or the
/// new content. So the old file stays until the index, and everything replaced with it, is synced
/// (`ContentStore.removeRetired`). A start in another boot can then restore it.
package struct ReplacedContent: Sendable, Hashable {
    /// The new content.
    package var content: ContentID
    /// Bytes of the new content at the replacement.
    package var newSize: Int64
    /// The base version of the item that has the new content. If the item has another base by now, the cloud has a
    /// later content than the old one.
    package var version: VersionID?
    /// The replaced content; nil if it was not here. Another name may still have it.
    package var old: ContentID?
    /// Bytes of the replaced content.
    package var size: Int64
    package var modifiedAt: Timestamp
    /// The version that the replaced content is, or started from.
    package var base: VersionID?
    /// The chunks of the replaced content, if it was an unchanged version of the cloud.
    package var manifest: Manifest?
}

/// The replacements recorded by this process, which save needless queries.
final class ReplacedContents: Sendable {
    private let recorded = Lock(Set<ContentID>())

    func insert(_ content: ContentID) { recorded.withLock { _ = $0.insert(content) } }
    func contains(_ content: ContentID) -> Bool { recorded.withLock { $0.contains(content) } }
    func remove(_ contents: Set<ContentID>) { recorded.withLock { $0.subtract(contents) } }
    var all: Set<ContentID> { recorded.withLock { $0 } }
}

extension IndexReader {
    /// Returns whether the whole content should be here: an item has it, or may get it back.
    package func needsWhole(_ content: ContentID) throws -> Bool {
        if try row(content: content)?.contentState == .complete { return true }
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

extension IndexTransaction {
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
        guard let target = try named(target), target.kind == .file, target.content != content else { return }
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

extension ItemIndex {
    /// Contents that replaced others and are not known to be synced to disk.
    package var replacements: Set<ContentID> { cache.replaced.all }

    /// Deletes the records of contents that are synced to disk.
    package func forgetReplacements(_ contents: Set<ContentID>) throws {
        guard !contents.isEmpty else { return }
        try write(.local) { transaction in
            for content in contents.sorted() {
                try transaction.execute("DELETE FROM replacements WHERE content = ?", [.int(content.rawValue)])
            }
        }
        cache.replaced.remove(contents)
    }

    /// Returns whether the content replaced another one and is not known to be synced to disk.
    package func isReplacement(_ content: ContentID) -> Bool { cache.replaced.contains(content) }
}
