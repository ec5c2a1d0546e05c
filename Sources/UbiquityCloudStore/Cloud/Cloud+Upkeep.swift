import GRDB
internal import Logging
internal import UbiquityCore
internal import UbiquitySystem

// The cloud's periodic upkeep: it mends damaged rows of the trees, empties the trash, drops old versions, and collects
// unreferenced chunks.
extension Cloud {
    /// Runs one round. Work that fails now is done in the next round.
    package func maintain() async throws {
        guard features.access(knowing: FormatFeatures.known) == .full else { return }
        let now = timekeeper.now()
        let trashExpiry = now.advanced(bySeconds: -keeping.trashSeconds)
        let historyExpiry = now.advanced(bySeconds: -keeping.historySeconds)
        _ = try await examineTrees()
        try await Purges(cloud: self).resume()
        try await links.maintain()
        while try await pool.run({ [self] in try forgetDeleted(before: trashExpiry) }) {}
        while try await pool.run({ [self] in try forgetVersions(before: historyExpiry) }) {}
        try await trying("remove the chunks of deleted accounts") { try $0.removeChunksOfDeletedAccounts() }
        for account in try await pool.run({ [self] in try accountNumbers() }) {
            try await trying("collect an account's chunks", account) { cloud in
                try ChunkCollection(cloud: cloud, account: account).run()
            }
        }
        try await pool.run { [self] in emptyLog() }
    }

    /// Logs a failure, so that one account's failure does not keep the upkeep from freeing the space of others.
    private func trying(
        _ what: String, _ account: Int64? = nil, _ body: @escaping @Sendable (Cloud) throws -> Void
    ) async throws {
        do { try await pool.run { [self] in try body(self) } } catch let error as UbiquityError
            where error.code == .cancelled
        {
            throw error
        } catch {
            try Task.checkCancellation()
            logger.warning(
                "cannot \(what)", metadata: ["account": "\(account.map { "\($0)" } ?? "any")", "reason": "\(error)"])
        }
    }

    func accountNumbers() throws -> [Int64] {
        try read { try Int64.fetchAll($0, sql: "SELECT number FROM accounts") }
    }

    /// Drops items deleted before `time`, the deepest first, one batch at a time. Keeps items with an undecided
    /// conflict. Queries name their index, as in `ContainerTables`.
    /// - Returns: whether there may be more.
    private func forgetDeleted(before time: Timestamp) throws -> Bool {
        try write { db in
            let rows = try Row.fetchAll(
                db,
                sql: """
                    SELECT \(ItemRows.columns), container,
                        (SELECT revision FROM containers WHERE number = items.container)
                    FROM items WHERE deleted IS NOT NULL AND deleted < ? AND conflicts = 0
                    AND NOT EXISTS (SELECT 1 FROM items AS child INDEXED BY itemsPlace
                        WHERE child.container = items.container
                        AND child.parent = items.id AND child.deleted IS NULL)
                    AND NOT EXISTS (SELECT 1 FROM items AS child INDEXED BY itemsDeletedIn
                        WHERE child.container = items.container
                        AND child.parent = items.id AND child.deleted IS NOT NULL)
                    LIMIT ?
                    """, arguments: [time.nanoseconds, CloudLimits.maintenanceBatch])
            // Whether a damaged row is a deleted item is unknown, so it stays.
            let deleted = rows.compactMap { row in
                ItemRows.record(row, upTo: Revision(row.number(ItemRows.columnCount + 1) ?? 0)).map { item in
                    (container: row.number(ItemRows.columnCount), item: item)
                }
            }
            for (container, item) in deleted {
                let arguments: StatementArguments = [container, Bytes(item.id.bytes)]
                try db.execute(sql: "DELETE FROM versions WHERE container = ? AND item = ?", arguments: arguments)
                try db.execute(sql: "DELETE FROM items WHERE container = ? AND id = ?", arguments: arguments)
                try db.execute(
                    sql: "UPDATE containers SET purged = max(purged, ?) WHERE number = ?",
                    arguments: [item.revision.number, container])
            }
            // Continue also after less than a batch: a parent folder may be droppable now.
            return !deleted.isEmpty
        }
    }

    /// Drops versions that were replaced or decided about before `time`. An unresolved conflict has no such time.
    private func forgetVersions(before time: Timestamp) throws -> Bool {
        try write { db in
            let rows = try Row.fetchAll(
                db,
                sql: """
                    SELECT container, id, item FROM versions
                    WHERE superseded IS NOT NULL AND superseded < ? AND role IN \(Self.expiring)
                    AND NOT \(Self.isAncestorOfConflict) LIMIT ?
                    """, arguments: [time.nanoseconds, CloudLimits.maintenanceBatch])
            for row in rows {
                let container = row.number(0), item = Bytes(row.bytes(2) ?? [])
                try db.execute(
                    sql: "DELETE FROM versions WHERE container = ? AND id = ?",
                    arguments: [container, Bytes(row.bytes(1) ?? [])])
                // Devices are not notified: they ask for the list when a user looks at it.
                try db.execute(
                    sql: """
                        UPDATE items SET history = 0 WHERE container = ? AND id = ? AND NOT EXISTS
                        (SELECT 1 FROM versions INDEXED BY versionsItem
                        WHERE container = ? AND item = ? AND role = 2 AND manifest IS NOT NULL)
                        """, arguments: [container, item, container, item])
            }
            return rows.count == CloudLimits.maintenanceBatch
        }
    }

    /// History and resolved conflicts.
    static let expiring = "(\(VersionRecord.Role.history.rawValue), \(VersionRecord.Role.resolved.rawValue))"

    /// Whether an open conflict of the item has this version as its ancestor. (Conflicts of older formats do not record
    /// one: then it is their base version.)
    static let isAncestorOfConflict = """
        EXISTS (SELECT 1 FROM versions AS open INDEXED BY versionsItem
            WHERE open.container = versions.container AND open.item = versions.item
            AND open.role = \(VersionRecord.Role.conflict.rawValue)
            AND coalesce(open.ancestor, open.base) = versions.id)
        """
}
