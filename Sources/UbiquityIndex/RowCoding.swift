import struct FoundationEssentials.Data
import GRDB
internal import UbiquityCore

/// Between `ItemRow` and the columns of `items` and `entries`.
enum RowCoding {
    static let columns = """
        key, ino, id, kind, mode, uid, gid, size, created, modified, changed, link, xattrs, localXattrs, version, \
        content, contentState, flags, dirty, dirtyOrder, dirtyBase, dirtyAt, generation, nextVersion, used
        """
    /// The columns of an item and, after them, parent and name of its entry (null if it has none).
    static let selected = columns.split(separator: ", ").map { "items.\($0)" }.joined(separator: ", ")
        + ", entries.parent, entries.name"

    static let byKey = select("items.key = ?")
    static let byIno = select("items.ino = ?")
    static let byID = select("items.id = ?")
    static let byContent = select("items.content = ?")
    static let byEntry = """
        SELECT \(selected) FROM entries JOIN items ON items.key = entries.item WHERE entries.parent = ? AND entries.name = ?
        """
    static let children = """
        SELECT \(selected) FROM entries JOIN items ON items.key = entries.item
        WHERE entries.parent = ? AND entries.name > ? ORDER BY entries.name LIMIT ?
        """
    static let insert = """
        INSERT INTO items (\(columns.replacing("key, ", with: ""))) VALUES \
        (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)
        """
    static let update = """
        UPDATE items SET ino=?, id=?, kind=?, mode=?, uid=?, gid=?, size=?, created=?, modified=?, changed=?, link=?, \
        xattrs=?, localXattrs=?, version=?, content=?, contentState=?, flags=?, dirty=?, dirtyOrder=?, dirtyBase=?, \
        dirtyAt=?, generation=?, nextVersion=?, used=? WHERE key=?
        """

    static func select(_ condition: String) -> String {
        "SELECT \(selected) FROM items LEFT JOIN entries ON entries.item = items.key WHERE \(condition)"
    }

    /// The values of all columns but the key, in their order.
    static func values(_ row: ItemRow) -> [(any DatabaseValueConvertible)?] {
        [
            Int64(bitPattern: row.ino), Blob(row.id.bytes), Int64(row.kind.rawValue), Int64(row.mode), Int64(row.uid),
            Int64(row.gid), row.size, row.createdAt.nanoseconds, row.modifiedAt.nanoseconds, row.changedAt.nanoseconds,
            row.linkTarget.isEmpty ? nil : Blob(row.linkTarget), BlobCoding.encode(row.xattrs).map(Blob.init),
            BlobCoding.encode(row.localXattrs).map(Blob.init), row.version.map { Blob($0.bytes) }, row.content?.rawValue,
            Int64(row.contentState.rawValue), row.flags.rawValue, row.dirty.rawValue, row.dirtyOrder,
            row.dirtyBase.number, row.dirtyAt.nanoseconds, row.generation, row.nextVersion.map { Blob($0.bytes) },
            row.usedAt.nanoseconds,
        ]
    }

    static func row(_ row: Row) throws -> ItemRow {
        guard let id = ItemID(bytes: bytes(row, 2) ?? []), let kind = ItemKind(rawValue: UInt8(clamping: int(row, 3))),
            let state = ContentState(rawValue: UInt8(clamping: int(row, 16)))
        else { throw UbiquityError(.io, "a record of the index is damaged") }
        return ItemRow(
            key: ItemKey(int(row, 0)), ino: UInt64(bitPattern: int(row, 1)), id: id, kind: kind,
            mode: UInt32(truncatingIfNeeded: int(row, 4)), uid: UInt32(truncatingIfNeeded: int(row, 5)),
            gid: UInt32(truncatingIfNeeded: int(row, 6)), size: int(row, 7), createdAt: time(row, 8),
            modifiedAt: time(row, 9), changedAt: time(row, 10), linkTarget: bytes(row, 11) ?? [],
            xattrs: try BlobCoding.xattrs(bytes(row, 12)), localXattrs: try BlobCoding.xattrs(bytes(row, 13)),
            entry: entry(row), version: version(row, 14), content: optionalInt(row, 15).map(ContentID.init),
            contentState: state, flags: ItemFlags(rawValue: int(row, 17)), dirty: DirtyFields(rawValue: int(row, 18)),
            dirtyOrder: int(row, 19), dirtyBase: Revision(int(row, 20)), dirtyAt: time(row, 21),
            generation: int(row, 22), nextVersion: version(row, 23), usedAt: time(row, 24))
    }

    private static func entry(_ row: Row) -> ItemRow.Entry? {
        guard let parent = optionalInt(row, 25), let name = bytes(row, 26) else { return nil }
        return ItemRow.Entry(parent: ItemKey(parent), name: ItemName(stored: name))
    }

    static func int(_ row: Row, _ index: Int) -> Int64 { optionalInt(row, index) ?? 0 }
    static func time(_ row: Row, _ index: Int) -> Timestamp { Timestamp(nanoseconds: int(row, index)) }
    static func version(_ row: Row, _ index: Int) -> VersionID? { bytes(row, index).flatMap { VersionID(bytes: $0) } }

    static func optionalInt(_ row: Row, _ index: Int) -> Int64? {
        guard case .int64(let value) = (row[index] as DatabaseValue).storage else { return nil }
        return value
    }

    static func bytes(_ row: Row, _ index: Int) -> [UInt8]? {
        guard case .blob(let data) = (row[index] as DatabaseValue).storage else { return nil }
        return [UInt8](data)
    }
}

/// Bytes as a database value.
struct Blob: DatabaseValueConvertible {
    let bytes: [UInt8]
    init(_ bytes: [UInt8]) { self.bytes = bytes }
    var databaseValue: DatabaseValue { Data(bytes).databaseValue }
    static func fromDatabaseValue(_ value: DatabaseValue) -> Blob? {
        guard case .blob(let data) = value.storage else { return nil }
        return Blob([UInt8](data))
    }
}
