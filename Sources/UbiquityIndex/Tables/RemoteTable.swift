package import UbiquityCore

/// Queries of the table `remote`: the cloud's last record of each item.
package struct RemoteTable: IndexTable {
    let reader: IndexReader

    /// Returns the ids and revisions of all records that are not deleted.
    package func liveRecords() throws -> [ItemID: Revision] {
        var result = [ItemID: Revision]()
        try db.run("SELECT id, revision FROM remote WHERE deleted = 0", []) { row in
            if let id: ItemID = row.id(0) { result[id] = Revision(row.int(1)) }
        }
        return result
    }

    func recordState(of id: ItemID) throws -> RecordState? {
        try currentPart.first("SELECT version, available FROM remote WHERE id = ?", [SQLValue(id)]) {
            RecordState(version: $0.id(0), isAvailable: $0.int(1) != 0)
        }
    }

    /// Returns the records of links that wait for their target.
    package func linksWaiting(for id: ItemID) throws -> [ItemID] {
        var result = [ItemID]()
        try db.run(
            "SELECT id FROM remote WHERE kind = 4 AND link = ? AND deleted = 0 AND unsettled IN (1, 3)",
            [.bytes(id.bytes)]
        ) { if let id: ItemID = $0.id(0) { result.append(id) } }
        return result
    }

    /// Returns the remote tree's items at a place. There may be two for a moment, while records arrive.
    package func remoteOccupants(of parent: ItemID, named name: ItemName) throws -> [RemoteItem] {
        try remotes(
            "SELECT \(RemoteCoding.columns) FROM remote WHERE parent = ? AND name = ? AND deleted = 0",
            [SQLValue(parent), SQLValue(name)])
    }

    /// Returns the remote tree's items in a folder, at most `limit`.
    package func remoteChildren(of parent: ItemID, limit: Int) throws -> [ItemID] {
        var result = [ItemID]()
        try db.run(
            "SELECT id FROM remote WHERE parent = ? AND deleted = 0 LIMIT ?", [SQLValue(parent), .int(Int64(limit))]
        ) { if let id: ItemID = $0.id(0) { result.append(id) } }
        return result
    }

    /// Returns items whose content this device has announced and not uploaded. Scans all records.
    package func announced(by device: DeviceID) throws -> [ItemID] {
        var result = [ItemID]()
        try db.run(
            "SELECT id FROM remote WHERE available = 0 AND deleted = 0 AND device = ?", [SQLValue(device)]
        ) { if let id: ItemID = $0.id(0) { result.append(id) } }
        return result
    }

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

    /// Returns records that were not in the snapshot of the present epoch: the cloud no longer has them. Deleted
    /// records are left out.
    package func remotesMissingFromSnapshot(limit: Int) throws -> [RemoteItem] {
        let epoch = try reader.meta.metaNumber("snapshotEpoch") ?? 0
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
