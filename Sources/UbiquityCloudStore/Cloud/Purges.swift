import GRDB
package import UbiquityCore
internal import UbiquitySystem
package import UbiquityWire

/// Purges: removes deleted items for ever, with all their versions, before their time is over.
///
/// A purge is a row in `purges` until it is finished. Each transaction removes a batch of items, the deepest first, and
/// the last one removes the row. So the upkeep continues a purge that was interrupted at any step.
///
/// The contents go with the next collection. `purgedChunks` names them, so that the collector does not wait for a day
/// (`ChunkCollection`).
package struct Purges: Sendable {
    let cloud: Cloud

    /// Purges one deleted item, and all items below it.
    /// - Throws: `.notFound` if there is none; `.busy` if the item is not deleted.
    package func purge(_ item: ItemID, in container: ContainerID, of account: String) async throws -> PurgedItems {
        try await begin(container, account) { db, number in
            let tables = ContainerTables(db: db, container: number)
            guard let record = try tables.item(item) else {
                throw UbiquityError(
                    .notFound, "there is no such deleted item", at: item.description,
                    remedy: "'ubiquity trash list' lists them")
            }
            guard !record.isLive else {
                throw UbiquityError(
                    .busy, "\"\(record.name)\" is not deleted", at: item.description, remedy: "delete it first")
            }
            return item
        }
    }

    /// Purges all items that are deleted now.
    package func emptyTrash(of container: ContainerID, of account: String) async throws -> PurgedItems {
        try await begin(container, account) { _, _ in nil }
    }

    private func begin(
        _ container: ContainerID, _ account: String,
        _ item: @escaping @Sendable (Database, Int64) throws -> ItemID?
    ) async throws -> PurgedItems {
        let purge = try await cloud.pool.run { [cloud] in
            let service = ContainerService(
                cloud: cloud, account: try cloud.account(named: account), container: container)
            return try cloud.write { db in
                let number = try service.required(db).number
                let item = try item(db, number)
                try db.execute(
                    sql: "INSERT INTO purges (container, item, before) VALUES (?, ?, ?)",
                    arguments: [number, item.map { Bytes($0.bytes) }, cloud.timekeeper.now().nanoseconds])
                return db.lastInsertedRowID
            }
        }
        return try await run(purge)
    }

    /// Finishes the purges that were interrupted.
    func resume() async throws {
        let purges = try await cloud.pool.run { [cloud] in
            try cloud.read { try Int64.fetchAll($0, sql: "SELECT number FROM purges ORDER BY number") }
        }
        for purge in purges { _ = try await run(purge) }
    }

    private func run(_ purge: Int64) async throws -> PurgedItems {
        var purged = PurgedItems(items: 0, versions: 0, secondsToCollection: CloudLimits.upkeepInterval)
        var isFinished = false
        while !isFinished {
            let step = try await cloud.pool.run { [cloud] in try cloud.write { try self.step(of: purge, $0) } }
            purged.items += step.items
            purged.versions += step.versions
            isFinished = step.isFinished
        }
        try await cloud.pool.run { [cloud] in cloud.emptyLog() }
        return purged
    }

    private struct Step {
        var items = 0
        var versions = 0
        var isFinished = false
    }

    /// Removes a batch of items without children.
    private func step(of purge: Int64, _ db: Database) throws -> Step {
        var step = Step()
        guard
            let row = try Row.fetchOne(
                db, sql: "SELECT container, item, before FROM purges WHERE number = ?", arguments: [purge]),
            let container = row.number(0),
            let account = try Int64.fetchOne(
                db, sql: "SELECT account FROM containers WHERE number = ?", arguments: [container])
        else {
            // The account was deleted, or another call has finished this purge.
            step.isFinished = true
            return step
        }
        let leaves = try leaves(container, row.bytes(1), before: row.number(2) ?? 0, db)
        for (item, revision) in leaves {
            step.versions += try recordChunks(of: item, container, account, db)
            // A link to a folder may have the content still.
            try LinkTables(db: db).endLinks(containing: item, in: container, at: cloud.timekeeper.now(), cloud.random)
            let arguments: StatementArguments = [container, item]
            try db.execute(sql: "DELETE FROM versions WHERE container = ? AND item = ?", arguments: arguments)
            try db.execute(sql: "DELETE FROM items WHERE container = ? AND id = ?", arguments: arguments)
            // A device that has not read the deletion compares its complete state.
            try db.execute(
                sql: "UPDATE containers SET purged = max(purged, ?) WHERE number = ?",
                arguments: [revision, container])
        }
        step.items = leaves.count
        // A folder without children may be left after this batch. Without progress nothing more can be removed.
        step.isFinished = leaves.isEmpty
        if step.isFinished { try db.execute(sql: "DELETE FROM purges WHERE number = ?", arguments: [purge]) }
        return step
    }

    /// Deleted items of the purge that have no children.
    private func leaves(
        _ container: Int64, _ item: [UInt8]?, before: Int64, _ db: Database
    ) throws -> [(id: Bytes, revision: Int64)] {
        // An item that was deleted along with its folder may have been deleted before it.
        let subtree = """
            WITH RECURSIVE subtree (id) AS (
                VALUES (?1) UNION SELECT items.id FROM subtree JOIN items INDEXED BY itemsDeletedIn
                ON items.container = ?2 AND items.parent = subtree.id AND items.deleted IS NOT NULL)
            """
        let rows = try Row.fetchAll(
            db,
            sql: """
                \(item == nil ? "" : subtree)
                SELECT id, revision FROM items \(item == nil ? "INDEXED BY itemsDeleted" : "")
                WHERE container = ?2 AND deleted IS NOT NULL AND deleted <= ?3
                \(item == nil ? "AND ?1 IS NULL" : "AND id IN subtree")
                AND NOT EXISTS (SELECT 1 FROM items AS child INDEXED BY itemsPlace
                    WHERE child.container = items.container AND child.parent = items.id AND child.deleted IS NULL)
                AND NOT EXISTS (SELECT 1 FROM items AS child INDEXED BY itemsDeletedIn
                    WHERE child.container = items.container AND child.parent = items.id AND child.deleted IS NOT NULL)
                LIMIT ?4
                """,
            arguments: [item.map(Bytes.init), container, before, CloudLimits.maintenanceBatch])
        return rows.compactMap { row in row.bytes(0).map { (Bytes($0), row.number(1) ?? 0) } }
    }

    /// Names the chunks of an item's versions for the next collection.
    /// - Returns: the number of versions.
    private func recordChunks(of item: Bytes, _ container: Int64, _ account: Int64, _ db: Database) throws -> Int {
        let manifests = try Row.fetchAll(
            db, sql: "SELECT manifest FROM versions INDEXED BY versionsItem WHERE container = ? AND item = ?",
            arguments: [container, item])
        let now = cloud.timekeeper.now().nanoseconds
        for manifest in manifests {
            // The chunks of a damaged manifest are collected as unused ones, after a day.
            for chunk in manifest.bytes(0).flatMap(VersionRows.manifest) ?? [] {
                try db.execute(
                    sql: "INSERT OR REPLACE INTO purgedChunks (account, id, purged) VALUES (?, ?, ?)",
                    arguments: [account, Bytes(chunk.id.bytes), now])
            }
        }
        return manifests.count
    }
}
