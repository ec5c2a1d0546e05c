import FoundationEssentials
import GRDB

/// Rows that are not shown: their parents are missing, a CHECK refuses them, or the row is deleted or not here yet.
struct ParkedRows {
    enum Reason: Int {
        /// Values later than the deletion of their row. They count if the row is inserted again.
        case late = 0
        /// A parent is missing.
        case orphan = 1
        /// A rule of the table refuses the merged values.
        case refused = 2
    }

    struct Parked {
        var reason: Reason
        /// By the column's position.
        var values: [Int: DatabaseValue]
    }

    let db: Database
    /// Whether there may be any.
    private(set) var isEmpty: Bool

    init(_ db: Database) throws {
        self.db = db
        isEmpty = try Int.fetchOne(db, sql: "SELECT 1 FROM ubiquity_parked LIMIT 1") == nil
    }

    func fetch(_ table: SyncedTable, _ key: [UInt8]) throws -> Parked? {
        guard !isEmpty else { return nil }
        let row = try Row.fetchOne(
            db.cachedStatement(sql: "SELECT reason, cells FROM ubiquity_parked WHERE tbl = ? AND key = ?"),
            arguments: [table.number, Data(key)])
        guard let row else { return nil }
        return Parked(
            reason: Reason(rawValue: row["reason"]) ?? .late, values: try Self.values(row["cells"] as Data, table))
    }

    static func values(_ bytes: Data, _ table: SyncedTable) throws -> [Int: DatabaseValue] {
        var reader = ByteReader(Array(bytes)), values: [Int: DatabaseValue] = [:]
        while !reader.isAtEnd {
            let number = Int(truncatingIfNeeded: try reader.varint()), value = try reader.value()
            // A migration may have dropped the column.
            if let position = table.columns.firstIndex(where: { $0.number == number }) { values[position] = value }
        }
        return values
    }

    mutating func put(_ table: SyncedTable, _ key: [UInt8], _ parked: Parked) throws {
        var writer = ByteWriter()
        for (position, value) in parked.values.sorted(by: { $0.key < $1.key }) {
            writer.count(table.columns[position].number)
            writer.value(value)
        }
        isEmpty = false
        try db.cachedStatement(
            sql: "INSERT OR REPLACE INTO ubiquity_parked (tbl, key, reason, cells) VALUES (?, ?, ?, ?)"
        ).execute(arguments: [table.number, Data(key), parked.reason.rawValue, Data(writer.bytes)])
    }

    func remove(_ table: SyncedTable, _ key: [UInt8]) throws {
        guard !isEmpty else { return }
        try db.cachedStatement(sql: "DELETE FROM ubiquity_parked WHERE tbl = ? AND key = ?")
            .execute(arguments: [table.number, Data(key)])
        try db.cachedStatement(sql: "DELETE FROM ubiquity_missing WHERE tbl = ? AND key = ?")
            .execute(arguments: [table.number, Data(key)])
    }

    /// Records the parent that an orphan waits for.
    func wait(_ table: SyncedTable, _ key: [UInt8], for parent: SyncedTable, _ parentKey: [UInt8]) throws {
        try db.cachedStatement(
            sql: "INSERT OR IGNORE INTO ubiquity_missing (parent, parentKey, tbl, key) VALUES (?, ?, ?, ?)"
        ).execute(arguments: [parent.number, Data(parentKey), table.number, Data(key)])
    }

    /// The orphans that wait for a row.
    func waiting(for parent: SyncedTable, _ key: [UInt8]) throws -> [(table: Int, key: [UInt8])] {
        guard !isEmpty else { return [] }
        return try Row.fetchAll(
            db.cachedStatement(sql: "SELECT tbl, key FROM ubiquity_missing WHERE parent = ? AND parentKey = ?"),
            arguments: [parent.number, Data(key)]
        ).map { ($0["tbl"], Array($0["key"] as Data)) }
    }
}
