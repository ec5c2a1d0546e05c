package import UbiquityCore

/// Queries of `ubiquity doctor`, and the invariants that hold after every transaction.
package struct IndexExamination: IndexTable {
    let reader: IndexReader

    /// Examines every row.
    package func damagedFields() throws -> DamagedFields {
        var damaged = DamagedFields()
        let attributes = "SELECT key, xattrs, localXattrs FROM items WHERE xattrs NOTNULL OR localXattrs NOTNULL"
        try db.run(attributes, []) { row in
            guard BlobCoding.readable(row.bytes(1)) == nil || BlobCoding.readable(row.bytes(2)) == nil else { return }
            damaged.items.append(ItemKey(row.int(0)))
        }
        try db.run("SELECT id, xattrs, manifest FROM remote WHERE xattrs NOTNULL OR manifest NOTNULL", []) { row in
            let isWhole = BlobCoding.readable(row.bytes(1)) != nil
                && row.bytes(2).map { (try? BlobCoding.manifest($0)) != nil } ?? true
            if !isWhole, let id: ItemID = row.id(0) { damaged.records.append(id) }
        }
        return damaged
    }

    /// Returns files that have a content, ordered by key: those after `key`, at most `limit`.
    package func rowsWithContent(after key: ItemKey, limit: Int) throws -> [ItemRow] {
        try rows(
            RowCoding.select("items.content IS NOT NULL AND items.key > ?") + " ORDER BY items.key LIMIT ?",
            [SQLValue(key), .int(Int64(limit))])
    }

    /// Returns files whose content is a known version but lacks a valid chunk list or chunk positions in the index.
    /// They are ordered by key: those after `key`, at most `limit`.
    package func rowsOfUnknownContents(after key: ItemKey, limit: Int) throws -> [ItemRow] {
        try rows(Self.unknownContents, [SQLValue(key), .int(Int64(limit))])
    }

    private static let unknownContents = RowCoding.select(
        """
        items.content IS NOT NULL AND items.key > ? AND items.version IS NOT NULL AND items.dirty & 96 = 0
        AND items.flags & 5 = 0 AND NOT EXISTS (
            SELECT 1 FROM contents WHERE contents.content = items.content
            AND ifnull(length(contents.manifest), 0) % \(BlobCoding.chunkBytes) = 0
            AND (items.contentState <> 2 OR ifnull(length(contents.manifest), 0) = \(BlobCoding.chunkBytes) * (
                SELECT count(*) FROM chunks WHERE chunks.content = items.content))
            AND NOT EXISTS (
                SELECT 1 FROM remote WHERE remote.id = items.id AND remote.version = items.version
                AND contents.version = items.version AND remote.manifest <> contents.manifest
                -- One that cannot be read says nothing.
                AND length(remote.manifest) % \(BlobCoding.chunkBytes) = 0))
        """) + " ORDER BY items.key LIMIT ?"

    /// Returns items that are synced and have no local changes, ordered by key: those after `key`, at most `limit`.
    package func cleanRows(after key: ItemKey, limit: Int) throws -> [ItemRow] {
        try rows(
            RowCoding.select("items.dirty = 0 AND items.flags & 36 = 0 AND items.key > max(1, ?)")
                + " ORDER BY items.key LIMIT ?",
            [SQLValue(key), .int(Int64(limit))])
    }

    /// Returns records marked as placed whose items are not in the tree, at most `limit`.
    package func recordsWithoutItem(limit: Int) throws -> [ItemID] {
        var result = [ItemID]()
        try db.run(
            """
            SELECT id FROM remote WHERE deleted = 0 AND unsettled = 0 AND name <> ?
            AND NOT EXISTS (SELECT 1 FROM items WHERE items.id = remote.id) LIMIT ?
            """, [SQLValue(ItemName.versionsFolder), .int(Int64(limit))]
        ) { if let id: ItemID = $0.id(0) { result.append(id) } }
        return result
    }

    /// Returns files that share a content with another file, ordered by content.
    package func rowsSharingContents(limit: Int) throws -> [ItemRow] {
        try rows(
            RowCoding.select(
                """
                items.kind = 1 AND items.content IN (
                    SELECT content FROM items WHERE content IS NOT NULL GROUP BY content HAVING count(*) > 1)
                """) + " ORDER BY items.content, items.key LIMIT ?",
            [.int(Int64(limit))])
    }

    /// Returns files whose content is, or may be, nowhere else, ordered by key: those after `key`, at most `limit`.
    package func rowsWithOwnContent(after key: ItemKey, limit: Int) throws -> [ItemRow] {
        try rows(
            RowCoding.select(
                """
                items.kind = 1 AND (items.version IS NULL OR items.dirty & 32) AND items.dirty & 64 = 0
                AND entries.item IS NOT NULL AND items.key > ?
                """) + " ORDER BY items.key LIMIT ?",
            [SQLValue(key), .int(Int64(limit))])
    }

    /// Returns items without an entry that are not deleted, at most `limit`.
    package func strayRows(limit: Int) throws -> [ItemRow] {
        try rows(
            RowCoding.select("items.key > 1 AND items.dirty & 64 = 0 AND entries.item IS NULL") + " LIMIT ?",
            [.int(Int64(limit))])
    }

    /// Checks the invariants that hold after every transaction, over the whole index; for tests, the simulator and
    /// `doctor`. Call it inside `write`, or while nothing writes.
    ///
    /// - Throws: `.damaged` with the violated invariants.
    package func checkInvariants() throws {
        let findings = try contradictions()
        guard findings.isEmpty else {
            throw UbiquityError(.damaged, "the index contradicts itself: " + findings.joined(separator: "; "))
        }
    }

    /// Returns all entries. For small indexes.
    func allEntries() throws -> [ItemRow.Entry: ItemKey] {
        var entries: [ItemRow.Entry: ItemKey] = [:]
        try db.run("SELECT parent, name, item FROM entries", []) { row in
            let name = ItemName(stored: row.bytes(1) ?? [])
            entries[ItemRow.Entry(parent: ItemKey(row.int(0)), name: name)] = ItemKey(row.int(2))
        }
        return entries
    }

    /// Returns the violated invariants, each with some of the items that violate it.
    ///
    /// - Parameter withTotals: Whether the totals of folders are counted and compared too.
    package func contradictions(withTotals: Bool = true) throws -> [String] {
        var findings = [String]()
        for (rule, sql) in Fault.rules {
            var keys = [Int64]()
            try db.run(sql, []) { keys.append($0.int(0)) }
            if !keys.isEmpty { findings.append("\(rule): \(keys.prefix(Self.examplesPerRule))") }
        }
        // Counting reads kinds and sizes, which are valid only if nothing else is wrong.
        if withTotals, findings.isEmpty, let wrong = try wrongTotals() { findings.append(wrong) }
        return findings
    }

    /// Returns nil if the stored totals of folders match the items.
    func wrongTotals() throws -> String? {
        let folders = try reader.folders.foldersOfWrongSums()
        guard !folders.isEmpty else { return nil }
        return "totals of a folder that differ from its items: \(folders.prefix(Self.examplesPerRule))"
    }

    func hasUnreadableRows() throws -> Bool {
        var found = false
        let rules = [
            ("items", Fault.unreadableItem), ("remote", Fault.unreadableRecord),
            ("conflicts", Fault.unreadableConflict), ("versionActions", Fault.unreadableAction),
        ]
        for (table, rule) in rules {
            try db.run("SELECT 1 FROM \(table) WHERE \(rule) LIMIT 1", []) { _ in found = true }
        }
        return found
    }

    private static let examplesPerRule = 5
}
