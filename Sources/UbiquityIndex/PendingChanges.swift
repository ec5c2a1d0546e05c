package import UbiquityCore

extension IndexReader {
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
        Int(try number("SELECT count(*) FROM items WHERE items.dirty <> 0 AND NOT (\(Self.isNothing))", []) ?? 0)
    }

    /// Returns the bytes of files whose content must be uploaded.
    package func dirtyBytes() throws -> Int64 {
        try number(
            """
            SELECT sum(size) FROM items WHERE dirty <> 0 AND dirty & \(DirtyFields.content.rawValue)
            AND dirty & \(DirtyFields.deleted.rawValue) = 0
            """, []) ?? 0
    }

    /// Returns the remote tree's items at a place. There may be two for a moment, while records arrive.
    package func remoteOccupants(of parent: ItemID, named name: ItemName) throws -> [RemoteItem] {
        try remotes(
            "SELECT \(RemoteCoding.columns) FROM remote WHERE parent = ? AND name = ? AND deleted = 0",
            [SQLValue(parent), SQLValue(name)])
    }

    /// Returns the remote tree's items in a folder, at most `limit`.
    package func remoteChildren(of parent: ItemID, limit: Int) throws -> [ItemID] {
        var result = [ItemID]()
        try db.run(
            "SELECT id FROM remote WHERE parent = ? AND deleted = 0 LIMIT ?", [SQLValue(parent), .int(Int64(limit))]
        ) { if let id: ItemID = $0.id(0) { result.append(id) } }
        return result
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

    /// Returns whether a program has a file open for writing.
    package func hasWriters() throws -> Bool {
        try number("SELECT 1 FROM items WHERE flags & 1 LIMIT 1", []) != nil
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

    /// Returns the total bytes of complete contents of at most `limit` bytes each.
    package func completeBytes(ofAtMost limit: Int64) throws -> Int64 {
        // The first condition makes SQLite use the index of contents.
        let isHere = "content IS NOT NULL AND \(Self.isWhole)"
        return try number("SELECT sum(size) FROM items WHERE \(isHere) AND size <= ?", [.int(limit)]) ?? 0
    }

    /// Returns partial contents, with the full size of each in bytes.
    package func partialContents() throws -> [(content: ContentID, size: Int64)] {
        var result = [(content: ContentID, size: Int64)]()
        try db.run("SELECT content, size FROM items WHERE contentState = 1 AND content IS NOT NULL", []) {
            result.append((ContentID($0.int(0)), $0.int(1)))
        }
        return result
    }

    /// Returns whether the folder holds an item that is neither excluded nor lingering.
    package func hasSyncedChildren(_ parent: ItemKey) throws -> Bool {
        let local = ItemFlags([.excluded, .lingering]).rawValue
        return try exists(
            "SELECT 1 FROM entries JOIN items ON key = item WHERE parent = ? AND flags & \(local) = 0 LIMIT 1",
            [SQLValue(parent)])
    }

    /// Returns folders that the cloud has deleted and that are kept for items below them.
    package func lingering(limit: Int) throws -> [ItemRow] {
        try rows(
            RowCoding.select("items.flags & \(ItemFlags.lingering.rawValue)") + " ORDER BY items.key DESC LIMIT ?",
            [.int(Int64(limit))])
    }
}

extension IndexReader {
    /// Returns all rows, including deleted ones; for rare full scans.
    package func allRows() throws -> [ItemRow] { try rows(RowCoding.select("items.key > 0"), []) }

    /// Returns items whose content this device has announced and not uploaded. Scans all records.
    package func announced(by device: DeviceID) throws -> [ItemID] {
        var result = [ItemID]()
        try db.run(
            "SELECT id FROM remote WHERE available = 0 AND deleted = 0 AND device = ?", [SQLValue(device)]
        ) { if let id: ItemID = $0.id(0) { result.append(id) } }
        return result
    }

    /// Returns whether lost contents that were announced still wait to be handled.
    package func lostContentsWait() throws -> Bool { try (metaNumber(Self.lostContents) ?? 0) != 0 }

    fileprivate static let lostContents = "lostContents"
}

extension IndexTransaction {
    package func noteLostContents(wait: Bool) throws { try setMeta(Self.lostContents, wait ? 1 : 0) }

    /// Removes an item whose content is lost, as its user would. Nobody wanted this deletion, so changes by others take
    /// precedence: its base is the lowest revision.
    package func giveUp(_ row: ItemRow) throws {
        let now = index.timekeeper.now()
        for link in try links(to: row.id) { try giveUpName(link, now: now) }
        try remove(try self.row(key: row.key) ?? row, now: now)
        guard let gone = try self.row(key: row.key) else { return }
        var next = gone
        next.dirtyBase = .zero
        try update(next, before: gone)
    }

    /// Removes a name of the lost item. A name that the cloud knows waits for the item's record.
    private func giveUpName(_ link: ItemRow, now: Timestamp) throws {
        guard !link.isExcluded, !link.dirty.contains(.created) else { return try remove(link, now: now) }
        try detach(link)
        try touchLinked(link.linkedID, now: now)
    }

    /// Removes the item's entry. The item then waits for its record to be placed.
    package func detach(_ row: ItemRow) throws {
        var next = row
        next.entry = nil
        next.dirty.remove(.place)
        try update(next, before: row)
        try setState(row.id, .waiting)
        note(.removed, before: row, after: nil)
    }

    /// Deletes all of the cloud's records. Decisions about versions stay: an older copy of the same cloud has those
    /// versions, and a cloud that never had them ignores the decisions.
    package func forgetAllRemotes() throws {
        try executeAtOnce("DELETE FROM remote", [])
        recountFolders()
        try execute("DELETE FROM conflicts", [])
    }
}
