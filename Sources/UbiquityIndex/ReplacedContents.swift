package import UbiquityCore
internal import UbiquitySystem

/// A content that took another's place by a rename, and may not be on the disk yet.
///
/// Nobody synced it, and the kernel may bring the index to the disk before it: after a loss of power the name must have
/// the old content or the new one. The old one's file stays until the index is synced, and all that it replaced with it
/// (`ContentStore.removeRetired`), so a start in another boot can give it back.
package struct ReplacedContent: Sendable, Hashable {
    /// What took the place.
    package var content: ContentID
    /// What had it; nil if it was not here.
    package var old: ContentID?
    /// Bytes of the old one.
    package var size: Int64
    package var modifiedAt: Timestamp
    /// What both are made from. If the item is made from another by now, the cloud has a later content than the old
    /// one.
    package var version: VersionID?
    /// The chunks of the old one, if it was that version, unchanged.
    package var manifest: Manifest?
}

/// Which records this process has made, so that nobody looks for them in vain.
final class ReplacedContents: Sendable {
    private let recorded = Lock(Set<ContentID>())

    func insert(_ content: ContentID) { recorded.withLock { _ = $0.insert(content) } }
    func contains(_ content: ContentID) -> Bool { recorded.withLock { $0.contains(content) } }
    func remove(_ contents: Set<ContentID>) { recorded.withLock { $0.subtract(contents) } }
    var all: Set<ContentID> { recorded.withLock { $0 } }
}

extension IndexReader {
    /// Whether all of a content should be here: an item has it, or may get it back.
    package func needsWhole(_ content: ContentID) throws -> Bool {
        if try row(content: content)?.contentState == .complete { return true }
        return try exists("SELECT 1 FROM replacements WHERE old = ?", [.int(content.rawValue)])
    }

    package func replacedContents() throws -> [ReplacedContent] {
        var result = [ReplacedContent]()
        try db.run(
            "SELECT content, old, size, modified, version, manifest FROM replacements ORDER BY content", []
        ) { row in
            result.append(
                ReplacedContent(
                    content: ContentID(row.int(0)), old: row.optionalInt(1).map(ContentID.init), size: row.int(2),
                    modifiedAt: row.time(3), version: row.id(4),
                    manifest: try row.bytes(5).map(BlobCoding.manifest)))
        }
        return result
    }
}

extension IndexTransaction {
    /// Records what a file that is not on the disk yet is put over.
    /// - Parameter version: what the item that has the new content is made from.
    func noteReplacement(_ move: Move, of target: ItemRow, version: VersionID?) throws {
        guard !move.isOnDisk, target.kind == .file, move.source.kind == .file, let content = move.source.content,
            move.source.contentState == .complete
        else { return }
        let old = target.contentState == .complete ? target.content : nil
        let isUnchanged = !target.isExcluded && !target.dirty.contains(.content)
        try execute(
            """
            INSERT OR REPLACE INTO replacements (content, old, size, modified, version, manifest)
            VALUES (?,?,?,?,?, (SELECT manifest FROM contents WHERE content = ?))
            """,
            [
                .int(content.rawValue), SQLValue(old?.rawValue), .int(target.size),
                .int(target.modifiedAt.nanoseconds), SQLValue(version), SQLValue(isUnchanged ? old?.rawValue : nil),
            ])
        index.replaced.insert(content)
    }

    /// For a start: what the last life left is decided.
    package func forgetReplacements() throws { try execute("DELETE FROM replacements", []) }
}

extension ItemIndex {
    /// Contents that took others' places, and have not been told to be on the disk.
    package var replacements: Set<ContentID> { replaced.all }

    /// Those are on the disk.
    package func forgetReplacements(_ contents: Set<ContentID>) throws {
        guard !contents.isEmpty else { return }
        try write(.local) { transaction in
            for content in contents.sorted() {
                try transaction.execute("DELETE FROM replacements WHERE content = ?", [.int(content.rawValue)])
            }
        }
        replaced.remove(contents)
    }

    /// A program syncs that content: from then on nothing before it comes back. To be called before the index is
    /// synced.
    package func noteSync(of content: ContentID) throws {
        if replaced.contains(content) { try forgetReplacements([content]) }
    }
}
