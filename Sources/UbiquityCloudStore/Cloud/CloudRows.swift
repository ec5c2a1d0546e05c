import struct FoundationEssentials.Data
import GRDB
internal import UbiquityCore
internal import UbiquityWire

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

    /// 1970 for an invalid time: the content of a version matters more.
    func time(_ index: Int) -> Timestamp { Timestamp(nanoseconds: number(index) ?? 0) }

    func text(_ index: Int) -> String? {
        guard case .string(let text) = (self[index] as DatabaseValue).storage else { return nil }
        return text
    }
}

/// Converts between item records and the columns of `items`.
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
            item.createdAt.nanoseconds, item.modifiedAt.nanoseconds,
            BlobCoding.encode(storedXattrs(of: item)).map(Bytes.init),
            item.linkTarget.isEmpty ? nil : Bytes(item.linkTarget), item.version.map { Bytes($0.bytes) }, item.size,
            Int64(item.conflictCount), item.conflictBytes, Bytes(BlobCoding.encode(item.stamps)),
            item.hasHistory ? 1 : 0,
        ]
    }

    /// The unknown fields of an item are stored as an attribute of this name, which no attribute can have.
    private static let unknownFields: [UInt8] = [0]

    private static func storedXattrs(of item: ItemRecord) -> [Xattr] {
        guard !item.unknownFields.isEmpty else { return item.xattrs }
        return [Xattr(name: unknownFields, value: item.unknownFields)] + item.xattrs
    }

    /// - Parameter last: the container's last revision, if known. A later one is damage, and would make devices skip
    ///   all changes until that revision.
    /// - Returns: nil if the row is damaged: no device could read it, or could have sent it.
    static func record(_ row: Row, upTo last: Revision? = nil) -> ItemRecord? {
        guard let id = ItemID(bytes: row.bytes(0) ?? []),
            let kind = ItemKind(rawValue: UInt8(clamping: row.number(1) ?? 0)), !kind.isSpecial,
            let revision = row.number(2).map({ Revision($0) }), revision > .zero, revision <= last ?? revision,
            let parent = ItemID(bytes: row.bytes(4) ?? []), let name = name(row, of: id), let mode = row.number(6),
            let created = row.number(7), let modified = row.number(8), let size = row.number(12),
            let conflicts = row.number(13), let conflictBytes = row.number(14),
            let stamps = try? BlobCoding.stamps(row.bytes(15) ?? []),
            let xattrs = try? BlobCoding.xattrs(row.bytes(9) ?? [])
        else { return nil }
        var record = ItemRecord(
            id: id, kind: kind, revision: revision, parent: parent, name: name, mode: UInt32(clamping: mode),
            createdAt: Timestamp(nanoseconds: created), modifiedAt: Timestamp(nanoseconds: modified), stamps: stamps)
        record.deletedAt = row.number(3).map(Timestamp.init(nanoseconds:))
        record.xattrs = xattrs.filter { $0.name != unknownFields }
        record.unknownFields = xattrs.first { $0.name == unknownFields }?.value ?? []
        record.linkTarget = row.bytes(10) ?? []
        record.version = row.bytes(11).flatMap { VersionID(bytes: $0) }
        record.size = size
        record.conflictCount = Int(clamping: conflicts)
        record.conflictBytes = conflictBytes
        record.hasHistory = row.number(16) == 1
        // Neither live nor deleted.
        guard record.isLive == ((row[3] as DatabaseValue).isNull) else { return nil }
        return record.isSound ? record : nil
    }

    private static func name(_ row: Row, of id: ItemID) -> ItemName? {
        row.bytes(5).flatMap { id == .root ? ItemName(stored: $0) : try? ItemName($0) }
    }
}

extension ItemRecord {
    /// How far a cloud's clock may have been set back, in seconds: two years.
    private static let clockTolerance = 2.0 * 366 * 86400

    /// Whether its fields are consistent, and the deletion is not before the creation, within the tolerance of clocks.
    fileprivate var isSound: Bool {
        if let deletedAt, deletedAt.advanced(bySeconds: Self.clockTolerance) < stamps.existence.time { return false }
        guard conflictCount >= 0, conflictBytes >= 0 else { return false }
        return (try? remoteItem(nil, conflicts: []).check()) != nil
    }
}

/// Converts between version records and the columns of `versions`.
enum VersionRows {
    static let columns = columns(manifest: "versions.manifest")

    /// The same for answers to devices. Of a manifest that is too long to be included, it reads only enough to show
    /// that. (Not `substr` for all: it turns an empty one into null.)
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
        versions.deviceName, versions.base, versions.savedName, \(manifest), versions.saved, versions.superseded, \
        versions.ancestor
        """
    }

    static func values(_ version: VersionRecord, in container: Int64) -> [(any DatabaseValueConvertible)?] {
        [
            container, Bytes(version.id.bytes), Bytes(version.item.bytes), version.role.rawValue, version.size,
            version.modifiedAt.nanoseconds, Bytes(version.device.bytes), version.deviceName,
            version.baseVersion.map { Bytes($0.bytes) }, Bytes(version.savedName.bytes),
            version.manifest.map { Bytes(BlobCoding.encode($0)) }, version.savedAt.nanoseconds,
            version.supersededAt?.nanoseconds, version.ancestor.map { Bytes($0.bytes) },
        ]
    }

    /// - Parameters:
    ///   - first: the row's column at which the version's columns begin.
    ///   - isWhole: whether a long manifest is complete.
    /// - Returns: nil if the row has no version (an outer join without a match), or it is damaged. A damaged version
    ///   counts as lost, until a device that has the content sends it again.
    static func record(_ row: Row, first: Int = 0, isWhole: Bool = true) -> VersionRecord? {
        guard let id = VersionID(bytes: row.bytes(first) ?? []), let item = ItemID(bytes: row.bytes(first + 1) ?? []),
            let role = VersionRecord.Role(rawValue: row.number(first + 2) ?? 0),
            let device = DeviceID(bytes: row.bytes(first + 5) ?? [])
        else { return nil }
        var size = row.number(first + 3), manifest: Manifest?
        if let bytes = row.bytes(first + 9) {
            guard let chunks = self.manifest(bytes) else { return nil }
            // The chunks determine the size, if all of them are listed.
            if isWhole || chunks.count <= Limits.inlineManifestChunks {
                size = chunks.reduce(0) { $0 + Int64($1.length) }
            }
            manifest = chunks
        }
        guard let size else { return nil }
        var version = VersionRecord(
            id: id, item: item, role: role, size: size, modifiedAt: row.time(first + 4),
            device: device, deviceName: row.text(first + 6) ?? "",
            baseVersion: row.bytes(first + 7).flatMap { VersionID(bytes: $0) },
            savedName: savedName(row.bytes(first + 8)),
            manifest: manifest, savedAt: row.time(first + 10),
            supersededAt: row.number(first + 11).map(Timestamp.init(nanoseconds:)))
        version.ancestor = row.bytes(first + 12).flatMap { VersionID(bytes: $0) }
        return (try? version.remoteContent.check()) != nil ? version : nil
    }

    /// Nil if the bytes are not a valid manifest.
    static func manifest(_ bytes: [UInt8]) -> Manifest? {
        guard let chunks = try? BlobCoding.manifest(bytes), chunks.allSatisfy({ (try? $0.check()) != nil }) else {
            return nil
        }
        return chunks
    }

    /// An invalid name must not make the content inaccessible.
    private static func savedName(_ bytes: [UInt8]?) -> ItemName {
        bytes.flatMap { try? ItemName($0) } ?? ItemName(stored: Array("unknown".utf8))
    }
}
