import GRDB

/// The rows that an import changed.
///
/// - Source: the notification `DidImportUbiquitousContentChanges` of Core Data.
public struct ImportedChanges: Sendable, Equatable {
    /// Rows of one table, each by the values of its primary key.
    public struct Rows: Sendable, Equatable {
        /// Rows that are new.
        public var inserted: Set<[DatabaseValue]> = []
        /// Rows with at least one changed value.
        public var updated: Set<[DatabaseValue]> = []
        /// Rows that are gone.
        public var deleted: Set<[DatabaseValue]> = []
    }

    /// The changed rows, by table.
    public internal(set) var tables: [String: Rows] = [:]

    /// Whether nothing has changed.
    public var isEmpty: Bool { tables.isEmpty }

    package init() {}

    mutating func insert(_ table: String, _ key: [DatabaseValue]) {
        if tables[table]?.deleted.remove(key) != nil {
            tables[table]?.updated.insert(key)
        } else {
            tables[table, default: Rows()].inserted.insert(key)
        }
    }

    mutating func update(_ table: String, _ key: [DatabaseValue]) {
        if tables[table]?.inserted.contains(key) != true { tables[table, default: Rows()].updated.insert(key) }
    }

    mutating func delete(_ table: String, _ key: [DatabaseValue]) {
        tables[table]?.updated.remove(key)
        if tables[table]?.inserted.remove(key) == nil {
            tables[table, default: Rows()].deleted.insert(key)
        } else if tables[table] == Rows() {
            tables[table] = nil
        }
    }
}
