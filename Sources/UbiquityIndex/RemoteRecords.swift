package import UbiquityCore

// The remote tree: the cloud's last record of each item.

extension IndexReader {
    /// Returns the item's record, without its conflict versions (see `conflicts`).
    package func remote(id: ItemID) throws -> RemoteItem? {
        try currentPart.first(
            "SELECT \(RemoteCoding.columns) FROM remote WHERE id = ?", [SQLValue(id)], RemoteCoding.item)
    }

    func remoteRevision(of id: ItemID) throws -> Revision? {
        try currentPart.first("SELECT revision FROM remote WHERE id = ?", [SQLValue(id)]) { Revision($0.int(0)) }
    }

    /// Returns the folder that holds the item at the cloud.
    package func remoteParent(of id: ItemID) throws -> ItemID? {
        var parent: ItemID?
        try db.run("SELECT parent FROM remote WHERE id = ?", [SQLValue(id)]) { parent = $0.id(0) }
        return parent
    }

    /// Returns records in this folder at the cloud that wait for the folder, or for their name.
    package func recordsWaiting(in parent: ItemID) throws -> [ItemID] {
        var result = [ItemID]()
        try db.run(
            "SELECT id FROM remote WHERE parent = ? AND deleted = 0 AND unsettled IN (1, 3)", [SQLValue(parent)]
        ) { if let id: ItemID = $0.id(0) { result.append(id) } }
        return result
    }

    /// Returns whether the record is in this state.
    package func isRecord(_ id: ItemID, _ state: SettlingState) throws -> Bool {
        try exists("SELECT 1 FROM remote WHERE id = ? AND unsettled = ?", [SQLValue(id), .int(state.rawValue)])
    }

    /// Returns records in this state, at most `limit`.
    package func records(_ state: SettlingState, limit: Int) throws -> [ItemID] {
        var result = [ItemID]()
        try db.run(
            "SELECT id FROM remote WHERE unsettled = ? AND unsettled <> 0 LIMIT ?",
            [.int(state.rawValue), .int(Int64(limit))]
        ) { if let id: ItemID = $0.id(0) { result.append(id) } }
        return result
    }

    func remotes(_ sql: String, _ values: [SQLValue]) throws -> [RemoteItem] {
        var result = [RemoteItem]()
        try db.run(sql, values) { result.append(try RemoteCoding.item($0)) }
        return result
    }

    /// Returns this device's position in the change feed, and the cloud it belongs to.
    package func feedPosition() throws -> FeedPosition {
        // One statement, so that all values are of one commit. A revision with another one's mark looks to the cloud
        // like a history that it lacks.
        let names = ["revision", "incarnation", "snapshotEpoch", "inSnapshot", "mark"]
        let columns = names.map { "(SELECT value FROM meta WHERE name = '\($0)')" }.joined(separator: ", ")
        return try db.first("SELECT \(columns)", []) { row in
            FeedPosition(
                // An impossible revision is replaced by the beginning.
                revision: Revision(max(0, row.optionalInt(0) ?? 0)),
                incarnation: row.optionalInt(1).map { UInt64(bitPattern: $0) }, snapshotEpoch: row.optionalInt(2) ?? 0,
                isInSnapshot: row.optionalInt(3) == 1, mark: UInt64(bitPattern: row.optionalInt(4) ?? 0))
        } ?? FeedPosition(revision: .zero, incarnation: nil, snapshotEpoch: 0)
    }

    /// Returns whether the feed was ever read to its end. Before that, the local tree is incomplete.
    package func hasBeenCaughtUp() throws -> Bool { try metaNumber("caughtUp") == 1 }

    /// Returns whether more pages of the feed follow the last one applied. Related changes may be spread over several
    /// pages.
    package func isFeedBehind() throws -> Bool { try metaNumber("feedBehind") == 1 }

    func metaNumber(_ name: String) throws -> Int64? {
        try number("SELECT value FROM meta WHERE name = ?", [.text(name)])
    }
}

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

extension IndexTransaction {
    /// Stops waiting for a download, because the present content is gone: a newer record can be placed at once.
    package func reviewAwaitedContent(of id: ItemID) throws {
        if try isRecord(id, .awaitingContent) { try setState(id, .waiting) }
    }

