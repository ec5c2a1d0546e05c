package import UbiquityCore

/// Repairs of `ubiquity doctor` for wrong flags of items. An item wrongly excluded from sync is the worst: its changes
/// never leave the device, and nothing shows them as pending.
package struct MarkRepair: TransactionPart {
    let transaction: IndexTransaction

    static let markRepairs = [
        // A placed item has the version of its record. Content changed here may start from an earlier version. It then
        // gets no version, and conflicts with the cloud's.
        """
        UPDATE items SET version = (
            SELECT remote.version FROM remote WHERE remote.id = items.id AND remote.deleted = 0
            AND remote.unsettled = 0 AND NOT \(Fault.isNoID("remote.version"))
            AND (items.dirty & 32 = 0 OR items.contentState <> 2))
        WHERE version IS NOT NULL AND \(Fault.isNoID("version"))
        OR version IS NULL AND kind = 1 AND contentState <> 2 AND flags & 4 = 0
        """,
        "UPDATE items SET nextVersion = NULL WHERE nextVersion IS NOT NULL AND \(Fault.isNoID("nextVersion"))",
        "UPDATE items SET flags = flags & \(Fault.knownFlags) WHERE flags & ~\(Fault.knownFlags)",
        "UPDATE items SET flags = flags & ~36 WHERE key = 1",
        "UPDATE items SET flags = flags & ~4 WHERE \(Fault.wronglyLocal)",
        "UPDATE items SET flags = flags & ~32 WHERE \(Fault.wronglyLingering)",
        "UPDATE items SET flags = flags & ~128 WHERE \(Fault.wronglyFresh)",
    ]

    /// Returns items that are excluded without a reason.
    package func wronglyKeptLocal() throws -> [ItemKey] {
        try localRowsFromTheTop().filter { try !isRightlyLocal($0) }.map(\.key)
    }

    /// Uploads items that nothing excludes, and clears the changes of those that are rightly excluded. A folder comes
    /// before its members.
    func repairLocalMarks(now: Timestamp) throws {
        for local in try localRowsFromTheTop() {
            guard var row = try transaction.row(key: local.key) else { continue }
            let before = row
            if try isRightlyLocal(row) {
                row.dirty = []
            } else if row.dirty.isEmpty {
                try exclusion.include(&row, now: now)
            } else {
                row.flags.remove(.excluded)
            }
            if row != before { try transaction.update(row, before: before) }
        }
        try keepLocalBelow()
    }

    private func localRowsFromTheTop() throws -> [ItemRow] {
        let local = try reader.rows(RowCoding.select("items.flags & 4 AND items.key > 1"), [])
        return try local.map { ($0, try items.path(of: $0.key)?.count ?? 0) }.sorted { $0.1 < $1.1 }.map(\.0)
    }

    /// Returns whether an item is excluded for a reason, including a folder above that may have lost its own flag.
    private func isRightlyLocal(_ row: ItemRow) throws -> Bool {
        guard !row.isDeleted else { return false }
        if row.kind == .hardLink, try items.named(row)?.isExcluded ?? false { return true }
        return try isIgnoredByAny(row)
    }

    /// Returns whether a rule excludes the item, or a folder above it that the cloud does not have. True if the rules
    /// are unknown.
    private func isIgnoredByAny(_ row: ItemRow) throws -> Bool {
        guard try hasKnownRules(row) else { return true }
        var item = row
        while let entry = item.entry, let folder = try transaction.row(key: entry.parent) {
            if try exclusion.keepsLocal(entry.name, item.kind, in: folder) { return true }
            guard try reader.remotes.remote(id: folder.id).map(\.isDeleted) ?? true else { return false }
            item = folder
        }
        return false
    }

    /// Returns false if the item has no path to compare, or lies below an ignore file that was not read.
    private func hasKnownRules(_ row: ItemRow) throws -> Bool {
        guard try items.path(of: row.key) != nil else { return false }
        var item = row
        while let entry = item.entry, let folder = try transaction.row(key: entry.parent) {
            if index.ignoreFiles[folder.key] == nil,
                try transaction.child(of: folder.key, named: IgnoreRules.fileName) != nil
            {
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
                AND (version IS NOT NULL OR \(Fault.isSettledThere)))
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
        try transaction.update(next, before: row)
        transaction.note(.attributes, before: row, after: next)
    }
}
