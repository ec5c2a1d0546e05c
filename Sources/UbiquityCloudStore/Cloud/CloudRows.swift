import struct FoundationEssentials.Data
import GRDB
internal import UbiquityCore

/// Bytes as a database value.
struct Bytes: DatabaseValueConvertible {
    let bytes: [UInt8]
    init(_ bytes: [UInt8]) { self.bytes = bytes }
    var databaseValue: DatabaseValue { Data(bytes).databaseValue }

    static func fromDatabaseValue(_ value: DatabaseValue) -> Bytes? {
        guard case .blob(let data) = value.storage else { return nil }
        return Bytes([UInt8](data))
    }
}

extension Row {
    func number(_ index: Int) -> Int64? {
        guard case .int64(let value) = (self[index] as DatabaseValue).storage else { return nil }
        return value
    }

    func bytes(_ index: Int) -> [UInt8]? {
        guard case .blob(let data) = (self[index] as DatabaseValue).storage else { return nil }
        return [UInt8](data)
    }

    func text(_ index: Int) -> String? {
        guard case .string(let text) = (self[index] as DatabaseValue).storage else { return nil }
        return text
    }

    func time(_ index: Int) -> Timestamp { Timestamp(nanoseconds: number(index) ?? 0) }
}

/// Between item records and the columns of `items`.
enum ItemRows {
    static let columns = """
        items.id, items.kind, items.revision, items.deleted, items.parent, items.name, items.mode, items.created, \
        items.modified, items.xattrs, items.link, items.version, items.size, items.conflicts, items.conflictBytes, \
        items.stamps, items.history
        """
    static let columnCount = 17

    static func values(_ item: ItemRecord, in container: Int64) -> [(any DatabaseValueConvertible)?] {
        [
            container, Bytes(item.id.bytes), Int64(item.kind.rawValue), item.revision.number,
            item.deletedAt?.nanoseconds, Bytes(item.parent.bytes), Bytes(item.name.bytes), Int64(item.mode),
            item.createdAt.nanoseconds, item.modifiedAt.nanoseconds, BlobCoding.encode(item.xattrs).map(Bytes.init),
            item.linkTarget.isEmpty ? nil : Bytes(item.linkTarget), item.version.map { Bytes($0.bytes) }, item.size,
            Int64(item.conflictCount), item.conflictBytes, Bytes(BlobCoding.encode(item.stamps)),
            item.hasHistory ? 1 : 0,
        ]
    }

    static func record(_ row: Row) throws -> ItemRecord {
        guard let id = ItemID(bytes: row.bytes(0) ?? []),
            let kind = ItemKind(rawValue: UInt8(clamping: row.number(1) ?? 0)),
            let parent = ItemID(bytes: row.bytes(4) ?? [])
        else { throw BlobReader.damaged }
        var record = ItemRecord(
            id: id, kind: kind, revision: Revision(row.number(2) ?? 0), parent: parent,
            name: ItemName(stored: row.bytes(5) ?? []), mode: UInt32(truncatingIfNeeded: row.number(6) ?? 0),
            createdAt: row.time(7), modifiedAt: row.time(8), stamps: try BlobCoding.stamps(row.bytes(15) ?? []))
        record.deletedAt = row.number(3).map(Timestamp.init(nanoseconds:))
        record.xattrs = try BlobCoding.xattrs(row.bytes(9) ?? [])
        record.linkTarget = row.bytes(10) ?? []
        record.version = row.bytes(11).flatMap { VersionID(bytes: $0) }
        record.size = row.number(12) ?? 0
        record.conflictCount = Int(row.number(13) ?? 0)
        record.conflictBytes = row.number(14) ?? 0
        record.hasHistory = row.number(16) == 1
        return record
    }
}

/// Between version records and the columns of `versions`.
enum VersionRows {
    static let columns = columns(manifest: "versions.manifest")

    /// The same for who is told of versions: of a manifest that is too long to come along no more is read than shows
    /// that it is. (Not of all with `substr`: it makes null of an empty one.)
    static let columnsToTell: String = {
        let length = (Limits.inlineManifestChunks + 1) * BlobCoding.referenceLength
        return columns(
            manifest: """
                CASE WHEN length(versions.manifest) > \(length) THEN substr(versions.manifest, 1, \(length)) \
                ELSE versions.manifest END
                """)
    }()

    private static func columns(manifest: String) -> String {
        """
        versions.id, versions.item, versions.role, versions.size, versions.modified, versions.device, \
        versions.deviceName, versions.base, versions.savedName, \(manifest), versions.saved, versions.superseded
        """
    }

    static func values(_ version: VersionRecord, in container: Int64) -> [(any DatabaseValueConvertible)?] {
        [
            container, Bytes(version.id.bytes), Bytes(version.item.bytes), version.role.rawValue, version.size,
            version.modifiedAt.nanoseconds, Bytes(version.device.bytes), version.deviceName,
            version.baseVersion.map { Bytes($0.bytes) }, Bytes(version.savedName.bytes),
            version.manifest.map { Bytes(BlobCoding.encode($0)) }, version.savedAt.nanoseconds,
            version.supersededAt?.nanoseconds,
        ]
    }

    /// - Parameter first: the column of the row in which the version's columns begin.
    /// - Returns: nil if the row has none (an outer join that found nothing).
    static func record(_ row: Row, first: Int = 0) throws -> VersionRecord? {
        guard let idBytes = row.bytes(first) else { return nil }
        guard let id = VersionID(bytes: idBytes), let item = ItemID(bytes: row.bytes(first + 1) ?? []),
            let role = VersionRecord.Role(rawValue: row.number(first + 2) ?? 0),
            let device = DeviceID(bytes: row.bytes(first + 5) ?? [])
        else { throw BlobReader.damaged }
        return VersionRecord(
            id: id, item: item, role: role, size: row.number(first + 3) ?? 0, modifiedAt: row.time(first + 4),
            device: device, deviceName: row.text(first + 6) ?? "",
            baseVersion: row.bytes(first + 7).flatMap { VersionID(bytes: $0) },
            savedName: ItemName(stored: row.bytes(first + 8) ?? []),
            manifest: try row.bytes(first + 9).map { bytes throws in try BlobCoding.manifest(bytes) },
            savedAt: row.time(first + 10), supersededAt: row.number(first + 11).map(Timestamp.init(nanoseconds:)))
    }
}
