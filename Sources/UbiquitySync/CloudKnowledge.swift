internal import UbiquityCore
internal import UbiquityIndex

/// What this device knows of the cloud about a changed item. The planner and the uploader decide by it.
struct CloudKnowledge {
    let reader: IndexReader

    /// Whether a new file is not announced before its content is at the cloud: one that has its name there may be the
    /// same, put there by another device, and the cloud makes one of two that are equal.
    func comesWithContent(_ row: ItemRow) throws -> Bool {
        guard row.kind == .file, row.dirty.contains(.created), row.dirty.contains(.content), let entry = row.entry,
            let folder = try folderAtCloud(entry.parent)
        else { return false }
        // One of several that differ may be it that got a number.
        for number in 1...SyncLimits.comparedNames {
            let name = number == 1 ? entry.name : entry.name.numbered(number)
            let occupants = try reader.remoteOccupants(of: folder, named: name).filter { $0.id != row.id }
            guard !occupants.isEmpty else { return false }
            if occupants.contains(where: { Self.mayBe($0, row) }) { return true }
        }
        return false
    }

    /// Of another size it is another, and nobody has to wait to see both.
    private static func mayBe(_ occupant: RemoteItem, _ row: ItemRow) -> Bool {
        guard occupant.kind == .file, let content = occupant.content else { return false }
        return content.isAvailable && content.size == row.size
    }

    /// The folder as the cloud has it; one that is new here becomes one with what has its name there.
    private func folderAtCloud(_ key: ItemKey) throws -> ItemID? {
        guard let row = try reader.row(key: key) else { return nil }
        guard row.dirty.contains(.created) else { return row.id }
        guard let entry = row.entry, let above = try folderAtCloud(entry.parent) else { return nil }
        return try reader.remoteOccupants(of: above, named: entry.name).first { $0.kind == .directory }?.id
    }

    /// Whether the cloud is not known to have the deleted item: what brings it into being may be on its way still. No
    /// other device has seen it, so nobody is asked, and what has its name here next must not come before.
    func isUnknownDeletion(_ row: ItemRow) throws -> Bool {
        guard row.isDeleted, row.flags.contains(.creationSent) else { return false }
        return try reader.remote(id: row.id)?.isDeleted ?? true
    }

    /// Of a new item the answer may have been lost: then it has a place there.
    func isAtCloud(_ row: ItemRow) throws -> Bool {
        try !row.dirty.contains(.created) || reader.remoteParent(of: row.id) != nil
    }

    /// Whether the cloud has deleted the item and takes it back with a content. Of one that was given up before there
    /// was any it keeps no name.
    func comesBack(_ row: ItemRow) throws -> Bool {
        try row.dirty.contains(.content) && reader.remote(id: row.id)?.isDeleted ?? true
    }
}
