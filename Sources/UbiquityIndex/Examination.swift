import GRDB
package import UbiquityCore
internal import UbiquitySystem

// Queries of `ubiquity doctor`.

extension IndexReader {
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

    /// Returns the ids and revisions of all records that are not deleted.
    package func liveRecords() throws -> [ItemID: Revision] {
        var result = [ItemID: Revision]()
        try db.run("SELECT id, revision FROM remote WHERE deleted = 0", []) { row in
            if let id: ItemID = row.id(0) { result[id] = Revision(row.int(1)) }
        }
        return result
    }

    /// Returns items that have versions besides the current one, ordered by id.
    package func itemsWithVersions(conflictsOnly: Bool) throws -> [ItemID] {
        var result = [ItemID]()
        try db.run(
            """
            SELECT id FROM remote WHERE deleted = 0 AND (conflicts <> 0 OR history <> 0) AND (conflicts <> 0 OR ?)
            ORDER BY id
            """, [.int(conflictsOnly ? 0 : 1)]
        ) { if let id: ItemID = $0.id(0) { result.append(id) } }
        return result
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
}

extension ItemIndex {
    /// Returns the errors SQLite finds in the database's pages and indexes; empty if there are none.
    package func integrityProblems() throws -> [String] {
        try read { reader in
            let schema = try SchemaProblems(in: try reader.db)
            return try String.fetchAll(try reader.db, sql: "PRAGMA integrity_check(20)").filter { $0 != "ok" }
                + schema.beyondRepair + schema.repairable.map(\.problem)
        }
    }

    /// Returns whether some row is unreadable, so that reading it fails.
    package func hasUnreadableRows() throws -> Bool { try read { try $0.hasUnreadableRows() } }

    /// Returns the violated invariants of the index.
    ///
    /// - Parameter isAlone: True if no other process uses the index. Then ignore rules and the totals of folders
    ///   (`wrongTotals`) are compared too.
    package func contradictions(isAlone: Bool) throws -> [String] {
        try write(.startup) { transaction in
            let broken = try transaction.contradictions(withTotals: isAlone)
            // Unreadable rows must be repaired first.
            guard isAlone, try !transaction.hasUnreadableRows() else { return broken }
            let local = try transaction.wronglyKeptLocal()
            return broken + (local.isEmpty ? [] : ["excluded from sync without a reason: \(local.prefix(5))"])
        }
    }

    /// Returns how the totals of folders differ from those of the items; nil if they do not.
    package func wrongTotals() throws -> String? { try write(.startup) { try $0.wrongTotals() } }

    /// Problems of an index that no process has open.
    package struct FileProblems: Sendable {
        /// Problems that cannot be repaired.
        package var database: [String] = []
        /// Problems that `repairSchema` repairs.
        package var schema: [String] = []
        package var journal: [String] = []
        /// Whether the journal's path holds something other than a file.
        package var isJournalNoFile = false
    }

    /// Examines an index that no process has open. Changes nothing.
    package static func problems(ofIndexAt path: String) throws -> FileProblems {
        var found = FileProblems()
        let journal = journalRoom(ofIndexAt: path).path
        guard try FileSystem.exists(path) else {
            if try FileSystem.exists(journal) { found.database = ["the database is missing"] }
            return found
        }
        guard FileSystem.isFile(path) else {
            found.database = ["not a regular file"]
            return found
        }
        do {
            var configuration = Configuration()
            configuration.readonly = true
            let database = try DatabaseQueue(path: path, configuration: configuration)
            defer { try? database.close() }
            return try database.unsafeRead { db in
                var problems = try String.fetchAll(db, sql: "PRAGMA integrity_check(20)").filter { $0 != "ok" }
                let schema = try SchemaProblems(in: db)
                problems += schema.beyondRepair
                if problems.isEmpty, try number("journal", db) < 0 {
                    problems.append("its change number is damaged")
                }
                found.database = problems
                guard problems.isEmpty else { return found }
                found.schema = schema.repairable.map(\.problem)
                if try FileSystem.exists(journal), !FileSystem.isFile(journal) {
                    found.isJournalNoFile = true
                    found.journal = ["not a regular file; changes may be lost"]
                } else {
                    found.journal = try journalProblems(journal, db)
                }
                return found
            }
        } catch let error as DatabaseError {
            found.database = ["\(error.message ?? "\(error)")"]
            return found
        }
    }

    /// Returns the number of files in an index, which another process may have open. Changes nothing. Changes that are
    /// only in the journal are not counted.
    package static func fileCount(ofIndexAt path: String) throws -> Int64 {
        var configuration = Configuration()
        configuration.readonly = true
        let database = try DatabaseQueue(path: path, configuration: configuration)
        defer { try? database.close() }
        return try database.unsafeRead { db in
            let question = "SELECT count(*) FROM entries JOIN items ON items.key = entries.item WHERE items.kind = ?"
            return try Int64.fetchOne(db, sql: question, arguments: [ItemKind.file.rawValue]) ?? 0
        }
    }

