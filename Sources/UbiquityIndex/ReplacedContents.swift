package import UbiquityCore
internal import UbiquitySystem

/// A content that took another's place, and may not be on the disk yet.
///
/// Nobody synced it, and the kernel may bring the index to the disk before it: after a loss of power the name must have
/// the old content or the new one. The old one's file stays until the index is synced, and all that it replaced with it
/// (`ContentStore.removeRetired`), so a start in another boot can give it back.
package struct ReplacedContent: Sendable, Hashable {
    /// What took the place.
    package var content: ContentID
    /// Its bytes then.
    package var newSize: Int64
    /// What the item that has it is made from since. If it is made from another by now, the cloud has a later content
    /// than the old one.
    package var version: VersionID?
    /// What had the place; nil if it was not here. Another name may have it still.
    package var old: ContentID?
    /// Bytes of the old one.
    package var size: Int64
    package var modifiedAt: Timestamp
    /// What the old one is made from, or is.
    package var base: VersionID?
    /// The chunks of the old one, if it was a version of the cloud's, unchanged.
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
        let columns = "content, newSize, version, old, size, modified, base, manifest"
        try db.run("SELECT \(columns) FROM replacements ORDER BY content", []) { row in
            let bytes = row.bytes(7), manifest = bytes.flatMap { try? BlobCoding.manifest($0) }
            // By one that cannot be read nothing can be given back.
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
    /// Records what a file that is not on the disk yet is put over.
    /// - Parameter item: what has the new content afterwards, if that is not the target.
    func noteReplacement(_ move: Move, of target: ItemRow, item: ItemRow? = nil) throws {
        guard !move.isOnDisk, move.source.kind == .file, let content = move.source.content,
            move.source.contentState == .complete
        else { return }
        try noteReplacement(of: target, by: content, size: move.source.size, item: item)
    }

    /// Records what a content takes the place of. To be called before what is known of the old one is forgotten.
    /// - Parameters:
    ///   - size: of the new content, in bytes.
    ///   - version: what the item is made from afterwards, if that changes.
    ///   - item: what has the new content afterwards, if that is not the target.
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

    /// Whether that content took another's place and has not been told to be on the disk.
    package func isReplacement(_ content: ContentID) -> Bool { replaced.contains(content) }
}
