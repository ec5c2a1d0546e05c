package import UbiquityCore

/// Changes of the table `remote`. The totals of folders and the conflict versions follow.
package struct RemoteWriter: TransactionPart {
    let transaction: IndexTransaction

    /// Deletes all of the cloud's records. Decisions about versions stay: an older copy of the same cloud has those
    /// versions, and a cloud that never had them ignores the decisions.
    package func forgetAllRemotes() throws {
        try executeAtOnce("DELETE FROM remote", [])
        transaction.recountFolders()
        try execute("DELETE FROM conflicts", [])
    }

    /// Stops waiting for a download, because the present content is gone: a newer record can be placed at once.
    package func reviewAwaitedContent(of id: ItemID) throws {
        if try reader.remotes.isRecord(id, .awaitingContent) { try setState(id, .waiting) }
    }

    /// Stores a record, unless it is older than the known one.
    ///
    /// - Returns: Whether it was stored.
    @discardableResult
    package func setRemote(_ item: RemoteItem, state: SettlingState) throws -> Bool {
        let known = try reader.db.first(
            "SELECT revision, conflicts, available, version FROM remote WHERE id = ?", [SQLValue(item.id)]
        ) { row in
            (
                revision: Revision(row.int(0)), conflicts: row.int(1), isAnnounced: row.optionalInt(2) == 0,
                content: RecordState(version: row.id(3), isAvailable: row.int(2) != 0)
            )
        }
        if let known, known.revision > item.revision { return false }
        let epoch = try reader.meta.metaNumber("snapshotEpoch") ?? 0
        try executeAtOnce(RemoteCoding.store, RemoteCoding.values(item) + [.int(state.rawValue), .int(epoch)])
        transaction.noteRecord(of: item.id, before: known?.content, after: RecordState(item.content))
        if !item.conflicts.isEmpty || known.map({ $0.conflicts > 0 }) ?? false {
            try transaction.versions.setConflicts(of: item)
        }
        // The row stays the same, but its status changes: the content is at the cloud now.
        if known?.isAnnounced == true, item.content?.isAvailable == true, let row = try transaction.row(id: item.id) {
            transaction.note(.attributes, before: row, after: row)
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
        let epoch = try reader.meta.metaNumber("snapshotEpoch") ?? 0
        try executeAtOnce(RemoteCoding.setEpoch, [.int(epoch), SQLValue(id), .int(epoch)])
    }

    package func forgetRemote(_ id: ItemID) throws {
        transaction.noteRecord(of: id, before: try reader.remotes.recordState(of: id), after: nil)
        try executeAtOnce(RemoteCoding.forget, [SQLValue(id)])
        try transaction.versions.forgetConflicts(of: id)
    }
}
