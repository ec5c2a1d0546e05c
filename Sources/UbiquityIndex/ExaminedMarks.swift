package import UbiquityCore

// `ubiquity doctor`: wrong flags of items. An item wrongly excluded from sync is the worst: its changes never leave the
// device, and nothing shows them as pending.

extension IndexReader {
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
}

extension IndexTransaction {
    static let markRepairs = [
        // A placed item has the version of its record. Content changed here may start from an earlier version. It then
        // gets no version, and conflicts with the cloud's.
        """
        UPDATE items SET version = (
            SELECT remote.version FROM remote WHERE remote.id = items.id AND remote.deleted = 0
            AND remote.unsettled = 0 AND NOT \(isNoID("remote.version"))
            AND (items.dirty & 32 = 0 OR items.contentState <> 2))
        WHERE version IS NOT NULL AND \(isNoID("version"))
        OR version IS NULL AND kind = 1 AND contentState <> 2 AND flags & 4 = 0
        """,
        "UPDATE items SET nextVersion = NULL WHERE nextVersion IS NOT NULL AND \(isNoID("nextVersion"))",
        "UPDATE items SET flags = flags & \(knownFlags) WHERE flags & ~\(knownFlags)",
        "UPDATE items SET flags = flags & ~36 WHERE key = 1",
        "UPDATE items SET flags = flags & ~4 WHERE \(wronglyLocal)",
        "UPDATE items SET flags = flags & ~32 WHERE \(wronglyLingering)",
        "UPDATE items SET flags = flags & ~128 WHERE \(wronglyFresh)",
    ]

    /// Returns items that are excluded without a reason.
    package func wronglyKeptLocal() throws -> [ItemKey] {
        try localRowsFromTheTop().filter { try !isRightlyLocal($0) }.map(\.key)
    }

    /// Uploads items that nothing excludes, and clears the changes of those that are rightly excluded. A folder comes
    /// before its members.
    func repairLocalMarks(now: Timestamp) throws {
        for local in try localRowsFromTheTop() {
            guard var row = try row(key: local.key) else { continue }
            let before = row
            if try isRightlyLocal(row) {
                row.dirty = []
            } else if row.dirty.isEmpty {
                try include(&row, now: now)
            } else {
                row.flags.remove(.excluded)
            }
            if row != before { try update(row, before: before) }
        }
        try keepLocalBelow()
    }

    private func localRowsFromTheTop() throws -> [ItemRow] {
        let local = try rows(RowCoding.select("items.flags & 4 AND items.key > 1"), [])
        return try local.map { ($0, try path(of: $0.key)?.count ?? 0) }.sorted { $0.1 < $1.1 }.map(\.0)
    }

    /// Returns whether an item is excluded for a reason, including a folder above that may have lost its own flag.
    private func isRightlyLocal(_ row: ItemRow) throws -> Bool {
        guard !row.isDeleted else { return false }
        if row.kind == .hardLink, try named(row)?.isExcluded ?? false { return true }
        return try isIgnoredByAny(row)
    }

    /// Returns whether a rule excludes the item, or a folder above it that the cloud does not have. True if the rules
    /// are unknown.
    private func isIgnoredByAny(_ row: ItemRow) throws -> Bool {
        guard try hasKnownRules(row) else { return true }
        var item = row
        while let entry = item.entry, let folder = try self.row(key: entry.parent) {
            if try keepsLocal(entry.name, item.kind, in: folder) { return true }
            guard try remote(id: folder.id).map(\.isDeleted) ?? true else { return false }
            item = folder
        }
        return false
    }

    /// Returns false if the item has no path to compare, or lies below an ignore file that was not read.
    private func hasKnownRules(_ row: ItemRow) throws -> Bool {
        guard try path(of: row.key) != nil else { return false }
        var item = row
        while let entry = item.entry, let folder = try self.row(key: entry.parent) {
            if index.ignoreFiles[folder.key] == nil, try child(of: folder.key, named: IgnoreRules.fileName) != nil {
                return false
            }
            item = folder
        }
        return true
    }

    /// Excludes everything in an excluded folder. Items the cloud has lose their entry here and are placed elsewhere.
    private func keepLocalBelow() throws {
        let below = """
            WITH RECURSIVE down(key) AS (
                SELECT key FROM items WHERE flags & 4 AND kind = 2
                UNION SELECT item FROM entries JOIN down ON parent = down.key)
            """
        try execute(
            """
            \(below) DELETE FROM entries WHERE item IN (
                SELECT key FROM items WHERE key IN down AND flags & 4 = 0
                AND (version IS NOT NULL OR \(Self.isSettledThere)))
            """, [])
        try execute("\(below) UPDATE items SET flags = flags | 4, dirty = 0 WHERE key IN down AND flags & 4 = 0", [])
    }

    /// Returns whether an item unknown to the cloud was excluded, or lies in an excluded folder, and has lost its flag.
    /// Ignored items must not be uploaded.
    package func wasKeptLocal(_ row: ItemRow) throws -> Bool {
        guard row.entry != nil, row.version == nil, row.flags.isDisjoint(with: [.creationSent, .lingering]) else {
            return false
        }
        return try isIgnoredByAny(row)
    }

    /// Restores the item's excluded flag.
    package func keepLocal(_ row: ItemRow) throws {
        var next = row
        next.flags.insert(.excluded)
        next.dirty = []
        try update(next, before: row)
        note(.attributes, before: row, after: next)
    }
}

// Hard links, which refer to a file by its id.
extension IndexTransaction {
    /// A dangling link gets its target from its record. If exactly one item has lost its id and exactly one target id
    /// is missing, the two are matched.
    static let linkReadings = [
        """
        UPDATE items SET id = (\(danglingTargets))
        WHERE key > 1 AND \(unreadableID) AND flags & 512 AND (SELECT count(*) FROM (\(danglingTargets))) = 1
        AND (SELECT count(*) FROM items AS other WHERE \(isNoID("other.id")) AND other.flags & 512) = 1
        """
    ]

    static let linkRepairs = [
        // An item with a wrong id gets the id of the cloud's record at its place.
        """
        UPDATE items SET id = (\(recordAtPlace)) WHERE key > 1 AND dirty = 0 AND flags & 36 = 0
        AND NOT EXISTS (SELECT 1 FROM remote WHERE remote.id = items.id) AND EXISTS (\(recordAtPlace))
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
        UPDATE items SET flags = flags | 4, dirty = 0 WHERE kind = 4 AND flags & 4 = 0 AND NOT \(isSettledThere)
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
