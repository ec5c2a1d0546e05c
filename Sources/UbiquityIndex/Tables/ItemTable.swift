package import UbiquityCore

/// Queries of the tables `items` and `entries`: the local tree with its names and hard links.
///
/// A transaction answers queries of single rows and names itself, because it knows what it changed and what the cache
/// has. `IndexTransaction` writes these tables.
package struct ItemTable: IndexTable {
    let reader: IndexReader

    package func row(key: ItemKey) throws -> ItemRow? {
        guard let transaction = reader.transaction else { return try storedRow(key: key) }
        return try transaction.row(key: key)
    }

    package func row(ino: UInt64) throws -> ItemRow? {
        guard let transaction = reader.transaction else { return try storedRow(ino: ino) }
        return try transaction.row(ino: ino)
    }

    package func child(of parent: ItemKey, named name: ItemName) throws -> ItemRow? {
        guard let transaction = reader.transaction else { return try storedChild(of: parent, named: name) }
        return try transaction.child(of: parent, named: name)
    }

    /// Returns the row in the database.
    func storedRow(key: ItemKey) throws -> ItemRow? { try one(RowCoding.byKey, [SQLValue(key)]) }

    /// Returns the row in the database.
    func storedRow(ino: UInt64) throws -> ItemRow? {
        let number = SQLValue.int(Int64(bitPattern: ino))
        return try one(RowCoding.byKeyAndIno, [number]) ?? one(RowCoding.byOtherIno, [number])
    }

    /// Returns the item of that name in the database.
    func storedChild(of parent: ItemKey, named name: ItemName) throws -> ItemRow? {
        try one(RowCoding.byEntry, [SQLValue(parent), SQLValue(name)])
    }

    package func row(id: ItemID) throws -> ItemRow? { try one(RowCoding.byID, [SQLValue(id)]) }
    package func row(content: ContentID) throws -> ItemRow? { try one(RowCoding.byContent, [.int(content.rawValue)]) }

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

    /// Returns the item that a name refers to: the row itself, or the target of the link; nil if the target is not
    /// here.
    package func named(_ row: ItemRow) throws -> ItemRow? {
        guard let id = row.linkedID else { return row }
        guard let linked = try self.row(id: id), !linked.isDeleted else { return nil }
        return linked
    }

    /// Returns the hard links to an item that have an entry, synced ones first.
    package func links(to id: ItemID) throws -> [ItemRow] {
        try rows(Self.linksToItem, [.bytes(id.bytes)]).filter { $0.entry != nil }
    }

    /// Returns all hard links to an item, including deleted ones and those without an entry.
    package func allLinks(to id: ItemID) throws -> [ItemRow] { try rows(Self.linksToItem, [.bytes(id.bytes)]) }

    private static let linksToItem = RowCoding.select("items.kind = 4 AND items.link = ?")
        + " ORDER BY items.flags & 4, items.key"

    /// Returns whether a link with an entry refers to the item.
    func hasLinks(_ id: ItemID) throws -> Bool {
        try exists(
            "SELECT 1 FROM items JOIN entries ON entries.item = items.key WHERE kind = 4 AND link = ? LIMIT 1",
            [.bytes(id.bytes)])
    }

    /// Returns how many names an item has besides its own entry.
    package func linkCount(of row: ItemRow) throws -> Int {
        guard row.isLinked else { return 0 }
        return Int(
            try number(
                "SELECT count(*) FROM items JOIN entries ON entries.item = items.key WHERE kind = 4 AND link = ?",
                [.bytes(row.id.bytes)]) ?? 0)
    }

    /// Returns excluded files ordered by key: those after `key`, at most `limit`.
    package func localFiles(after key: ItemKey, limit: Int) throws -> [ItemRow] {
        try rows(
            RowCoding.select("items.key > ? AND items.kind = \(ItemKind.file.rawValue) AND items.flags & 4")
                + " ORDER BY items.key LIMIT ?",
            [SQLValue(key), .int(Int64(limit))])
    }

    func parents(ofItemsNamed name: ItemName) throws -> [ItemKey] {
        var result = [ItemKey]()
        try db.run("SELECT parent FROM entries WHERE name = ?", [SQLValue(name)]) { result.append(ItemKey($0.int(0))) }
        return result
    }

    /// Returns the package's folder and everything in it, at most `limit` items.
    package func members(of package: ItemKey, limit: Int) throws -> [ItemRow] {
        guard let top = try row(key: package) else { return [] }
        var result = [top], next = 0
        while next < result.count, result.count < limit {
            let folder = result[next]
            next += 1
            guard folder.kind == .directory else { continue }
            result += try children(of: folder.key, after: nil, limit: limit - result.count)
        }
        return result
    }

    /// Returns files that programs have open for writing.
    package func openForWriting() throws -> [ItemRow] { try rows(RowCoding.select("items.flags & 1"), []) }

    /// Returns whether a program has a file open for writing.
    package func hasWriters() throws -> Bool {
        try number("SELECT 1 FROM items WHERE flags & 1 LIMIT 1", []) != nil
    }

    /// Returns the total bytes of complete contents of at most `limit` bytes each.
    package func completeBytes(ofAtMost limit: Int64) throws -> Int64 {
        // The first condition makes SQLite use the index of contents.
        let isHere = "content IS NOT NULL AND contentState = 2"
        return try number("SELECT sum(size) FROM items WHERE \(isHere) AND size <= ?", [.int(limit)]) ?? 0
    }

    /// Returns partial contents, with the full size of each in bytes.
    package func partialContents() throws -> [(content: ContentID, size: Int64)] {
        var result = [(content: ContentID, size: Int64)]()
        try db.run("SELECT content, size FROM items WHERE contentState = 1 AND content IS NOT NULL", []) {
            result.append((ContentID($0.int(0)), $0.int(1)))
        }
        return result
    }

    /// Returns whether the folder holds an item that is neither excluded nor lingering.
    package func hasSyncedChildren(_ parent: ItemKey) throws -> Bool {
        let local = ItemFlags([.excluded, .lingering]).rawValue
        return try exists(
            "SELECT 1 FROM entries JOIN items ON key = item WHERE parent = ? AND flags & \(local) = 0 LIMIT 1",
            [SQLValue(parent)])
    }

    /// Returns folders that the cloud has deleted and that are kept for items below them.
    package func lingering(limit: Int) throws -> [ItemRow] {
        try rows(
            RowCoding.select("items.flags & \(ItemFlags.lingering.rawValue)") + " ORDER BY items.key DESC LIMIT ?",
            [.int(Int64(limit))])
    }

    /// Returns all rows, including deleted ones; for rare full scans.
    package func allRows() throws -> [ItemRow] { try rows(RowCoding.select("items.key > 0"), []) }

    /// Returns the number of items that have an entry and are synced. Scans all of them.
    package func syncedItemCount() throws -> Int64 {
        let local = ItemFlags([.excluded, .lingering]).rawValue
        return try number(
            """
            SELECT count(*) FROM entries JOIN items ON items.key = entries.item WHERE items.flags & \(local) = 0
            """, []) ?? 0
    }

    func rowsWithForeignPrivileges(limit: Int) throws -> [ItemRow] {
        let bits = Privileges.bits, own = DirtyFields([.created, .mode, .deleted]).rawValue
        return try rows(
            RowCoding.select(
                """
                items.mode & \(bits) AND items.dirty & \(own) = 0
                AND EXISTS (SELECT 1 FROM remote WHERE remote.id = items.id AND remote.mode & items.mode & \(bits))
                """) + " ORDER BY items.key LIMIT ?", [.int(Int64(limit))])
    }
}
