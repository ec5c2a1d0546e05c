import GRDB

/// The rule for a record that another device has changed since the program read it.
///
/// - Source: the merge policies of `NSManagedObjectContext`.
public enum MergePolicy: Hashable, Sendable {
    /// Columns that the program changed get its values; all others keep what came from elsewhere.
    case localWins
    /// Columns that were changed elsewhere keep their values; the program's other changes are written.
    case remoteWins
    /// The save fails with `MergeConflict` if a column was changed on both sides.
    case error
}

/// The columns of a record that were changed on both sides.
///
/// - Source: `NSMergeConflict`.
public struct MergeConflict: Error, Hashable, Sendable, CustomStringConvertible {
    /// The table.
    public let table: String
    /// The primary key.
    public let key: [DatabaseValue]
    /// The columns with their three values.
    public let columns: [String: Values]

    /// The three values of a column.
    public struct Values: Hashable, Sendable {
        /// The value that the program read.
        public let base: DatabaseValue
        /// The value that the program wants to write.
        public let ours: DatabaseValue
        /// The value in the database.
        public let theirs: DatabaseValue
    }

    public var description: String {
        let names = columns.keys.sorted().joined(separator: ", ")
        return "a row of \(table) was changed elsewhere in the same columns (\(names)); read it again"
    }
}

extension Database {
    /// Saves the columns of a record that the program changed since it read it. Columns that changed elsewhere
    /// meanwhile are merged.
    ///
    /// - Parameter record: The record as it must be.
    /// - Parameter original: The record as the program read it.
    /// - Parameter policy: The rule for columns that were changed on both sides.
    /// - Throws: `MergeConflict`; `RecordError` if the row is gone.
    public func merge<Record: EncodableRecord & TableRecord>(
        _ record: Record, from original: Record, policy: MergePolicy = .localWins
    ) throws {
        let table = Record.databaseTableName
        let old = try original.databaseDictionary, new = try record.databaseDictionary
        let keyColumns = try primaryKey(table).columns
        let key = keyColumns.map { new[$0] ?? .null }
        let condition = keyColumns.map { "\(SyncedTable.quote($0)) = ?" }.joined(separator: " AND ")
        let present = try Row.fetchOne(
            self, sql: "SELECT * FROM \(SyncedTable.quote(table)) WHERE \(condition)",
            arguments: StatementArguments(key))
        guard let present else {
            throw RecordError.recordNotFound(
                databaseTableName: table, key: Dictionary(uniqueKeysWithValues: zip(keyColumns, key)))
        }
        var values: [(column: String, value: DatabaseValue)] = [], conflicts: [String: MergeConflict.Values] = [:]
        for (column, ours) in new.sorted(by: { $0.key < $1.key }) where ours != old[column] {
            let theirs: DatabaseValue = present[column], base = old[column] ?? .null
            if theirs != base, theirs != ours {
                conflicts[column] = MergeConflict.Values(base: base, ours: ours, theirs: theirs)
                if policy == .remoteWins { continue }
            }
            values.append((column, ours))
        }
        if policy == .error, !conflicts.isEmpty { throw MergeConflict(table: table, key: key, columns: conflicts) }
        guard !values.isEmpty else { return }
        let sets = values.map { "\(SyncedTable.quote($0.column)) = ?" }.joined(separator: ", ")
        try execute(
            sql: "UPDATE \(SyncedTable.quote(table)) SET \(sets) WHERE \(condition)",
            arguments: StatementArguments(values.map(\.value) + key))
    }
}
