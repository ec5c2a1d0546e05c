package import UbiquityCore

// `ubiquity doctor`: marks of items that say the wrong thing. One that is kept local without a reason is the worst of
// them: what is changed in it never leaves the device, and nothing waits.

extension IndexReader {
    /// The cloud has the item, and this device has shown it.
    static let isSettledThere = """
        EXISTS (SELECT 1 FROM remote WHERE remote.id = items.id AND remote.deleted = 0 AND remote.unsettled = 0)
        """
    /// What goes out of sync, or has never been in it, has an identity of its own and is of no version.
    static let wronglyLocal = "flags & 4 AND key > 1 AND (version IS NOT NULL OR \(isSettledThere))"
    /// Only a folder stays for what is in it.
    static let wronglyLingering = "flags & 32 AND (kind <> 2 OR key = 1 OR \(isSettledThere))"
    static let knownFlags = 4095
    /// Begun anew by a program that has it open, but none has.
    static let wronglyFresh = "flags & 129 = 128"
}

extension IndexTransaction {
    static let markRepairs = [
        // What is shown here is of the version that the record tells of. What was changed here may be made from one
        // before: it is of none then, and in conflict with what is there.
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

    /// Items that are kept local for no reason.
    package func wronglyKeptLocal() throws -> [ItemKey] {
        try localRowsFromTheTop().filter { try !isRightlyLocal($0) }.map(\.key)
    }

    /// What nothing keeps local goes up; of what is rightly local nothing does. A folder comes before what is in it.
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

    /// Also by a folder above, which may have lost its own mark.
    private func isRightlyLocal(_ row: ItemRow) throws -> Bool {
        guard !row.isDeleted else { return false }
        if row.kind == .hardLink, try named(row)?.isExcluded ?? false { return true }
        return try isIgnoredByAny(row)
    }

    /// Whether a rule keeps it, or a folder above it that the cloud does not have, on this device; or nobody can tell.
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

    /// Not those of what has no path to compare, or lies below a file of rules that was not read.
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

    /// What lies in a folder that is kept local is so too; what the cloud has of it has its place elsewhere.
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

    /// Whether an item that the cloud does not have was kept local, or lies in what was, and has lost its mark: what an
    /// ignore rule keeps here must not go up.
    package func wasKeptLocal(_ row: ItemRow) throws -> Bool {
        guard row.entry != nil, row.version == nil, row.flags.isDisjoint(with: [.creationSent, .lingering]) else {
            return false
        }
        return try isIgnoredByAny(row)
    }

    /// Gives it that mark again.
    package func keepLocal(_ row: ItemRow) throws {
        var next = row
        next.flags.insert(.excluded)
        next.dirty = []
        try update(next, before: row)
        note(.attributes, before: row, after: next)
    }
}

// Names of a file: links that lead to its id.
extension IndexTransaction {
    /// A link to nothing leads where its record says; an item that has lost its id, and a link that does not know where
    /// it leads, stand for each other if there is one of each.
    static let linkReadings = [
        """
        UPDATE items SET id = (\(danglingTargets))
        WHERE key > 1 AND \(unreadableID) AND flags & 512 AND (SELECT count(*) FROM (\(danglingTargets))) = 1
        AND (SELECT count(*) FROM items AS other WHERE \(isNoID("other.id")) AND other.flags & 512) = 1
        """
    ]

    static let linkRepairs = [
        // An id that is not the one it should be: what the cloud has at its place is it.
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

    /// A name that leads nowhere, or from what is synced to what is not, has nothing to keep.
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
