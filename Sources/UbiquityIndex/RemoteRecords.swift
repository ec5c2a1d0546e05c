import GRDB
package import UbiquityCore

// The remote tree: each item as the cloud last told it.

extension IndexReader {
    package func remote(id: ItemID) throws -> RemoteItem? {
        try remotes("SELECT \(RemoteCoding.columns) FROM remote WHERE id = ?", [Blob(id.bytes)]).first
    }

    func remoteRevision(of id: ItemID) throws -> Revision? {
        try number("SELECT revision FROM remote WHERE id = ?", [Blob(id.bytes)]).map(Revision.init)
    }

    /// Records in this state, at most `limit`.
    package func records(_ state: SettlingState, limit: Int) throws -> [ItemID] {
        let rows = try Row.fetchAll(
            db.cachedStatement(sql: "SELECT id FROM remote WHERE unsettled = ? AND unsettled <> 0 LIMIT ?"),
            arguments: [state.rawValue, limit])
        return rows.compactMap { RowCoding.bytes($0, 0).flatMap { ItemID(bytes: $0) } }
    }

    func remotes(_ sql: String, _ arguments: [(any DatabaseValueConvertible)?]) throws -> [RemoteItem] {
        let cursor = try Row.fetchCursor(db.cachedStatement(sql: sql), arguments: StatementArguments(arguments))
        var result = [RemoteItem]()
        while let row = try cursor.next() { result.append(try RemoteCoding.item(row)) }
        return result
    }

    /// Where this device stands in the change feed, and of which cloud.
    package func feedPosition() throws -> FeedPosition {
        FeedPosition(
            revision: Revision(try metaNumber("revision") ?? 0),
            incarnation: try metaNumber("incarnation").map { UInt64(bitPattern: $0) },
            snapshotEpoch: try metaNumber("snapshotEpoch") ?? 0)
    }

    func metaNumber(_ name: String) throws -> Int64? { try number("SELECT value FROM meta WHERE name = ?", [name]) }
}

/// Whether the local tree follows a record. The numbers are stored.
package enum SettlingState: Int64, Sendable, Hashable {
    case settled = 0
    /// A parent not known, a name taken, a writer at work: tried again after each page and each commit.
    case waiting = 1
    /// A newer content is to be downloaded in the place of the one that is here.
    case awaitingContent = 2
}

package struct FeedPosition: Sendable, Hashable {
    package var revision: Revision
    /// Of the cloud the revision belongs to; nil before the first contact.
    package var incarnation: UInt64?
    /// Counts the snapshots read: records of an older epoch were not in the newest.
    package var snapshotEpoch: Int64

    package init(revision: Revision, incarnation: UInt64?, snapshotEpoch: Int64) {
        self.revision = revision
        self.incarnation = incarnation
        self.snapshotEpoch = snapshotEpoch
    }
}

extension IndexTransaction {
    /// Stores a record. An older revision than the one known is not stored.
    /// - Returns: whether it was stored.
    @discardableResult
    package func setRemote(_ item: RemoteItem, state: SettlingState) throws -> Bool {
        if let known = try remoteRevision(of: item.id), known > item.revision { return false }
        let epoch = try metaNumber("snapshotEpoch") ?? 0
        try execute(
            "INSERT OR REPLACE INTO remote (\(RemoteCoding.columns), unsettled, epoch) VALUES "
                + "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
            RemoteCoding.values(item) + [state.rawValue, epoch])
        return true
    }

    package func setState(_ id: ItemID, _ state: SettlingState) throws {
        try execute("UPDATE remote SET unsettled = ? WHERE id = ?", [state.rawValue, Blob(id.bytes)])
    }

    /// Notes that a record was met in the snapshot that is being read.
    package func noteInSnapshot(_ id: ItemID) throws {
        let epoch = try metaNumber("snapshotEpoch") ?? 0
        try execute("UPDATE remote SET epoch = ? WHERE id = ? AND epoch < ?", [epoch, Blob(id.bytes), epoch])
    }

