package import UbiquityCore

/// Queries of the table `folderSums`: the totals of folders.
package struct FolderTable: IndexTable {
    let reader: IndexReader

    /// Returns the totals of a folder: the stored ones, or counted if none are stored.
    package func sums(below folder: ItemKey) throws -> FolderSums {
        guard !reader.isAheadOfSums else { return try FolderCount.sums(below: folder, db) }
        // One statement, so both values come from the same state.
        let stored = try db.first(
            """
            SELECT (SELECT value FROM meta WHERE name = 'sums'), \(FolderSums.columns.joined(separator: ", "))
            FROM (SELECT 1) LEFT JOIN folderSums ON folder = ?
            """, [SQLValue(folder)]
        ) { row in row.int(0) == FolderCount.whole ? Self.sums(row, 1) : nil }
        return try stored.flatMap { $0 } ?? FolderCount.sums(below: folder, db)
    }

    func storedSums(of folder: ItemKey) throws -> FolderSums {
        try reader.connection.first(
            "SELECT \(FolderSums.columns.joined(separator: ", ")) FROM folderSums WHERE folder = ?", [SQLValue(folder)]
        ) { Self.sums($0, 0) } ?? FolderSums()
    }

    private static func sums(_ row: SQLRow, _ column: Int32) -> FolderSums {
        var sums = FolderSums()
        for index in FolderSums.columns.indices { sums.values[index] = row.int(column + Int32(index)) }
        return sums
    }

    /// Returns folders whose stored totals differ from those of their items; none while counting is in progress.
    func foldersOfWrongSums() throws -> [ItemKey] {
        guard try FolderCount.counted(db) == FolderCount.whole else { return [] }
        let counted = try FolderCount.all(db)
        var stored: [ItemKey: FolderSums] = [:]
        try db.run("SELECT folder, \(FolderSums.columns.joined(separator: ", ")) FROM folderSums", []) {
            stored[ItemKey($0.int(0))] = Self.sums($0, 1)
        }
        return Set(counted.keys).union(stored.keys).filter { key in
            counted[key] ?? FolderSums() != stored[key] ?? FolderSums()
        }.sorted()
    }
}
