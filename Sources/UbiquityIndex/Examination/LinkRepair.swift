/// Statements that repair hard links, which refer to a file by its id.
enum LinkRepair {
    /// A dangling link gets its target from its record. If exactly one item has lost its id and exactly one target id
    /// is missing, the two are matched.
    static let linkReadings = [
        """
        UPDATE items SET id = (\(danglingTargets))
        WHERE key > 1 AND \(Fault.unreadableID) AND flags & 512 AND (SELECT count(*) FROM (\(danglingTargets))) = 1
        AND (SELECT count(*) FROM items AS other WHERE \(Fault.isNoID("other.id")) AND other.flags & 512) = 1
        """
    ]

    static let linkRepairs = [
        // An item with a wrong id gets the id of the cloud's record at its place.
        """
        UPDATE items SET id = (\(IndexRepair.recordAtPlace)) WHERE key > 1 AND dirty = 0 AND flags & 36 = 0
        AND NOT EXISTS (SELECT 1 FROM remote WHERE remote.id = items.id) AND EXISTS (\(IndexRepair.recordAtPlace))
        """,
        """
        UPDATE items SET link = (SELECT remote.link FROM remote WHERE remote.id = items.id)
        WHERE kind = 4 AND EXISTS (
            SELECT 1 FROM remote JOIN items AS linked ON linked.id = remote.link AND linked.kind NOT IN (2, 4)
            WHERE remote.id = items.id AND remote.kind = 4 AND remote.deleted = 0
            AND remote.link IS NOT items.link)
        """,
    ]

    /// A link without a target, or from synced items to excluded ones, holds nothing worth keeping.
    static let linkRemovals = [
        """
        UPDATE items SET flags = flags | 4, dirty = 0 WHERE kind = 4 AND flags & 4 = 0 AND NOT \(Fault.isSettledThere)
        AND EXISTS (SELECT 1 FROM items AS linked WHERE linked.id = items.link AND linked.flags & 4)
        """,
        "DELETE FROM entries WHERE item IN (SELECT key FROM items WHERE \(leadsNowhere))",
        "DELETE FROM items WHERE \(leadsNowhere) AND NOT dirty & 64",
    ]

    private static let leadsNowhere = """
        (kind = 4 AND NOT EXISTS (
            SELECT 1 FROM items AS linked WHERE linked.id = items.link AND linked.dirty & 64 = 0
            AND linked.kind NOT IN (2, 4) AND (linked.flags & 4 = 0 OR items.flags & 4)))
        """

    private static let danglingTargets = """
        SELECT DISTINCT link.link FROM items AS link JOIN entries ON item = link.key WHERE link.kind = 4
        AND NOT EXISTS (SELECT 1 FROM items AS linked WHERE linked.id = link.link)
        """
}
