package import UbiquityCore

/// Queries for work: changes to upload, contents to download, and contents to evict.
package struct PendingTable: IndexTable {
    let reader: IndexReader

    /// Returns packages with local changes that are not uploaded, or being written. Remote changes are not mixed with
    /// them.
    package func changedPackages(_ index: ItemIndex) throws -> Set<ItemKey> {
        var finder = PackageFinder(reader, index), result = Set<ItemKey>(), order: Int64 = 0
        while true {
            let rows = try dirtyRows(after: order, limit: Self.rowsPerRead)
            for row in rows { result.formUnion(try finder.packages(changedBy: row)) }
            guard let last = rows.last, rows.count == Self.rowsPerRead else { break }
            order = last.dirtyOrder
        }
        for row in try reader.items.openForWriting() where !row.isExcluded {
            if let owner = try finder.package(of: row) { result.insert(owner) }
        }
        return result
    }

    private static let rowsPerRead = 1000

    /// Returns items with changes to upload, in the order in which they became dirty.
    package func dirtyRows(after order: Int64, limit: Int) throws -> [ItemRow] {
        try rows(
            RowCoding.select("items.dirty <> 0 AND items.dirtyOrder > ?") + " ORDER BY items.dirtyOrder LIMIT ?",
            [.int(order), .int(Int64(limit))])
    }

    package func dirtyCount() throws -> Int { Int(try number("SELECT count(*) FROM items WHERE dirty <> 0", []) ?? 0) }

    /// Matches items created and deleted before the cloud can know them. Nothing is uploaded for them; their rows are
    /// deleted with the next upload.
    private static let isNothing = """
        items.dirty & \(DirtyFields.created.rawValue) AND items.dirty & \(DirtyFields.deleted.rawValue)
        AND NOT items.flags & \(ItemFlags.creationSent.rawValue)
        AND NOT EXISTS (SELECT 1 FROM remote WHERE remote.id = items.id AND remote.deleted = 0)
        """

    /// Returns the same rows, at most `limit`, without those for which nothing is uploaded.
    package func unsentRows(limit: Int) throws -> [ItemRow] {
        try rows(
            RowCoding.select("items.dirty <> 0 AND NOT (\(Self.isNothing))") + " ORDER BY items.dirtyOrder LIMIT ?",
            [.int(Int64(limit))])
    }

    package func unsentCount() throws -> Int {
        Int(try number("SELECT count(*) FROM items WHERE \(Self.isUnsent)", []) ?? 0)
    }

    /// The condition for items with changes that must be uploaded.
    static let isUnsent = "items.dirty <> 0 AND NOT (\(Self.isNothing))"

    /// Returns the bytes of files whose content must be uploaded.
    package func dirtyBytes() throws -> Int64 {
        try number(
            """
            SELECT sum(size) FROM items WHERE dirty <> 0 AND dirty & \(DirtyFields.content.rawValue)
            AND dirty & \(DirtyFields.deleted.rawValue) = 0
            """, []) ?? 0
    }

    /// Returns files that eviction may take, least recently used first: clean, not pinned, not open for writing, and
    /// confirmed by the cloud. It includes partial contents that no download is filling.
    ///
    /// - Parameters:
    ///   - last: The last file of the previous page; nil for the first page.
    ///   - kept: Files that eviction keeps.
    package func evictable(
        after last: ItemRow? = nil, largerThan size: Int64 = 0, keeping kept: KeptContents = .none, limit: Int
    ) throws -> [ItemRow] {
        try rows(
            RowCoding.select(
                """
                (\(Self.isWhole) OR \(Self.isLeftInPart)) AND \(Self.isEvictable)
                AND (items.used, items.key) > (?, ?) AND items.size > ?
                """)
                + " ORDER BY items.used, items.key LIMIT ?",
            kept.values + [
                .int(last?.usedAt.nanoseconds ?? .min), .int(last?.key.rawValue ?? 0), .int(size), .int(Int64(limit)),
            ])
    }

    /// Returns the evictable files with partial content, and their contents.
    package func evictableParts(keeping kept: KeptContents = .none) throws -> [(key: ItemKey, content: ContentID)] {
        var result = [(key: ItemKey, content: ContentID)]()
        try db.run(
            """
            SELECT items.key, items.content FROM items
            WHERE \(Self.isLeftInPart) AND \(Self.isEvictable)
            """, kept.values
        ) { result.append((ItemKey($0.int(0)), ContentID($0.int(1)))) }
        return result
    }

    /// Returns the total bytes of the evictable files with complete content.
    package func evictableBytes(keeping kept: KeptContents = .none) throws -> Int64 {
        try number("SELECT sum(size) FROM items WHERE \(Self.isWhole) AND \(Self.isEvictable)", kept.values) ?? 0
    }

    /// Returns whether an evictable file with complete content exists.
    package func hasEvictable() throws -> Bool {
        let question = "SELECT 1 FROM items WHERE \(Self.isWhole) AND \(Self.isEvictable) LIMIT 1"
        return try number(question, KeptContents.none.values) != nil
    }

    private static let isWhole = "items.contentState = 2"

    private static let isLeftInPart =
        "items.contentState = 1 AND items.flags & \(ItemFlags([.keptCurrent, .downloadRequested]).rawValue) = 0"

    /// The first condition follows from the others; it makes SQLite use the index of contents. The two values are those
    /// of `KeptContents`.
    private static let isEvictable = """
        items.content IS NOT NULL AND items.kind = 1 AND items.dirty = 0
        AND EXISTS (SELECT 1 FROM remote WHERE remote.id = items.id AND remote.deleted = 0 AND available)
        AND items.flags & \(ItemFlags([.writing, .pinned, .excluded]).rawValue) = 0 AND items.size > ?
        AND NOT (items.flags & \(ItemFlags.broughtOnRequest.rawValue) AND items.used >= ?)
        """

    /// Returns placeholders whose content should be here: pinned, kept current or requested; and all others of at most
    /// `eager` bytes, if that is not 0.
    package func wanted(eager: Int64, after key: ItemKey, limit: Int) throws -> [ItemRow] {
        try rows(
            RowCoding.select("items.key > ? AND \(Self.isWanted(eager))") + " ORDER BY items.key LIMIT ?",
            [SQLValue(key), .int(Int64(limit))])
    }

    /// Returns those whose contents the cloud does not have yet, at most `limit`.
    package func awaited(eager: Int64, limit: Int) throws -> [ItemKey] {
        var result = [ItemKey]()
        try db.run(
            """
            SELECT items.key FROM items JOIN remote ON remote.id = items.id
            WHERE \(Self.isWanted(eager)) AND remote.deleted = 0 AND NOT remote.available ORDER BY items.key LIMIT ?
            """, [.int(Int64(limit))]
        ) { result.append(ItemKey($0.int(0))) }
        return result
    }

    /// Returns the number and the total bytes of wanted files.
    package func wantedTotal(eager: Int64) throws -> (items: Int, bytes: Int64) {
        let condition = Self.isWanted(eager)
        return (
            Int(try number("SELECT count(*) FROM items WHERE \(condition)", []) ?? 0),
            try number("SELECT sum(size) FROM items WHERE \(condition)", []) ?? 0
        )
    }

    /// Returns whether the item is wanted.
    package func isWanted(_ key: ItemKey, eager: Int64) throws -> Bool {
        try exists("SELECT 1 FROM items WHERE key = ? AND \(Self.isWanted(eager))", [SQLValue(key)])
    }

    private static func isWanted(_ eager: Int64) -> String {
        // The flags (pinned, kept current, requested) are written as a number, because the partial index has them so.
        "items.kind = 1 AND items.contentState <> 2 AND items.dirty & 64 = 0 AND "
            + (eager > 0 ? "(items.flags & 26 <> 0 OR items.size <= \(eager))" : "items.flags & 26 <> 0")
    }
}
