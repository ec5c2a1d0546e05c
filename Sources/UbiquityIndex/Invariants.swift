internal import UbiquityCore

extension ItemIndex {
    /// Checks the invariants that hold after every transaction, including those of the cache. Call it while nothing
    /// writes.
    ///
    /// - Throws: `.damaged` with the violated invariants.
    package func check() throws {
        try read { try $0.checkInvariants() }
        for row in cache.all where try read({ try $0.row(ino: row.ino) }) != row {
            throw UbiquityError(.damaged, "what is remembered of \(row.key) is not what the index has")
        }
        try checkNames()
    }

    private func checkNames() throws {
        let (items, whole) = cache.allNames
        let entries = try read { try $0.allEntries() }
        for (entry, item) in items where entries[entry] != item {
            throw UbiquityError(.damaged, "who is remembered to have the name \(entry) does not have it")
        }
        for (entry, item) in entries where whole.contains(entry.parent) && items[entry] != .some(item) {
            throw UbiquityError(.damaged, "\(item) is in a folder of which all names are remembered, but its own")
        }
    }
}

extension IndexReader {
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
    fileprivate func allEntries() throws -> [ItemRow.Entry: ItemKey] {
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
        for (rule, sql) in Self.rules {
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
        let folders = try foldersOfWrongSums()
        guard !folders.isEmpty else { return nil }
        return "totals of a folder that are not those of the items in it: \(folders.prefix(Self.examplesPerRule))"
    }

    func hasUnreadableRows() throws -> Bool {
        var found = false
        let rules = [
            ("items", Self.unreadableItem), ("remote", Self.unreadableRecord), ("conflicts", Self.unreadableConflict),
            ("versionActions", Self.unreadableAction),
        ]
        for (table, rule) in rules {
            try db.run("SELECT 1 FROM \(table) WHERE \(rule) LIMIT 1", []) { _ in found = true }
        }
        return found
    }

    private static let examplesPerRule = 5

    /// Values that `RowCoding` cannot decode: reading the row, or its folder, fails.
    static let unreadableItem = "\(unreadableID) OR \(unreadableKind) OR \(unreadableState)"
    static let unreadableID = isNoID("id")
    static let unreadableKind = "kind NOT IN (1, 2, 3, 4, 5, 6, 7, 8)"
    static let unreadableState = "contentState NOT IN (0, 1, 2)"
    static let unreadableRecord = "\(unreadableID) OR \(unreadableKind) OR \(isNoID("parent")) OR \(unreadableName)"
    /// SQLite never compares text equal to a blob, so such an entry cannot be found.
    static let unreadableName = "typeof(name) <> 'blob'"
    static let unreadableVersion = """
        (version IS NOT NULL AND \(isNoID("version")) OR nextVersion IS NOT NULL AND \(isNoID("nextVersion")))
        """
    static let unknownChange = "dirty & ~127"
    static let unreadableConflict = "\(unreadableID) OR \(isNoID("item")) OR \(isNoID("device"))"
    static let unreadableAction = "\(isNoID("item")) OR \(isNoID("version")) OR action NOT IN (1, 2, 3)"
    static func isNoID(_ column: String) -> String {
        "(typeof(\(column)) <> 'blob' OR length(\(column)) <> 16)"
    }

    /// Queries for the items (by key) that violate a rule.
    private static let rules: [(String, String)] = [
        ("no top folder", "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM items WHERE key = 1 AND ino = 1 AND kind = 2)"),
        ("the top folder has an entry", "SELECT item FROM entries WHERE item = 1"),
        ("the top folder is dirty", "SELECT key FROM items WHERE key = 1 AND dirty <> 0"),
        ("an item that cannot be read", "SELECT key FROM items WHERE \(unreadableItem)"),
        ("a field that is no number", "SELECT key FROM items WHERE \(unreadableNumber)"),
        ("a number that cannot be one", "SELECT key FROM items WHERE \(impossibleKey) OR \(impossibleInode)"),
        ("the top folder has another id", "SELECT key FROM items WHERE \(wrongTopFolder)"),
        ("a version that is none", "SELECT key FROM items WHERE \(unreadableVersion)"),
        ("a record that cannot be read", "SELECT rowid FROM remote WHERE \(unreadableRecord)"),
        ("a version in conflict that cannot be read", "SELECT 1 FROM conflicts WHERE \(unreadableConflict)"),
        ("a decision that cannot be read", "SELECT number FROM versionActions WHERE \(unreadableAction)"),
        ("a change without a place in the order", "SELECT key FROM items WHERE dirty <> 0 AND dirtyOrder < 1"),
        ("a place in the feed that cannot be", "SELECT value FROM meta WHERE name = 'revision' AND value < 0"),
        ("a change of a state that cannot be", "SELECT key FROM items WHERE dirtyBase < 0"),
        ("a change of what is unknown", "SELECT key FROM items WHERE \(unknownChange)"),
        ("a name that cannot be read", "SELECT item FROM entries WHERE \(unreadableName)"),
        ("an entry without item", "SELECT item FROM entries WHERE item NOT IN (SELECT key FROM items)"),
        ("more than one entry", "SELECT item FROM entries GROUP BY item HAVING count(*) > 1"),
        (
            "an entry in what is no folder",
            "SELECT item FROM entries WHERE parent NOT IN (SELECT key FROM items WHERE kind = 2 AND dirty & 64 = 0)"
        ),
        ("a deleted item with an entry", "SELECT key FROM items JOIN entries ON item = key WHERE dirty & 64"),
        (
            "an entry of another kind than its item",
            "SELECT item FROM entries JOIN items ON key = item WHERE directory <> (kind = 2)"
        ),
        // A displaced folder may lack an entry for a moment. The items below it do not form a cycle.
        (
            "a circle of folders",
            """
            WITH RECURSIVE tree(key) AS (
                SELECT key FROM items WHERE key NOT IN (SELECT item FROM entries)
                UNION SELECT item FROM entries JOIN tree ON parent = tree.key)
            SELECT item FROM entries WHERE item NOT IN tree
            """
        ),
        ("an inode of two items", "SELECT max(key) FROM items GROUP BY ino HAVING count(*) > 1"),
        (
            "content of two items",
            "SELECT max(key) FROM items WHERE content IS NOT NULL GROUP BY content HAVING count(*) > 1"
        ),
        (
            "content in what is no file",
            "SELECT key FROM items WHERE kind <> 1 AND (content IS NOT NULL OR contentState <> 0)"
        ),
        (
            "a link to nothing",
            """
            SELECT key FROM items JOIN entries ON item = key WHERE kind = 4 AND NOT EXISTS (
                SELECT 1 FROM items AS linked WHERE linked.id = items.link AND linked.dirty & 64 = 0
                AND linked.kind NOT IN (2, 4))
            """
        ),
        (
            "more names than are marked",
            """
            SELECT linked.key FROM items AS linked JOIN items AS link ON link.kind = 4 AND link.link = linked.id
            JOIN entries ON item = link.key WHERE linked.flags & 512 = 0
            """
        ),
        (
            "a synced link to what is kept local",
            """
            SELECT link.key FROM items AS link JOIN items AS linked ON link.kind = 4 AND link.link = linked.id
            JOIN entries ON item = link.key WHERE link.flags & 4 = 0 AND linked.flags & 4
            """
        ),
        ("content state without content", "SELECT key FROM items WHERE (contentState = 0) <> (content IS NULL)"),
        (
            "a placeholder of no version",
            "SELECT key FROM items WHERE kind = 1 AND contentState <> 2 AND version IS NULL AND dirty & 64 = 0"
        ),
        ("changed content that is not here", "SELECT key FROM items WHERE dirty & 96 = 32 AND contentState <> 2"),
        (
            "two changes with one place in the order",
            "SELECT max(key) FROM items WHERE dirty <> 0 GROUP BY dirtyOrder HAVING count(*) > 1"
        ),
        ("excluded and dirty", "SELECT key FROM items WHERE flags & 4 AND dirty <> 0"),
        ("the top folder is kept local", "SELECT key FROM items WHERE key = 1 AND flags & 36"),
        ("kept local, and synced", "SELECT key FROM items WHERE \(wronglyLocal)"),
        ("what was not deleted elsewhere and says so", "SELECT key FROM items WHERE \(wronglyLingering)"),
        ("a flag of what is unknown", "SELECT key FROM items WHERE flags & ~\(knownFlags)"),
        ("begun anew by nobody", "SELECT key FROM items WHERE \(wronglyFresh)"),
        (
            "synced below what is not",
            """
            SELECT item FROM entries JOIN items AS folder ON folder.key = parent JOIN items AS child ON child.key = item
            WHERE folder.flags & 4 AND child.flags & 4 = 0
            """
        ),
        (
            "kept local without being here",
            "SELECT key FROM items WHERE flags & 4 AND kind = 1 AND contentState <> 2"
        ),
        (
            "a number that is not written down as used",
            """
            SELECT key FROM items
            WHERE max(key, ino & ~(1 << \(ItemIndex.versionNumberBit)), ifnull(content, 0), dirtyOrder)
            >= (SELECT value FROM meta WHERE name = 'numbers')
            """
        ),
    ]
}
