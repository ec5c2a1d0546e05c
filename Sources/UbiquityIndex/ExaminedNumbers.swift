internal import UbiquityCore

// `ubiquity doctor`: fields that should be numbers and are not, or have impossible values.

extension IndexReader {
    private static let integers = [
        "ino", "mode", "uid", "gid", "size", "created", "modified", "changed", "flags", "dirty", "dirtyOrder",
        "dirtyBase", "dirtyAt", "generation", "used",
    ]

    /// Matches rows with a field that readers expect to be a number.
    static let unreadableNumber = integers.map { "typeof(\($0)) <> 'integer'" }.joined(separator: " OR ")
    /// Keys are numbers of the reserve. Inodes are too, with one more bit.
    static let impossibleKey = "key NOT BETWEEN 1 AND \((Int64(1) << ItemIndex.versionNumberBit) - 1)"
    static let impossibleInode = """
        (typeof(ino) <> 'integer' OR ino NOT BETWEEN 1 AND \((Int64(1) << (ItemIndex.versionNumberBit + 1)) - 1))
        """
    static let wrongTopFolder = "key = 1 AND id <> zeroblob(16)"

    /// If the dirty flags are unreadable, a complete file counts as changed in content.
    static let numberReadings =
        [
            "UPDATE OR IGNORE items SET id = zeroblob(16) WHERE \(wrongTopFolder)",
            """
            UPDATE items SET dirty = CASE WHEN kind = 1 AND contentState = 2 THEN 40 ELSE 0 END
            WHERE typeof(dirty) <> 'integer'
            """,
        ]
        + integers.map { "UPDATE items SET \($0) = CAST(\($0) AS INTEGER) WHERE typeof(\($0)) <> 'integer'" }
}

extension IndexTransaction {
    /// Gives items with an impossible key or inode new ones. `strayRows` returns the items that lose their entry by
    /// this.
    func renumberItems() throws {
        for key in try keys("SELECT key FROM items WHERE \(Self.impossibleInode) AND key <> 1") {
            try execute("UPDATE items SET ino = ? WHERE key = ?", [.int(newNumber()), SQLValue(key)])
        }
        for key in try keys("SELECT key FROM items WHERE \(Self.impossibleKey)") {
            try execute("UPDATE items SET key = ? WHERE key = ?", [.int(newNumber()), SQLValue(key)])
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
            try execute("UPDATE items SET dirtyOrder = ? WHERE key = ?", [.int(newNumber()), SQLValue(key)])
        }
        try execute(
            """
            UPDATE items SET dirtyOrder = 0 WHERE dirty = 0
            AND dirtyOrder >= (SELECT value FROM meta WHERE name = 'numbers')
            """, [])
    }

    private func keys(_ query: String) throws -> [ItemKey] {
        var keys = [ItemKey]()
        try db.run(query, []) { keys.append(ItemKey($0.int(0))) }
        return keys
    }
}
