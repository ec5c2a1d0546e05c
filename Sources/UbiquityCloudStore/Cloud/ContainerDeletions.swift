import GRDB
internal import Logging
package import UbiquityCore
internal import UbiquitySystem
package import UbiquityWire

/// Deletes all items of a container, and restores them.
///
/// A deletion is a row of ordinary commits by a device of its own, so every device of the account sees it in the feed,
/// and the items are in the trash for as long as the cloud keeps deleted items. The device's id in the items tells the
/// restore which of them belong to it. So an interrupted call is repeated, and goes on where it ended.
package struct ContainerDeletions: Sendable {
    let cloud: Cloud

    /// The device that deletes: "ubiquity" in ASCII. Ids of real devices are random.
    static let device = DeviceID(high: 0x7562_6971_7569_7479, low: 0)

    /// Deletes all items that the container has now.
    /// - Throws: `.notFound`.
    package func delete(_ container: ContainerID, of account: String) async throws -> DeletedContainer {
        let service = try await service(container, account)
        var answer = DeletedContainer(items: 0, kept: 0, restorableSeconds: cloud.keeping.trashSeconds)
        var hasProgress = true
        // Each pass deletes the innermost items, so the folders above are empty in the next one.
        while hasProgress {
            hasProgress = false
            answer.kept = 0
            var last: ItemID?
            while true {
                let after = last
                let (leaves, revision) = try await look(service) { try Self.leaves($0, $1, after: after) }
                guard let end = leaves.last else { break }
                last = end.id
                let changes = leaves.map { leaf in
                    ItemChange(
                        id: leaf.id, kind: leaf.kind, baseRevision: revision, changedAt: cloud.timekeeper.now(),
                        action: .delete)
                }
                let deleted = try await commit(changes, service).count { $0.isDeleted }
                answer.items += deleted
                answer.kept += leaves.count - deleted
                if deleted > 0 { hasProgress = true }
            }
        }
        cloud.logger.notice(
            "deleted the items of a container",
            metadata: ["account": "\(account)", "container": "\(container)", "items": "\(answer.items)"])
        return answer
    }

    /// Restores the items that `delete` deleted and that the cloud still keeps. An item whose name is taken now gets a
    /// number.
    /// - Throws: `.notFound` if there are none, `.quotaExceeded`.
    package func restore(_ container: ContainerID, of account: String) async throws -> RestoredContainer {
        let service = try await service(container, account)
        let deleted = try await look(service) { db, number in try Self.deleted(db, number) }
        guard !deleted.isEmpty else {
            throw UbiquityError(
                .notFound, "nothing of this container was deleted with 'usage delete', or it is no longer kept",
                at: container.name, remedy: "'ubiquity trash list' lists the deleted items")
        }
        var restored = 0
        for start in stride(from: 0, to: deleted.count, by: Self.batch) {
            let changes = deleted[start..<min(start + Self.batch, deleted.count)].map { item in
                ItemChange(
                    id: item.id, kind: item.kind, baseRevision: item.revision, changedAt: cloud.timekeeper.now(),
                    action: .undelete(nil))
            }
            restored += try await commit(changes, service).count { !$0.isDeleted }
        }
        return RestoredContainer(items: restored)
    }

    /// Items in one commit.
    private static let batch = 500

    private func service(_ container: ContainerID, _ account: String) async throws -> ContainerService {
        try await cloud.pool.run { [cloud] in
            ContainerService(cloud: cloud, account: try cloud.account(named: account), container: container)
        }
    }

    private func look<T: Sendable>(
        _ service: ContainerService, _ body: @escaping @Sendable (Database, Int64) throws -> T
    ) async throws -> T {
        try await cloud.pool.run { [cloud] in
            try cloud.read { db in try body(db, service.required(db).number) }
        }
    }

    private func commit(_ changes: [ItemChange], _ service: ContainerService) async throws -> [RemoteItem] {
        var generator = SourcedGenerator(cloud.random)
        let request = CommitRequest(
            id: RequestID(using: &generator), device: Self.device, deviceName: "the cloud", changes: changes)
        return try await service.commit(request).results.compactMap(\.item)
    }

    private struct Leaf: Sendable {
        var id: ItemID
        var kind: ItemKind
        var revision: Revision
    }

    /// Live items without live items in them, by id, and the container's revision.
    private static func leaves(
        _ db: Database, _ container: Int64, after last: ItemID?
    ) throws -> (leaves: [Leaf], revision: Revision) {
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT \(ItemRows.columns) FROM items WHERE container = ?1 AND deleted IS NULL AND id <> ?2
                AND (?3 IS NULL OR id > ?3)
                AND NOT EXISTS (SELECT 1 FROM items AS child INDEXED BY itemsPlace
                    WHERE child.container = items.container AND child.parent = items.id AND child.deleted IS NULL)
                ORDER BY id LIMIT ?4
                """, arguments: [container, Bytes(ItemID.root.bytes), last.map { Bytes($0.bytes) }, batch])
        let revision = try Int64.fetchOne(
            db, sql: "SELECT revision FROM containers WHERE number = ?", arguments: [container])
        return (leaves(rows), Revision(revision ?? 0))
    }

    /// A damaged row stays: devices do not see it.
    private static func leaves(_ rows: [Row]) -> [Leaf] {
        rows.compactMap { ItemRows.record($0) }.map { Leaf(id: $0.id, kind: $0.kind, revision: $0.revision) }
    }

    /// The items that this device deleted.
    private static func deleted(_ db: Database, _ container: Int64) throws -> [Leaf] {
        let rows = try Row.fetchCursor(
            db,
            sql: """
                SELECT \(ItemRows.columns) FROM items INDEXED BY itemsDeleted
                WHERE container = ? AND deleted IS NOT NULL ORDER BY deleted DESC
                """, arguments: [container])
        var found = [Leaf]()
        while let row = try rows.next() {
            guard let record = ItemRows.record(row), record.stamps.existence.device == device else { continue }
            found.append(Leaf(id: record.id, kind: record.kind, revision: record.revision))
        }
        return found
    }
}
