internal import UbiquityCore

/// Between `ItemRow` and the columns of `items` and `entries`.
enum RowCoding {
    /// In the order of the table; the key comes first.
    static let columns = [
        "key", "ino", "id", "kind", "mode", "uid", "gid", "size", "created", "modified", "changed", "link", "xattrs",
        "localXattrs", "version", "content", "contentState", "flags", "dirty", "dirtyOrder", "dirtyBase", "dirtyAt",
        "generation", "nextVersion", "used", "dirtyTimes",
    ]
    /// The columns of an item and, after them, parent and name of its entry (null if it has none).
    /// The statements are kept by their text, so it is short.
    private static let selected = "SELECT items.*, entries.parent, entries.name"

    static let byKey = select("items.key = ?")
    /// Most items have the number of their key.
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

    static func select(_ condition: String) -> String {
        selected + " FROM items LEFT JOIN entries ON entries.item = items.key WHERE \(condition)"
    }

    /// The values of all columns, in their order.
    static func values(_ row: ItemRow) -> [SQLValue] {
        [
            SQLValue(row.key), .int(Int64(bitPattern: row.ino)), SQLValue(row.id), .int(Int64(row.kind.rawValue)),
            .int(Int64(row.mode)), .int(Int64(row.uid)), .int(Int64(row.gid)), .int(row.size),
            .int(row.createdAt.nanoseconds), .int(row.modifiedAt.nanoseconds), .int(row.changedAt.nanoseconds),
            SQLValue(nonEmpty: row.linkTarget), SQLValue(nonEmpty: BlobCoding.encode(row.xattrs)),
            SQLValue(nonEmpty: BlobCoding.encode(row.localXattrs)), SQLValue(row.version),
            SQLValue(row.content?.rawValue), .int(Int64(row.contentState.rawValue)), .int(row.flags.rawValue),
            .int(row.dirty.rawValue), .int(row.dirtyOrder), .int(row.dirtyBase.number), .int(row.dirtyAt.nanoseconds),
            .int(row.generation), SQLValue(row.nextVersion), .int(row.usedAt.nanoseconds),
            SQLValue(nonEmpty: BlobCoding.encode(row.dirtyTimes)),
        ]
    }

    /// Which columns differ, a bit for each.
    static func difference(_ a: ItemRow, _ b: ItemRow) -> UInt32 {
        let differs = [
            a.key != b.key, a.ino != b.ino, a.id != b.id, a.kind != b.kind, a.mode != b.mode, a.uid != b.uid,
            a.gid != b.gid, a.size != b.size, a.createdAt != b.createdAt, a.modifiedAt != b.modifiedAt,
            a.changedAt != b.changedAt, a.linkTarget != b.linkTarget, a.xattrs != b.xattrs,
            a.localXattrs != b.localXattrs, a.version != b.version, a.content != b.content,
            a.contentState != b.contentState, a.flags != b.flags, a.dirty != b.dirty, a.dirtyOrder != b.dirtyOrder,
            a.dirtyBase != b.dirtyBase, a.dirtyAt != b.dirtyAt, a.generation != b.generation,
            a.nextVersion != b.nextVersion, a.usedAt != b.usedAt,
            a.dirtyTimes != b.dirtyTimes,
        ]
        var mask: UInt32 = 0
        for (bit, isSet) in differs.enumerated() where isSet { mask |= 1 << UInt32(bit) }
        return mask
    }

    /// The statement that sets the columns of `mask`, whose values come first, for a key, which comes last.
    static func update(_ mask: UInt32) -> String {
        let set = columns.enumerated().filter { mask & 1 << UInt32($0.offset) != 0 }.map { $0.element + "=?" }
        return "UPDATE items SET \(set.joined(separator: ",")) WHERE key=?"
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
