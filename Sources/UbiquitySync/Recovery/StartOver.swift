internal import UbiquityCore
internal import UbiquityIndex

extension IndexTransaction {
    /// Forgets the remote tree because the cloud is another one. Local items are uploaded as new. A placeholder
    /// remains, and reports its content as unavailable until the old cloud's data is restored.
    func startOver() throws {
        for row in try allRows() where row.key != .root && !row.isExcluded {
            // A link without a place may have outlived its target: it has no name that would have kept it here.
            if try row.isDeleted || row.kind == .hardLink && row.entry == nil && !leadsToSyncedItem(row) {
                try delete(row)
            } else if row.kind != .file || row.contentState == .complete {
                try sendAsNew(placeAgain(row))
            }
        }
        try forgetAllRemotes()
    }

    private func leadsToSyncedItem(_ link: ItemRow) throws -> Bool {
        guard let target = try named(link) else { return false }
        return !target.isExcluded && target.kind != .directory && target.kind != .hardLink
    }

    /// Gives an item without a place one with a free name, because the present cloud may never report a place.
    private func placeAgain(_ row: ItemRow) throws -> ItemRow {
        guard row.entry == nil else { return row }
        let record = try remote(id: row.id)
        var folder = ItemKey.root
        if let parent = try record.flatMap({ try self.row(id: $0.parent) }), parent.kind == .directory,
            parent.entry != nil, !parent.staysHere, try isWithinReach(parent.key, row.key) == false
        {
            folder = parent.key
        }
        // Only a cloud that lies names an item like the versions folder, and an honest cloud would refuse the name.
        let known = record?.name == .versionsFolder ? nil : record?.name
        let name = known ?? ItemName(stored: Array("Recovered".utf8))
        var entry = ItemRow.Entry(parent: folder, name: name), number = 2
        while try child(of: folder, named: entry.name) != nil {
            entry.name = name.numbered(number)
            number += 1
        }
        var next = row
        next.entry = entry
        try update(next, before: row)
        note(.added, before: row, after: next)
        if row.kind == .hardLink { try touchLinked(row.linkedID, now: row.changedAt) }
        return next
    }
}

extension IndexQueries {
    /// Whether the row is a placeholder of another cloud (see `startOver`). The present cloud does not have the item.
    func isOfAnotherCloud(_ row: ItemRow) throws -> Bool { try row.isPlaceholder && remote(id: row.id) == nil }
}
