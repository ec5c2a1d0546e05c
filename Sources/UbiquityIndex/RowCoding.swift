internal import UbiquityCore

/// Converts between `ItemRow` and the columns of `items` and `entries`.
enum RowCoding {
    /// In the order of the table; the key comes first.
    static let columns = [
        "key", "ino", "id", "kind", "mode", "uid", "gid", "size", "created", "modified", "changed", "link", "xattrs",
        "localXattrs", "version", "content", "contentState", "flags", "dirty", "dirtyOrder", "dirtyBase", "dirtyAt",
        "generation", "nextVersion", "used", "dirtyTimes",
    ]
    /// An item's columns, then parent and name of its entry (null if it has none). Statements are cached by their text,
    /// so it is short.
    private static let selected = "SELECT items.*, entries.parent, entries.name"

    static let byKey = select("items.key = ?")
    /// Most items have their key as inode number.
    static let byKeyAndIno = select("items.key = ?1 AND items.ino = ?1")
    static let byOtherIno = select("items.ino = ? AND items.ino <> items.key")
    static let byID = select("items.id = ?")
    static let byContent = select("items.content = ?")
    static let byEntry =
        selected + " FROM entries JOIN items ON items.key = entries.item WHERE entries.parent = ? AND entries.name = ?"
    static let children = selected + """
         FROM entries JOIN items ON items.key = entries.item
        WHERE entries.parent = ? AND entries.name > ? ORDER BY entries.name LIMIT ?
        """
    static let insert = "INSERT INTO items VALUES (" + columns.map { _ in "?" }.joined(separator: ",") + ")"
    static let delete = "DELETE FROM items WHERE key = ?"
    static let insertEntry = "INSERT INTO entries (parent, name, item, directory) VALUES (?, ?, ?, ?)"
    static let deleteEntry = "DELETE FROM entries WHERE parent = ? AND name = ?"
    static let updateBeginning = "UPDATE items SET "
    static let updateEnd = " WHERE key=?"

    static func select(_ condition: String) -> String {
        selected + " FROM items LEFT JOIN entries ON entries.item = items.key WHERE \(condition)"
    }

    /// Returns the values of all columns, in their order.
    static func values(_ row: ItemRow) -> [SQLValue] { columns.indices.map { value(row, $0) } }

    /// Returns the values of the columns in `mask`, then the key, as `update` takes them.
    static func values(_ row: ItemRow, _ mask: UInt32) -> [SQLValue] {
        var values = [SQLValue]()
        values.reserveCapacity(mask.nonzeroBitCount + 1)
        for column in columns.indices where mask & 1 << UInt32(column) != 0 { values.append(value(row, column)) }
        values.append(SQLValue(row.key))
        return values
    }

    private static func value(_ row: ItemRow, _ column: Int) -> SQLValue {
        switch column {
        case 0: SQLValue(row.key)
        case 1: .int(Int64(bitPattern: row.ino))
        case 2: SQLValue(row.id)
        case 3: .int(Int64(row.kind.rawValue))
        case 4: .int(Int64(row.mode))
        case 5: .int(Int64(row.uid))
        case 6: .int(Int64(row.gid))
        case 7: .int(row.size)
        case 8: .int(row.createdAt.nanoseconds)
        case 9: .int(row.modifiedAt.nanoseconds)
        case 10: .int(row.changedAt.nanoseconds)
        case 11: SQLValue(nonEmpty: row.linkTarget)
        case 12: SQLValue(nonEmpty: BlobCoding.encode(row.xattrs))
        case 13: SQLValue(nonEmpty: BlobCoding.encode(row.localXattrs))
        case 14: SQLValue(row.version)
        case 15: SQLValue(row.content?.rawValue)
        case 16: .int(Int64(row.contentState.rawValue))
        case 17: .int(row.flags.rawValue)
        case 18: .int(row.dirty.rawValue)
        case 19: .int(row.dirtyOrder)
        case 20: .int(row.dirtyBase.number)
        case 21: .int(row.dirtyAt.nanoseconds)
        case 22: .int(row.generation)
        case 23: SQLValue(row.nextVersion)
        case 24: .int(row.usedAt.nanoseconds)
        default: SQLValue(nonEmpty: BlobCoding.encode(row.dirtyTimes))
        }
    }