    /// Stores a record, unless it is older than the known one.
    ///
    /// - Returns: Whether it was stored.
    @discardableResult
    package func setRemote(_ item: RemoteItem, state: SettlingState) throws -> Bool {
        let known = try db.first(
            "SELECT revision, conflicts, available, version FROM remote WHERE id = ?", [SQLValue(item.id)]
        ) { row in
            (
                revision: Revision(row.int(0)), conflicts: row.int(1), isAnnounced: row.optionalInt(2) == 0,
                content: RecordState(version: row.id(3), isAvailable: row.int(2) != 0)
            )
        }
        if let known, known.revision > item.revision { return false }
        let epoch = try metaNumber("snapshotEpoch") ?? 0
        try executeAtOnce(RemoteCoding.store, RemoteCoding.values(item) + [.int(state.rawValue), .int(epoch)])
        noteRecord(of: item.id, before: known?.content, after: RecordState(item.content))
        if !item.conflicts.isEmpty || known.map({ $0.conflicts > 0 }) ?? false { try setConflicts(of: item) }
        // The row stays the same, but its status changes: the content is at the cloud now.
        if known?.isAnnounced == true, item.content?.isAvailable == true, let row = try row(id: item.id) {
            note(.attributes, before: row, after: row)
        }
        return true
    }

    package func setState(_ id: ItemID, _ state: SettlingState) throws {
        try executeAtOnce(RemoteCoding.setState, [.int(state.rawValue), SQLValue(id)])
    }

    /// Makes the records in this folder wait to be placed again, because the folder here is another one now.
    package func awaitFolder(_ parent: ItemID) throws {
        try executeAtOnce(
            RemoteCoding.setStates,
            [.int(SettlingState.awaitingParent.rawValue), SQLValue(parent)])
    }

    /// Records that a record is in the snapshot being read.
    package func noteInSnapshot(_ id: ItemID) throws {
        let epoch = try metaNumber("snapshotEpoch") ?? 0
        try executeAtOnce(RemoteCoding.setEpoch, [.int(epoch), SQLValue(id), .int(epoch)])
    }

    package func forgetRemote(_ id: ItemID) throws {
        noteRecord(of: id, before: try recordState(of: id), after: nil)
        try executeAtOnce(RemoteCoding.forget, [SQLValue(id)])
        try forgetConflicts(of: id)
    }

    package func setFeedPosition(_ position: FeedPosition) throws {
        try setMeta("revision", position.revision.number)
        try setMeta("incarnation", position.incarnation.map { Int64(bitPattern: $0) })
        try setMeta("snapshotEpoch", position.snapshotEpoch)
        try setMeta("inSnapshot", position.isInSnapshot ? 1 : 0)
        try setMeta("mark", Int64(bitPattern: position.mark))
    }

    /// See `hasBeenCaughtUp`.
    package func setCaughtUp(_ isSo: Bool) throws { try setMeta("caughtUp", isSo ? 1 : 0) }

    /// See `isFeedBehind`.
    package func setFeedBehind(_ isSo: Bool) throws {
        if try isFeedBehind() != isSo { try setMeta("feedBehind", isSo ? 1 : 0) }
    }

    func setMeta(_ name: String, _ value: Int64?) throws {
        try execute("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", [.text(name), SQLValue(value)])
    }

}

extension IndexReader {
    /// Returns records that were not in the snapshot of the present epoch: the cloud no longer has them. Deleted
    /// records are left out.
    package func remotesMissingFromSnapshot(limit: Int) throws -> [RemoteItem] {
        let epoch = try metaNumber("snapshotEpoch") ?? 0
        return try remotes(
            "SELECT \(RemoteCoding.columns) FROM remote WHERE epoch < ? AND deleted = 0 LIMIT ?",
            [.int(epoch), .int(Int64(limit))])
    }

    /// Returns records that the cloud changed last at or before `revision`, without deleted ones. They may be all, so
    /// use it only on a device that has just begun.
    package func remotes(through revision: Revision) throws -> [RemoteItem] {
        try remotes(
            "SELECT \(RemoteCoding.columns) FROM remote WHERE revision <= ? AND deleted = 0", [.int(revision.number)])
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
