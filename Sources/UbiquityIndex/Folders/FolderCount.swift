import GRDB
internal import UbiquityCore
internal import UbiquitySystem

/// Counts the totals of folders from the items: for an index without stored totals, for one folder until they are
/// stored, and to verify the stored ones.
///
/// `meta.sums` is the last counted key: the stored totals include all items up to it. An index of an earlier format is
/// counted page by page, ordered by key, while it is in use. Changes of later items do not count yet.
enum FolderCount {
    /// Everything is counted.
    static let whole = Int64.max
    /// Items counted in one transaction. A transaction takes about 20 ms, and other writers wait for it.
    static let pageSize = 1000

    static let store = """
        INSERT OR REPLACE INTO folderSums (folder, \(FolderSums.columns.joined(separator: ", "))) \
        VALUES (?\(String(repeating: ", ?", count: FolderSums.columns.count)))
        """
    static let forget = "DELETE FROM folderSums WHERE folder = ?"
    private static let forgetAll = "DELETE FROM folderSums"
    private static let setCounted = "INSERT OR REPLACE INTO meta VALUES ('sums', ?)"

    static func counted(_ db: Database) throws -> Int64 {
        try db.first("SELECT value FROM meta WHERE name = 'sums'", []) { $0.int(0) } ?? 0
    }

    /// Deletes the stored totals, so that they are counted again.
    static func begin(_ db: Database) throws {
        try db.run(forgetAll, [])
        try db.run(setCounted, [.int(0)])
    }

    /// Adds the next page of items to the stored totals.
    ///
    /// - Returns: Whether there are more.
    static func countPage(_ db: Database) throws -> Bool {
        let start = try counted(db)
        guard start < whole else { return false }
        // Removes the totals of an earlier count that was not finished.
        if start <= 0 { try begin(db) }
        let page = "SELECT key FROM items WHERE key > ? ORDER BY key LIMIT \(pageSize)"
        let (last, isFull) = try db.first("SELECT max(key), count(*) FROM (\(page))", [.int(start)]) { row in
            (row.optionalInt(0), row.int(1) == pageSize)
        } ?? (nil, false)
        if let end = last {
            let sums = try shares(
                db, "items AS own CROSS JOIN entries ON entries.item = own.key", "own.key > ? AND own.key <= ?",
                [.int(start), .int(end)])
            var update = FolderUpdate(shares: sums, db)
            try update.run()
        }
        // This transaction holds the writer, so no items are added before it commits.
        let end = isFull ? last : nil
        try db.run(setCounted, [.int(end ?? whole)])
        return end != nil
    }

    /// Counts the totals of all folders.
    static func all(_ db: Database) throws -> [ItemKey: FolderSums] {
        var parents: [ItemKey: ItemKey] = [:]
        try db.run("SELECT item, parent FROM entries WHERE directory", []) {
            parents[ItemKey($0.int(0))] = ItemKey($0.int(1))
        }
        let shares = try shares(db, "entries CROSS JOIN items AS own ON own.key = entries.item", "1", [])
        var totals: [ItemKey: FolderSums] = [:]
        for (folder, sum) in shares {
            var next: ItemKey? = folder
            for _ in 0...Limits.maximumDepth {
                guard let key = next else { break }
                totals[key, default: FolderSums()] += sum
                next = parents[key]
            }
        }
        return totals
    }

    /// Counts the totals of one folder.
    static func sums(below folder: ItemKey, _ db: Database) throws -> FolderSums {
        let entries = "down CROSS JOIN entries ON entries.parent = down.key"
        let source = "\(entries) CROSS JOIN items AS own ON own.key = entries.item"
        return try shares(db, source, "1", [SQLValue(folder)], isBelow: true)
            .values.reduce(into: FolderSums()) { $0 += $1 }
    }

    /// Returns per folder the sum of the shares of its direct members.
    private static func shares(
        _ db: Database, _ source: String, _ condition: String, _ values: [SQLValue], isBelow: Bool = false
    ) throws -> [ItemKey: FolderSums] {
        var shares: [ItemKey: FolderSums] = [:]
        let sql = """
            \(isBelow ? below : "")
            SELECT entries.parent, own.size, \(share("own", "record")), linked.size, \(share("linked", "linkedRecord"))
            FROM \(source) LEFT JOIN remote AS record ON record.id = own.id
            LEFT JOIN items AS linked
            ON own.kind = 4 AND own.flags & 36 = 0 AND linked.id = own.link AND linked.dirty & 64 = 0
            LEFT JOIN remote AS linkedRecord ON linkedRecord.id = linked.id WHERE \(condition)
            """
        try db.run(sql, values) { row in
            var sum = share(row, 1)
            sum += share(row, 7).withoutBytes
            shares[ItemKey(row.int(0)), default: FolderSums()] += sum
        }
        return shares
    }

    private static let below = """
        WITH RECURSIVE down(key) AS (
            VALUES(?) UNION
            SELECT entries.item FROM down CROSS JOIN entries INDEXED BY entriesDirectory
            ON entries.parent = down.key AND entries.directory)
        """

    /// Five columns: whether it is a file that counts, absent, outdated, pending, requested (`FolderSums.init(of:)`).
    private static func share(_ item: String, _ record: String) -> String {
        let isFile = "\(item).kind = 1 AND \(item).flags & 36 = 0"
        return """
            \(isFile), \(isFile) AND \(item).contentState <> 2,
            \(isFile) AND \(item).contentState = 2 AND \(item).dirty & 32 = 0 AND \(record).version IS NOT NULL
            AND \(record).version IS NOT \(item).version,
            \(item).flags & 36 = 0 AND (\(item).dirty <> 0 OR \(item).flags & 1 OR \(item).kind = 1
            AND \(record).version IS NOT NULL AND \(record).version IS \(item).version
            AND ifnull(\(record).available, 0) = 0),
            \(isFile) AND \(item).flags & 16 <> 0
            """
    }

    private static func share(_ row: SQLRow, _ column: Int32) -> FolderSums {
        let size = row.int(column), file = row.int(column + 1), absent = row.int(column + 2)
        let pending = row.int(column + 4)
        return FolderSums(
            values: [
                file, size &* file, absent, size &* absent, row.int(column + 3), pending, size &* file &* pending,
                row.int(column + 5),
            ])
    }
}