    /// Returns which columns differ, one bit each.
    static func difference(_ a: ItemRow, _ b: ItemRow) -> UInt32 {
        var mask: UInt32 = 0
        func note(_ column: UInt32, _ differs: Bool) { if differs { mask |= 1 << column } }
        note(0, a.key != b.key)
        note(1, a.ino != b.ino)
        note(2, a.id != b.id)
        note(3, a.kind != b.kind)
        note(4, a.mode != b.mode)
        note(5, a.uid != b.uid)
        note(6, a.gid != b.gid)
        note(7, a.size != b.size)
        note(8, a.createdAt != b.createdAt)
        note(9, a.modifiedAt != b.modifiedAt)
        note(10, a.changedAt != b.changedAt)
        note(11, a.linkTarget != b.linkTarget)
        note(12, a.xattrs != b.xattrs)
        note(13, a.localXattrs != b.localXattrs)
        note(14, a.version != b.version)
        note(15, a.content != b.content)
        note(16, a.contentState != b.contentState)
        note(17, a.flags != b.flags)
        note(18, a.dirty != b.dirty)
        note(19, a.dirtyOrder != b.dirtyOrder)
        note(20, a.dirtyBase != b.dirtyBase)
        note(21, a.dirtyAt != b.dirtyAt)
        note(22, a.generation != b.generation)
        note(23, a.nextVersion != b.nextVersion)
        note(24, a.usedAt != b.usedAt)
        note(25, a.dirtyTimes != b.dirtyTimes)
        return mask
    }

    /// Returns the statement that sets the columns in `mask` for a key. The key is bound last.
    static func update(_ mask: UInt32) -> String {
        let set = columns.enumerated().filter { mask & 1 << UInt32($0.offset) != 0 }.map { $0.element + "=?" }
        return updateBeginning + set.joined(separator: ",") + updateEnd
    }

    /// Columns that hold attributes.
    static let xattrs: Int32 = 12, localXattrs: Int32 = 13

    static func row(_ row: SQLRow, leavingOutAttributes: Bool = false) throws -> ItemRow {
        guard let id: ItemID = row.id(2), let kind = ItemKind(rawValue: UInt8(clamping: row.int(3))),
            let state = ContentState(rawValue: UInt8(clamping: row.int(16)))
        else { throw BlobCoding.damaged }
        return ItemRow(
            key: ItemKey(row.int(0)), ino: UInt64(bitPattern: row.int(1)), id: id, kind: kind,
            mode: UInt32(truncatingIfNeeded: row.int(4)), uid: UInt32(truncatingIfNeeded: row.int(5)),
            gid: UInt32(truncatingIfNeeded: row.int(6)), size: row.int(7), createdAt: row.time(8),
            modifiedAt: row.time(9), changedAt: row.time(10), linkTarget: row.bytes(11) ?? [],
            xattrs: leavingOutAttributes ? [] : try BlobCoding.xattrs(row.bytes(xattrs)),
            localXattrs: leavingOutAttributes ? [] : try BlobCoding.xattrs(row.bytes(localXattrs)),
            entry: entry(row), version: row.id(14), content: row.optionalInt(15).map(ContentID.init),
            contentState: state, flags: ItemFlags(rawValue: row.int(17)), dirty: DirtyFields(rawValue: row.int(18)),
            dirtyOrder: row.int(19), dirtyBase: Revision(row.int(20)), dirtyAt: row.time(21),
            dirtyTimes: BlobCoding.fieldTimes(row.bytes(25)),
            generation: row.int(22), nextVersion: row.id(23), usedAt: row.time(24))
    }

    private static func entry(_ row: SQLRow) -> ItemRow.Entry? {
        guard let parent = row.optionalInt(26), let name = row.bytes(27) else { return nil }
        return ItemRow.Entry(parent: ItemKey(parent), name: ItemName(stored: name))
    }
}