    private static func number(_ name: String, _ db: Database) throws -> Int64 {
        try Int64.fetchOne(db, sql: "SELECT value FROM meta WHERE name = ?", arguments: [name]) ?? 0
    }

    private static func journalProblems(_ path: String, _ db: Database) throws -> [String] {
        guard try db.tableExists("meta") else { return [] }
        guard try FileSystem.exists(path) else { return ["the journal is missing"] }
        func number(_ name: String) throws -> UInt64 { UInt64(bitPattern: try Self.number(name, db)) }
        let journal = try IndexJournal(reading: path)
        let life = try number("life")
        if try number("begun") == life, try journal.isDamaged(after: number("journal"), of: life, looksThrough: false) {
            return ["the journal does not belong to this database; changes may be lost"]
        }
        return try journal.damage(after: number("journal"), of: number("life")).map { [$0] } ?? []
    }
}

extension IndexTransaction {
    /// Repairs what needs no further knowledge: it removes entries that lead nowhere. `strayRows` then returns the
    /// items that lost their entries.
    package func repairContradictions() throws {
        try renumberItems()
        for statement in Self.numberReadings + Self.readings + Self.structure { try execute(statement, []) }
        // These statements bypass the row cache.
        forgetRemembered()
        try repairLocalMarks(now: index.timekeeper.now())
        for statement in Self.linkRemovals + Self.fields { try execute(statement, []) }
        try renumberChanges()
        forgetRemembered()
    }

    /// Statements that make all rows readable, from the cloud's records or from other fields of the item. They skip the
    /// top folder: without it the index does not open.
    private static let readings = [
        // Requests a new snapshot of all the cloud's records.
        "INSERT OR REPLACE INTO meta SELECT 'inSnapshot', 1 FROM remote WHERE \(unreadableRecord) LIMIT 1",
        "DELETE FROM remote WHERE \(unreadableRecord)",
        "INSERT OR REPLACE INTO meta SELECT 'inSnapshot', 1 FROM conflicts WHERE \(unreadableConflict) LIMIT 1",
        "DELETE FROM conflicts WHERE \(unreadableConflict)",
        "DELETE FROM versionActions WHERE \(unreadableAction)",
        """
        UPDATE items SET kind = (SELECT remote.kind FROM remote WHERE remote.id = items.id)
        WHERE key > 1 AND \(unreadableKind) AND EXISTS (SELECT 1 FROM remote WHERE remote.id = items.id)
        """,
        // An item such as a socket, with no copy elsewhere and no content, holds nothing worth keeping.
        """
        DELETE FROM items WHERE key > 1 AND \(unreadableKind) AND content IS NULL AND link IS NULL AND version IS NULL
        AND NOT EXISTS (SELECT 1 FROM entries WHERE item = key AND directory)
        """,
        """
        UPDATE items SET kind = CASE
            WHEN content IS NOT NULL THEN 1
            WHEN EXISTS (SELECT 1 FROM entries WHERE item = key AND directory) THEN 2
            WHEN EXISTS (SELECT 1 FROM items AS linked WHERE linked.id = items.link) THEN 4
            WHEN link IS NOT NULL THEN 3 ELSE 1 END
        WHERE key > 1 AND \(unreadableKind)
        """,
        // The state of a content is unknown, so it is downloaded again from the cloud. This excludes contents that were
        // changed here or exist only here.
        """
        UPDATE items SET content = NULL, contentState = 0
        WHERE \(unreadableState) AND dirty & 32 = 0 AND flags & 5 = 0 AND version IS NOT NULL
        """,
        "UPDATE items SET contentState = 2 WHERE \(unreadableState)",
        """
        UPDATE items SET id = (\(recordAtPlace)) WHERE key > 1 AND \(unreadableID) AND \(isAtCloud)
        AND EXISTS (\(recordAtPlace))
        """,
    ] + linkReadings + [
        // Content that is here is uploaded as a new item; other content comes from the cloud again.
        "DELETE FROM items WHERE key > 1 AND \(unreadableID) AND (dirty & 64 OR kind = 1 AND contentState <> 2)",
        """
        UPDATE items SET id = randomblob(16), version = NULL, nextVersion = NULL, dirtyBase = 0,
            dirty = CASE WHEN flags & 4 OR kind > 4 THEN 0 WHEN kind = 1 THEN 33 ELSE 1 END
        WHERE key > 1 AND \(unreadableID)
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

    private static let structure = markRepairs + [
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
        "UPDATE OR IGNORE entries SET name = CAST(name AS BLOB) WHERE \(unreadableName)",
        "DELETE FROM entries WHERE \(unreadableName)",
        "UPDATE items SET dirty = dirty & 127 WHERE \(unknownChange)",
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
    ] + linkRepairs

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
}
