internal import UbiquityCore
internal import UbiquityIndex

/// Questions about the cloud's state of a changed item, answered from the index. The planner and the uploader ask them.
struct CloudKnowledge {
    let reader: IndexReader

    /// Whether a new file is announced only with its content. A file with its name at the cloud may be the same one,
    /// uploaded by another device, and the cloud merges two equal files.
    func comesWithContent(_ row: ItemRow) throws -> Bool {
        guard row.kind == .file, row.dirty.contains(.created), row.dirty.contains(.content), let entry = row.entry,
            let folder = try folderAtCloud(entry.parent)
        else { return false }
        // The equal file may have got a number, beside others that differ.
        for number in 1...SyncLimits.comparedNames {
            let name = number == 1 ? entry.name : entry.name.numbered(number)
            let occupants = try reader.remoteOccupants(of: folder, named: name).filter { $0.id != row.id }
            guard !occupants.isEmpty else { return false }
            if occupants.contains(where: { Self.mayBe($0, row) }) { return true }
        }
        return false
    }

    /// Files of different sizes differ, so both can be shown at once.
    private static func mayBe(_ occupant: RemoteItem, _ row: ItemRow) -> Bool {
        guard occupant.kind == .file, let content = occupant.content else { return false }
        return content.isAvailable && content.size == row.size
    }

    /// The cloud's id of the folder. A new folder is merged into the cloud's folder of the same name.
    private func folderAtCloud(_ key: ItemKey) throws -> ItemID? {
        guard let row = try reader.row(key: key) else { return nil }
        guard row.dirty.contains(.created) else { return row.id }
        guard let entry = row.entry, let above = try folderAtCloud(entry.parent) else { return nil }
        return try reader.remoteOccupants(of: above, named: entry.name).first { $0.kind == .directory }?.id
    }

    /// Whether the cloud is not known to have the deleted item, while its creation may be in flight. No other device
    /// has seen it, so its deletion needs no confirmation, and the next item of that name must not precede it.
    func isUnknownDeletion(_ row: ItemRow) throws -> Bool {
        guard row.isDeleted, row.flags.contains(.creationSent) else { return false }
        return try reader.remote(id: row.id)?.isDeleted ?? true
    }

    /// Whether the cloud has the item. It may have a new one, if the answer to its creation was lost.
    func isAtCloud(_ row: ItemRow) throws -> Bool {
        try !row.dirty.contains(.created) || reader.remoteParent(of: row.id) != nil
    }

    /// Whether the cloud has deleted the item and restores it with a content. It keeps no hard link to an item that was
    /// given up before it had a content.
    func comesBack(_ row: ItemRow) throws -> Bool {
        try row.dirty.contains(.content) && reader.remote(id: row.id)?.isDeleted ?? true
    }
}
