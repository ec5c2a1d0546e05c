import GRDB
package import UbiquityCore

/// Queries of the index. Valid only inside the call that passed it.
package class IndexReader {
    let connection: Database
    /// Whether the reader sees changes that the stored totals of folders do not include.
    var isAheadOfSums: Bool { seesBatch }
    private let seesBatch: Bool

    /// - Parameter seesBatch: Whether the reader sees uncommitted changes.
    init(_ connection: Database, seesBatch: Bool = false) {
        self.connection = connection
        self.seesBatch = seesBatch
    }

    /// The connection for queries.
    var db: Database { get throws { connection } }

    /// The connection for queries that concern only statements run at once (`IndexTransaction.executeAtOnce`).
    var currentPart: Database { get throws { connection } }

    package func row(key: ItemKey) throws -> ItemRow? { try one(RowCoding.byKey, [SQLValue(key)]) }
    package func row(ino: UInt64) throws -> ItemRow? {
        let number = SQLValue.int(Int64(bitPattern: ino))
        return try one(RowCoding.byKeyAndIno, [number]) ?? one(RowCoding.byOtherIno, [number])
    }
    package func row(id: ItemID) throws -> ItemRow? { try one(RowCoding.byID, [SQLValue(id)]) }
    package func row(content: ContentID) throws -> ItemRow? { try one(RowCoding.byContent, [.int(content.rawValue)]) }

    package func child(of parent: ItemKey, named name: ItemName) throws -> ItemRow? {
        try one(RowCoding.byEntry, [SQLValue(parent), SQLValue(name)])
    }

    /// Returns the children ordered by the bytes of their names: those after `name`, at most `limit`.
    package func children(of parent: ItemKey, after name: ItemName?, limit: Int) throws -> [ItemRow] {
        try rows(RowCoding.children, [SQLValue(parent), .bytes(name?.bytes ?? []), .int(Int64(limit))])
    }

    package func hasChildren(_ parent: ItemKey) throws -> Bool {
        try exists("SELECT 1 FROM entries WHERE parent = ? LIMIT 1", [SQLValue(parent)])
    }

    /// Returns the number of subfolders, for a folder's link count.
    package func directoryCount(in parent: ItemKey) throws -> Int {
        // Without the hint SQLite would scan the whole folder.
        try Int(
            number(
                "SELECT count(*) FROM entries INDEXED BY entriesDirectory WHERE parent = ? AND directory",
                [SQLValue(parent)]) ?? 0)
    }

    /// Returns the names from the top folder down to the item; nil if the item or a folder above has no entry.
    package func path(of key: ItemKey) throws -> [ItemName]? {
        var names = [ItemName]()
        var key = key
        while key != .root {
            guard names.count < Limits.maximumDepth, let entry = try row(key: key)?.entry else { return nil }
            names.append(entry.name)
            key = entry.parent
        }
        return names.reversed()
    }

    /// Returns the item at a path below the top folder; for a hard link, its target.
    package func row(path: [ItemName]) throws -> ItemRow? {
        var found = try row(key: .root)
        for name in path {
            guard let parent = found else { return nil }
            found = try child(of: parent.key, named: name)
        }
        return try found.flatMap(named)
    }

    /// Returns whether `key` is `ancestor` or below it. Throws `.io` if the item is nested too deep for any path.
    package func isWithin(_ key: ItemKey, _ ancestor: ItemKey) throws -> Bool {
        guard let isWithin = try isWithinReach(key, ancestor) else {
            throw UbiquityError(.io, "folders are nested more than \(Limits.maximumDepth) deep")
        }
        return isWithin
    }

    /// Returns the same; nil if the item is nested too deep for any path.
    package func isWithinReach(_ key: ItemKey, _ ancestor: ItemKey) throws -> Bool? {
        var key = key
        for _ in 0...Limits.maximumDepth {
            if key == ancestor { return true }
            guard key != .root, let entry = try row(key: key)?.entry else { return false }
            key = entry.parent
        }
        return nil
    }

    /// Returns how deep the item lies below the top folder; 0 for the top folder itself.
    func depth(of key: ItemKey) throws -> Int {
        try Int(
            number(
                """
                WITH RECURSIVE up(key, level) AS (
                    VALUES(?, 0) UNION ALL
                    SELECT entries.parent, level + 1 FROM entries JOIN up ON entries.item = up.key
                    WHERE level < \(Limits.maximumDepth))
                SELECT max(level) FROM up
                """, [SQLValue(key)]) ?? 0)
    }

    /// Returns how many levels of folders lie below this one; 0 if it has none.
    func height(of folder: ItemKey) throws -> Int {
        try Int(
            number(
                """
                WITH RECURSIVE down(key, level) AS (
                    VALUES(?, 0) UNION ALL
                    SELECT entries.item, level + 1 FROM down CROSS JOIN entries INDEXED BY entriesDirectory
                    ON entries.parent = down.key AND entries.directory WHERE level < \(Limits.maximumDepth))
                SELECT max(level) FROM down
                """, [SQLValue(folder)]) ?? 0)
    }

    /// Returns the number of items that have an entry.
    package func itemCount() throws -> Int64 { try number("SELECT count(*) FROM entries", []) ?? 0 }

    // MARK: Statements

    func rows(_ sql: String, _ values: [SQLValue]) throws -> [ItemRow] {
        var result = [ItemRow]()
        try db.run(sql, values) { result.append(try item($0)) }
        return result
    }

    func one(_ sql: String, _ values: [SQLValue]) throws -> ItemRow? { try db.first(sql, values, item) }

    func exists(_ sql: String, _ values: [SQLValue]) throws -> Bool { try db.first(sql, values) { _ in true } ?? false }

    /// Returns the first column of the first row; nil if there is no row, or the value is null.
    func number(_ sql: String, _ values: [SQLValue]) throws -> Int64? {
        try db.first(sql, values) { $0.optionalInt(0) } ?? nil
    }
}