    package func forgetRemote(_ id: ItemID) throws {
        try execute("DELETE FROM remote WHERE id = ?", [Blob(id.bytes)])
    }

    package func setFeedPosition(_ position: FeedPosition) throws {
        try setMeta("revision", position.revision.number)
        try setMeta("incarnation", position.incarnation.map { Int64(bitPattern: $0) })
        try setMeta("snapshotEpoch", position.snapshotEpoch)
    }

    private func setMeta(_ name: String, _ value: Int64?) throws {
        try execute("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", [name, value])
    }

    /// Records (not deleted ones) that were not in the snapshot of the present epoch: gone at the cloud.
    package func remotesMissingFromSnapshot(limit: Int) throws -> [RemoteItem] {
        let epoch = try metaNumber("snapshotEpoch") ?? 0
        return try remotes(
            "SELECT \(RemoteCoding.columns) FROM remote WHERE epoch < ? AND deleted = 0 LIMIT ?", [epoch, Int64(limit)])
    }
}

/// Between `RemoteItem` and the columns of `remote`.
enum RemoteCoding {
    static let columns = """
        id, revision, kind, deleted, parent, name, mode, created, modified, xattrs, link, version, size, available, \
        device, deviceName, manifest, conflicts, unknown
        """

    static func values(_ item: RemoteItem) -> [(any DatabaseValueConvertible)?] {
        [
            Blob(item.id.bytes), item.revision.number, Int64(item.kind.rawValue), item.isDeleted ? 1 : 0,
            Blob(item.parent.bytes), Blob(item.name.bytes), Int64(item.mode), item.createdAt.nanoseconds,
            item.modifiedAt.nanoseconds, BlobCoding.encode(item.xattrs).map(Blob.init),
            item.linkTarget.isEmpty ? nil : Blob(item.linkTarget), item.content.map { Blob($0.version.bytes) },
            item.content?.size, item.content.map { $0.isAvailable ? 1 : 0 }, item.content.map { Blob($0.device.bytes) },
            item.content?.deviceName, item.content?.manifest.map { Blob(BlobCoding.encode($0)) }, Int64(item.conflictCount),
            item.unknownFields.isEmpty ? nil : Blob(item.unknownFields),
        ]
    }

    static func item(_ row: Row) throws -> RemoteItem {
        guard let id = ItemID(bytes: RowCoding.bytes(row, 0) ?? []),
            let kind = ItemKind(rawValue: UInt8(clamping: RowCoding.int(row, 2))),
            let parent = ItemID(bytes: RowCoding.bytes(row, 4) ?? [])
        else { throw UbiquityError(.io, "a record of the index is damaged") }
        return RemoteItem(
            id: id, kind: kind, revision: Revision(RowCoding.int(row, 1)), isDeleted: RowCoding.int(row, 3) != 0,
            parent: parent, name: ItemName(stored: RowCoding.bytes(row, 5) ?? []),
            mode: UInt32(truncatingIfNeeded: RowCoding.int(row, 6)), createdAt: RowCoding.time(row, 7),
            modifiedAt: RowCoding.time(row, 8), xattrs: try BlobCoding.xattrs(RowCoding.bytes(row, 9)),
            linkTarget: RowCoding.bytes(row, 10) ?? [], content: try content(row),
            conflictCount: Int(RowCoding.int(row, 17)), unknownFields: RowCoding.bytes(row, 18) ?? [])
    }

    private static func content(_ row: Row) throws -> RemoteContent? {
        guard let version = RowCoding.version(row, 11) else { return nil }
        return RemoteContent(
            version: version, size: RowCoding.int(row, 12), isAvailable: RowCoding.int(row, 13) != 0,
            device: DeviceID(bytes: RowCoding.bytes(row, 14) ?? []) ?? DeviceID(high: 0, low: 0),
            deviceName: (row[15] as DatabaseValue).storage.value as? String ?? "",
            manifest: try RowCoding.bytes(row, 16).map(BlobCoding.manifest))
    }
}
