import GRDB
package import UbiquityCore

/// The key-values of one container in memory, for simulators. It has the tables and rules of a cloud, and no container,
/// account or disk.
package final class KeyValueMemory: Sendable {
    private let database: DatabaseQueue
    private let rules: KeyValueRules

    package init(rules: KeyValueRules = KeyValueRules()) throws {
        self.rules = rules
        database = try DatabaseQueue()
        try database.write { try $0.execute(sql: KeyValueTables.setUp) }
    }

    package func page(after point: KeyValuePoint, incarnation: UInt64, limit: Int) throws -> KeyValuePage {
        try database.unsafeRead { db in
            let tables = KeyValueTables(db: db, container: 1, rules: rules)
            let feed = try tables.feed()
            let (records, hasMore) = try tables.records(after: point.revision, limit: limit)
            return KeyValuePage(
                records: records, revision: hasMore ? records.last?.revision ?? feed.revision : feed.revision,
                hasMore: hasMore, incarnation: incarnation, forgotten: feed.forgotten)
        }
    }

    package func push(_ push: KeyValuePush, now: Timestamp) throws -> [KeyValueResult] {
        try database.write { try KeyValueTables(db: $0, container: 1, rules: rules).apply(push, now: now) }
    }

    package func records() throws -> [KeyValueRecord] {
        try database.unsafeRead { db in
            try KeyValueTables(db: db, container: 1, rules: rules).records(after: .zero, limit: .max).records
        }
    }

    /// Forgets everything after a revision, as a cloud does that is restored from an older backup. The registers of
    /// keys changed since are gone.
    package func restore(before revision: Revision) throws {
        try database.write { db in
            try db.execute(sql: "DELETE FROM keyValues WHERE revision > ?", arguments: [revision.number])
            try db.execute(sql: "UPDATE keyValueFeeds SET revision = min(revision, ?)", arguments: [revision.number])
        }
    }
}
