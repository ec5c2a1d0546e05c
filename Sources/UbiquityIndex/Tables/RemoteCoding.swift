package import UbiquityCore

/// Whether the local tree has placed a record. The numbers are stored.
package enum SettlingState: Int64, Sendable, Hashable {
    case settled = 0
    /// The parent is unknown, the name is taken, or a program writes the file. Retried after each page and each commit.
    case waiting = 1
    /// A newer content must be downloaded before it replaces the present one.
    case awaitingContent = 2
    /// The folder is not here yet. Retried when it arrives.
    case awaitingParent = 3
    /// The package shows an older state as a whole until everything it needs of the newer one is here.
    case awaitingPackage = 4
}

package struct FeedPosition: Sendable, Hashable {
    package var revision: Revision
    /// The cloud that the revision belongs to; nil before the first contact.
    package var incarnation: UInt64?
    /// Counts the snapshots read. Records of an older epoch were not in the newest snapshot.
    package var snapshotEpoch: Int64
    /// A snapshot was begun and not read to its end. Records missing in it are not dropped yet.
    package var isInSnapshot: Bool
    /// The mark that the cloud gave the revision; 0 if it gave none.
    package var mark: UInt64

    package init(
        revision: Revision, incarnation: UInt64?, snapshotEpoch: Int64, isInSnapshot: Bool = false, mark: UInt64 = 0
    ) {
        self.revision = revision
        self.incarnation = incarnation
        self.snapshotEpoch = snapshotEpoch
        self.isInSnapshot = isInSnapshot
        self.mark = mark
    }
}

/// Converts between `RemoteItem` and the columns of `remote`.
enum RemoteCoding {
    static let columns = """
        id, revision, kind, deleted, parent, name, mode, created, modified, xattrs, link, version, size, available, \
        device, deviceName, manifest, conflicts, unknown, history
        """

    /// Inserts or replaces a record.
    static let store = {
        let all = (columns + ", unsettled, epoch").split(separator: ", ")
        let places = all.map { _ in "?" }.joined(separator: ",")
        let replaced = all.dropFirst().map { "\($0)=excluded.\($0)" }.joined(separator: ",")
        return "INSERT INTO remote (\(all.joined(separator: ","))) VALUES (\(places)) "
            + "ON CONFLICT (id) DO UPDATE SET \(replaced)"
    }()

    static let setState = "UPDATE remote SET unsettled = ? WHERE id = ?"
    static let setStates = "UPDATE remote SET unsettled = ? WHERE parent = ? AND deleted = 0"
    static let setEpoch = "UPDATE remote SET epoch = ? WHERE id = ? AND epoch < ?"
    static let forget = "DELETE FROM remote WHERE id = ?"

    static func values(_ item: RemoteItem) -> [SQLValue] {
        let content = item.content
        return [
            SQLValue(item.id), .int(item.revision.number), .int(Int64(item.kind.rawValue)), item.isDeleted ? 1 : 0,
            SQLValue(item.parent), SQLValue(item.name), .int(Int64(item.mode)), .int(item.createdAt.nanoseconds),
            .int(item.modifiedAt.nanoseconds), SQLValue(nonEmpty: BlobCoding.encode(item.xattrs)),
            SQLValue(nonEmpty: item.linkTarget), SQLValue(content?.version), SQLValue(content?.size),
            content.map { $0.isAvailable ? 1 : 0 } ?? nil, SQLValue(content?.device),
            content.map { .text($0.deviceName) } ?? nil,
            content?.manifest.map { .bytes(BlobCoding.encode($0)) } ?? nil, .int(Int64(item.conflictCount)),
            SQLValue(nonEmpty: item.unknownFields), item.hasHistory ? 1 : 0,
        ]
    }

    static func item(_ row: SQLRow) throws -> RemoteItem {
        guard let id: ItemID = row.id(0), let kind = ItemKind(rawValue: UInt8(clamping: row.int(2))),
            let parent: ItemID = row.id(4)
        else { throw BlobCoding.damaged }
        return RemoteItem(
            id: id, kind: kind, revision: Revision(row.int(1)), isDeleted: row.int(3) != 0, parent: parent,
            name: ItemName(stored: row.bytes(5) ?? []), mode: UInt32(truncatingIfNeeded: row.int(6)),
            createdAt: row.time(7), modifiedAt: row.time(8), xattrs: BlobCoding.readable(row.bytes(9)) ?? [],
            linkTarget: row.bytes(10) ?? [], content: content(row), conflictCount: Int(row.int(17)),
            hasHistory: row.int(19) != 0, unknownFields: row.bytes(18) ?? [])
    }

    /// If the chunk list is unreadable, the cloud is asked for it, as it is for long lists.
    private static func content(_ row: SQLRow) -> RemoteContent? {
        guard let version: VersionID = row.id(11) else { return nil }
        return RemoteContent(
            version: version, size: row.int(12), isAvailable: row.int(13) != 0,
            device: row.id(14) ?? DeviceID(high: 0, low: 0), deviceName: row.text(15) ?? "",
            manifest: row.bytes(16).flatMap { try? BlobCoding.manifest($0) })
    }
}
