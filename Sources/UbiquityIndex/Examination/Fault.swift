internal import UbiquityCore

/// SQL conditions of rows that contradict the format of the index.
enum Fault {
    /// The cloud has the item, and its record is placed in the local tree.
    static let isSettledThere = """
        EXISTS (SELECT 1 FROM remote WHERE remote.id = items.id AND remote.deleted = 0 AND remote.unsettled = 0)
        """

    /// An item that leaves sync, or was never in it, has a new identity and no version.
    static let wronglyLocal = "flags & 4 AND key > 1 AND (version IS NOT NULL OR \(isSettledThere))"

    /// Only a folder lingers, for the items left in it.
    static let wronglyLingering = "flags & 32 AND (kind <> 2 OR key = 1 OR \(isSettledThere))"

    static let knownFlags = 4095

    /// Marked as truncated by a program that writes it, but no program writes it.
    static let wronglyFresh = "flags & 129 = 128"

    static let integers = [
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
    static let rules: [(String, String)] = [
        ("no top folder", "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM items WHERE key = 1 AND ino = 1 AND kind = 2)"),
        ("the top folder has an entry", "SELECT item FROM entries WHERE item = 1"),
        ("the top folder is dirty", "SELECT key FROM items WHERE key = 1 AND dirty <> 0"),
        ("an unreadable item", "SELECT key FROM items WHERE \(unreadableItem)"),
        ("a field that is not a number", "SELECT key FROM items WHERE \(unreadableNumber)"),
        ("an impossible key or inode number", "SELECT key FROM items WHERE \(impossibleKey) OR \(impossibleInode)"),
        ("the top folder has another id", "SELECT key FROM items WHERE \(wrongTopFolder)"),
        ("an invalid version id", "SELECT key FROM items WHERE \(unreadableVersion)"),
        ("an unreadable record", "SELECT rowid FROM remote WHERE \(unreadableRecord)"),
        ("an unreadable conflict version", "SELECT 1 FROM conflicts WHERE \(unreadableConflict)"),
        ("an unreadable decision about a version", "SELECT number FROM versionActions WHERE \(unreadableAction)"),
        ("a change without a position in the order", "SELECT key FROM items WHERE dirty <> 0 AND dirtyOrder < 1"),
        ("an impossible position in the feed", "SELECT value FROM meta WHERE name = 'revision' AND value < 0"),
        ("a change with an impossible base revision", "SELECT key FROM items WHERE dirtyBase < 0"),
        ("a change with unknown fields", "SELECT key FROM items WHERE \(unknownChange)"),
        ("an unreadable name", "SELECT item FROM entries WHERE \(unreadableName)"),
        ("an entry without item", "SELECT item FROM entries WHERE item NOT IN (SELECT key FROM items)"),
        ("an item with several entries", "SELECT item FROM entries GROUP BY item HAVING count(*) > 1"),
        (
            "an entry in an item that is not a folder",
            "SELECT item FROM entries WHERE parent NOT IN (SELECT key FROM items WHERE kind = 2 AND dirty & 64 = 0)"
        ),
        ("a deleted item with an entry", "SELECT key FROM items JOIN entries ON item = key WHERE dirty & 64"),
        (
            "an entry whose kind differs from its item's",
            "SELECT item FROM entries JOIN items ON key = item WHERE directory <> (kind = 2)"
        ),
        // A displaced folder may lack an entry for a moment. The items below it do not form a cycle.
        (
            "a cycle of folders",
            """
            WITH RECURSIVE tree(key) AS (
                SELECT key FROM items WHERE key NOT IN (SELECT item FROM entries)
                UNION SELECT item FROM entries JOIN tree ON parent = tree.key)
            SELECT item FROM entries WHERE item NOT IN tree
            """
        ),
        ("an inode shared by two items", "SELECT max(key) FROM items GROUP BY ino HAVING count(*) > 1"),
        (
            "a content shared by two items",
            "SELECT max(key) FROM items WHERE content IS NOT NULL GROUP BY content HAVING count(*) > 1"
        ),
        (
            "a content in an item that is not a file",
            "SELECT key FROM items WHERE kind <> 1 AND (content IS NOT NULL OR contentState <> 0)"
        ),
        (
            "a hard link without a target",
            """
            SELECT key FROM items JOIN entries ON item = key WHERE kind = 4 AND NOT EXISTS (
                SELECT 1 FROM items AS linked WHERE linked.id = items.link AND linked.dirty & 64 = 0
                AND linked.kind NOT IN (2, 4))
            """
        ),
        (
            "hard links to an item not marked as linked",
            """
            SELECT linked.key FROM items AS linked JOIN items AS link ON link.kind = 4 AND link.link = linked.id
            JOIN entries ON item = link.key WHERE linked.flags & 512 = 0
            """
        ),
        (
            "a synced hard link to an excluded item",
            """
            SELECT link.key FROM items AS link JOIN items AS linked ON link.kind = 4 AND link.link = linked.id
            JOIN entries ON item = link.key WHERE link.flags & 4 = 0 AND linked.flags & 4
            """
        ),
        (
            "a content state that contradicts the content",
            "SELECT key FROM items WHERE (contentState = 0) <> (content IS NULL)"
        ),
        (
            "a placeholder without a version",
            "SELECT key FROM items WHERE kind = 1 AND contentState <> 2 AND version IS NULL AND dirty & 64 = 0"
        ),
        ("a changed content that is not here", "SELECT key FROM items WHERE dirty & 96 = 32 AND contentState <> 2"),
        (
            "two changes with the same position in the order",
            "SELECT max(key) FROM items WHERE dirty <> 0 GROUP BY dirtyOrder HAVING count(*) > 1"
        ),
        ("an excluded item with changes", "SELECT key FROM items WHERE flags & 4 AND dirty <> 0"),
        ("the top folder is excluded from sync", "SELECT key FROM items WHERE key = 1 AND flags & 36"),
        ("an excluded item that is synced", "SELECT key FROM items WHERE \(wronglyLocal)"),
        ("an item wrongly marked as deleted elsewhere", "SELECT key FROM items WHERE \(wronglyLingering)"),
        ("an unknown flag", "SELECT key FROM items WHERE flags & ~\(knownFlags)"),
        ("an item marked as truncated without a writer", "SELECT key FROM items WHERE \(wronglyFresh)"),
        (
            "a synced item in an excluded folder",
            """
            SELECT item FROM entries JOIN items AS folder ON folder.key = parent JOIN items AS child ON child.key = item
            WHERE folder.flags & 4 AND child.flags & 4 = 0
            """
        ),
        (
            "an excluded file without local content",
            "SELECT key FROM items WHERE flags & 4 AND kind = 1 AND contentState <> 2"
        ),
        (
            "a number in use that is not reserved",
            """
            SELECT key FROM items
            WHERE max(key, ino & ~(1 << \(ItemIndex.versionNumberBit)), ifnull(content, 0), dirtyOrder)
            >= (SELECT value FROM meta WHERE name = 'numbers')
            """
        ),
    ]
}
