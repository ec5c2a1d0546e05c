package import UbiquityCore

/// Repairs of `ubiquity doctor`.
package struct IndexRepair: TransactionPart {
    let transaction: IndexTransaction

    /// Stores the attributes that replace unreadable ones.
    package func rewriteAttributes(of row: ItemRow) throws {
        try execute(
            "UPDATE items SET xattrs = ?, localXattrs = ? WHERE key = ?",
            [
                SQLValue(nonEmpty: BlobCoding.encode(row.xattrs)),
                SQLValue(nonEmpty: BlobCoding.encode(row.localXattrs)), SQLValue(row.key),
            ])
        transaction.forgetRemembered(recounts: false)
    }

    /// Sets an item's kind to that of its record.
    package func setKind(_ kind: ItemKind, of row: ItemRow) throws {
        try execute("UPDATE items SET kind = ? WHERE key = ?", [.int(Int64(kind.rawValue)), SQLValue(row.key)])
        try execute(
            "UPDATE entries SET directory = ? WHERE item = ?", [kind == .directory ? 1 : 0, SQLValue(row.key)])
        if kind != .file {
            try execute("UPDATE items SET content = NULL, contentState = 0 WHERE key = ?", [SQLValue(row.key)])
        }
        transaction.forgetRemembered()
    }

    /// Repairs what needs no further knowledge: it removes entries that lead nowhere. `strayRows` then returns the
    /// items that lost their entries.
    package func repairContradictions() throws {
        try renumberItems()
        for statement in Self.numberReadings + Self.readings + Self.structure { try execute(statement, []) }
        // These statements bypass the row cache.
        transaction.forgetRemembered()
        try transaction.marks.repairLocalMarks(now: index.timekeeper.now())
        for statement in LinkRepair.linkRemovals + Self.fields { try execute(statement, []) }
        try renumberChanges()
        transaction.forgetRemembered()
    }

    /// Statements that make all rows readable, from the cloud's records or from other fields of the item. They skip the
    /// top folder: without it the index does not open.
    private static let readings = [
        // Requests a new snapshot of all the cloud's records.
        "INSERT OR REPLACE INTO meta SELECT 'inSnapshot', 1 FROM remote WHERE \(Fault.unreadableRecord) LIMIT 1",
        "DELETE FROM remote WHERE \(Fault.unreadableRecord)",
        "INSERT OR REPLACE INTO meta SELECT 'inSnapshot', 1 FROM conflicts WHERE \(Fault.unreadableConflict) LIMIT 1",
        "DELETE FROM conflicts WHERE \(Fault.unreadableConflict)",
        "DELETE FROM versionActions WHERE \(Fault.unreadableAction)",
        """
        UPDATE items SET kind = (SELECT remote.kind FROM remote WHERE remote.id = items.id)
        WHERE key > 1 AND \(Fault.unreadableKind) AND EXISTS (SELECT 1 FROM remote WHERE remote.id = items.id)
        """,
        // An item such as a socket, with no copy elsewhere and no content, holds nothing worth keeping.
        """
        DELETE FROM items
        WHERE key > 1 AND \(Fault.unreadableKind) AND content IS NULL AND link IS NULL AND version IS NULL
        AND NOT EXISTS (SELECT 1 FROM entries WHERE item = key AND directory)
        """,
        """
        UPDATE items SET kind = CASE
            WHEN content IS NOT NULL THEN 1
            WHEN EXISTS (SELECT 1 FROM entries WHERE item = key AND directory) THEN 2
            WHEN EXISTS (SELECT 1 FROM items AS linked WHERE linked.id = items.link) THEN 4
            WHEN link IS NOT NULL THEN 3 ELSE 1 END
        WHERE key > 1 AND \(Fault.unreadableKind)
        """,
        // The state of a content is unknown, so it is downloaded again from the cloud. This excludes contents that were
        // changed here or exist only here.
        """
        UPDATE items SET content = NULL, contentState = 0
        WHERE \(Fault.unreadableState) AND dirty & 32 = 0 AND flags & 5 = 0 AND version IS NOT NULL
        """,
        "UPDATE items SET contentState = 2 WHERE \(Fault.unreadableState)",
        """
        UPDATE items SET id = (\(recordAtPlace)) WHERE key > 1 AND \(Fault.unreadableID) AND \(isAtCloud)
        AND EXISTS (\(recordAtPlace))
        """,
    ] + LinkRepair.linkReadings + [
        // Content that is here is uploaded as a new item; other content comes from the cloud again.
        "DELETE FROM items WHERE key > 1 AND \(Fault.unreadableID) AND (dirty & 64 OR kind = 1 AND contentState <> 2)",
        """
        UPDATE items SET id = randomblob(16), version = NULL, nextVersion = NULL, dirtyBase = 0,
            dirty = CASE WHEN flags & 4 OR kind > 4 THEN 0 WHEN kind = 1 THEN 33 ELSE 1 END
        WHERE key > 1 AND \(Fault.unreadableID)
        """,
    ]

    /// Not deleted, not excluded, and not new and unsent: the cloud's record at the same place is this item's.
    private static let isAtCloud = "dirty & 64 = 0 AND flags & 4 = 0 AND NOT (dirty & 1 AND flags & 64 = 0)"

    /// Selects the record of the cloud's item at this item's place.
    static let recordAtPlace = """
        SELECT remote.id FROM entries JOIN items AS folder ON folder.key = entries.parent
        JOIN remote ON remote.parent = folder.id AND remote.name = entries.name
        WHERE entries.item = items.key AND remote.deleted = 0 AND remote.kind = items.kind
        AND NOT EXISTS (SELECT 1 FROM items AS other WHERE other.id = remote.id)
        """

    private static let structure = MarkRepair.markRepairs + [
        // An item with a content is a file, if its record agrees. Otherwise the content would be lost.
        """
        UPDATE items SET kind = 1 WHERE kind <> 1 AND content IS NOT NULL
        AND (EXISTS (SELECT 1 FROM remote WHERE remote.id = items.id AND remote.kind = 1)
            OR version IS NULL AND link IS NULL AND NOT EXISTS (SELECT 1 FROM remote WHERE remote.id = items.id)
            AND NOT EXISTS (SELECT 1 FROM entries AS own WHERE own.item = items.key AND own.directory))
        """,
        """
        UPDATE items SET kind = 2 WHERE kind <> 2 AND content IS NULL
        AND (key IN (SELECT parent FROM entries)
            AND EXISTS (SELECT 1 FROM remote WHERE remote.id = items.id AND remote.kind = 2)
            OR version IS NULL AND link IS NULL AND NOT EXISTS (SELECT 1 FROM remote WHERE remote.id = items.id)
            AND EXISTS (SELECT 1 FROM entries AS own WHERE own.item = items.key AND own.directory))
        """,
        "UPDATE OR IGNORE entries SET name = CAST(name AS BLOB) WHERE \(Fault.unreadableName)",
        "DELETE FROM entries WHERE \(Fault.unreadableName)",
        "UPDATE items SET dirty = dirty & 127 WHERE \(Fault.unknownChange)",
        "UPDATE meta SET value = 0 WHERE name = 'revision' AND value < 0",
        // A base older than every other change. For new items and deletions the value is 0.
        "UPDATE items SET dirtyBase = CASE WHEN dirty & 65 THEN 0 ELSE 1 END WHERE dirtyBase < 0",
        "DELETE FROM entries WHERE item NOT IN (SELECT key FROM items) OR item = 1",
        // An item with an entry is not deleted, whatever its flag says. Otherwise it would be deleted on all devices.
        "UPDATE items SET dirty = dirty & ~64 WHERE dirty & 64 AND key IN (SELECT item FROM entries)",
        "DELETE FROM entries WHERE parent NOT IN (SELECT key FROM items WHERE kind = 2 AND dirty & 64 = 0)",
        """
        DELETE FROM entries WHERE EXISTS (
            SELECT 1 FROM entries AS other WHERE other.item = entries.item
            AND (other.parent, other.name) < (entries.parent, entries.name))
        """,
        """
        WITH RECURSIVE tree(key) AS (
            SELECT key FROM items WHERE key NOT IN (SELECT item FROM entries)
            UNION SELECT item FROM entries JOIN tree ON parent = tree.key)
        DELETE FROM entries WHERE item NOT IN tree
        """,
        """
        UPDATE entries SET directory = (SELECT kind = 2 FROM items WHERE key = item)
        WHERE directory <> (SELECT kind = 2 FROM items WHERE key = item)
        """,
    ] + LinkRepair.linkRepairs

    private static let fields = [
        "UPDATE items SET dirty = 0 WHERE key = 1",
        """
        UPDATE items SET flags = flags | 512 WHERE flags & 512 = 0 AND EXISTS (
            SELECT 1 FROM items AS link JOIN entries ON item = link.key WHERE link.kind = 4 AND link.link = items.id)
        """,
        "UPDATE items SET content = NULL, contentState = 0, dirty = dirty & ~32 WHERE kind <> 1",
        """
        UPDATE items SET content = NULL, contentState = 0 WHERE content IS NOT NULL AND EXISTS (
            SELECT 1 FROM items AS other WHERE other.content = items.content AND other.key < items.key)
        """,
        "UPDATE items SET contentState = 0 WHERE content IS NULL",
        // A file that was never sent and has neither content nor entry holds nothing worth keeping.
        """
        DELETE FROM items WHERE kind = 1 AND content IS NULL AND version IS NULL AND dirty & 64 = 0
        AND key NOT IN (SELECT item FROM entries) AND id NOT IN (SELECT id FROM remote)
        """,
        "UPDATE items SET contentState = 2 WHERE content IS NOT NULL AND contentState = 0",
        "UPDATE items SET dirty = dirty & ~32 WHERE dirty & 96 = 32 AND contentState <> 2 AND version IS NOT NULL",
    ]

    /// If the dirty flags are unreadable, a complete file counts as changed in content.
    static let numberReadings =
        [
            "UPDATE OR IGNORE items SET id = zeroblob(16) WHERE \(Fault.wrongTopFolder)",
            """
            UPDATE items SET dirty = CASE WHEN kind = 1 AND contentState = 2 THEN 40 ELSE 0 END
            WHERE typeof(dirty) <> 'integer'
            """,
        ]
        + Fault.integers.map { "UPDATE items SET \($0) = CAST(\($0) AS INTEGER) WHERE typeof(\($0)) <> 'integer'" }

    /// Gives items with an impossible key or inode new ones. `strayRows` returns the items that lose their entry by
    /// this.
    func renumberItems() throws {
        for key in try keys("SELECT key FROM items WHERE \(Fault.impossibleInode) AND key <> 1") {
            try execute("UPDATE items SET ino = ? WHERE key = ?", [.int(transaction.newNumber()), SQLValue(key)])
        }
        for key in try keys("SELECT key FROM items WHERE \(Fault.impossibleKey)") {
            try execute("UPDATE items SET key = ? WHERE key = ?", [.int(transaction.newNumber()), SQLValue(key)])
        }
    }

    /// Gives changes with a duplicate or impossible position in the order a new position.
    func renumberChanges() throws {
        let wrong = """
            SELECT key FROM items WHERE dirty <> 0 AND (dirtyOrder < 1
            OR dirtyOrder >= (SELECT value FROM meta WHERE name = 'numbers')
            OR EXISTS (SELECT 1 FROM items AS other
                WHERE other.dirty <> 0 AND other.dirtyOrder = items.dirtyOrder AND other.key < items.key)) ORDER BY key
            """
        for key in try keys(wrong) {
            try execute("UPDATE items SET dirtyOrder = ? WHERE key = ?", [.int(transaction.newNumber()), SQLValue(key)])
        }
        try execute(
            """
            UPDATE items SET dirtyOrder = 0 WHERE dirty = 0
            AND dirtyOrder >= (SELECT value FROM meta WHERE name = 'numbers')
            """, [])
    }

    private func keys(_ query: String) throws -> [ItemKey] {
        var keys = [ItemKey]()
        try reader.db.run(query, []) { keys.append(ItemKey($0.int(0))) }
        return keys
    }
}
