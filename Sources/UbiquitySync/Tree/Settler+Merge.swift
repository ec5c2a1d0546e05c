internal import UbiquityCore
internal import UbiquityIndex

// Merges two items of this device that the cloud has merged: a new one, and a known one that now has the name there.
extension Settler {
    /// Removes `double`, whose identity `row` is about to take. Its children move to `row`, and an edit that is not
    /// uploaded becomes a document of its own.
    mutating func dissolve(_ double: ItemRow, into row: ItemRow) throws {
        if !double.isDeleted {
            if double.kind == .directory {
                try moveChildren(of: double, to: row)
            } else if double.dirty.contains(.content) || double.isWriting {
                return try separate(double, from: row)
            }
        }
        if let content = double.content { try drop(content) }
        try transaction.delete(double)
        if double.entry != nil { transaction.note(.removed, before: double, after: nil) }
        if double.kind == .hardLink { try transaction.touchLinked(double.linkedID, now: now) }
    }

    private mutating func moveChildren(of double: ItemRow, to row: ItemRow) throws {
        for child in try transaction.children(of: double.key, after: nil, limit: .max) {
            guard let entry = child.entry else { continue }
            // Locally the new folder may be inside the other one, if moves are not uploaded yet.
            if try child.key == row.key || transaction.isWithinReach(row.key, child.key) ?? true {
                if child.key != row.key { try transaction.detach(child) }
                continue
            }
            var moved = child
            moved.entry = ItemRow.Entry(parent: row.key, name: entry.name)
            if try transaction.child(of: row.key, named: entry.name) != nil {
                // An item that exists only here has no other place to wait for.
                let isOnlyHere = child.isExcluded || child.flags.contains(.lingering)
                guard isOnlyHere || !child.dirty.isDisjoint(with: [.created, .place]) else {
                    try transaction.detach(child)
                    continue
                }
                moved.entry = child.isExcluded
                    ? ItemRow.Entry(
                        parent: row.key, name: try transaction.freeLocalName(near: entry.name, child.kind, in: row))
                    : try freeEntry(in: row.key, near: entry.name)
                if !isOnlyHere, !child.dirty.contains(.created) { moved.dirty.insert(.place) }
            }
            try transaction.update(moved, before: child)
            transaction.note(.moved, before: child, after: moved)
        }
    }

    func freeEntry(in parent: ItemKey, near name: ItemName) throws -> ItemRow.Entry {
        var number = 2
        while try transaction.child(of: parent, named: name.numbered(number)) != nil { number += 1 }
        return ItemRow.Entry(parent: parent, name: name.numbered(number))
    }

    /// Moves an item that only this device has to the next free name: an excluded item, a folder that remains only for
    /// excluded items, or a placeholder of another cloud. It has no other place to wait for.
    func moveAside(_ local: ItemRow) throws -> Bool {
        guard let entry = local.entry, let folder = try transaction.row(key: entry.parent) else { return false }
        var row = local
        // A folder that remains for excluded items is not excluded itself.
        row.entry = local.isExcluded
            ? ItemRow.Entry(
                parent: folder.key, name: try transaction.freeLocalName(near: entry.name, local.kind, in: folder))
            : try freeEntry(in: folder.key, near: entry.name)
        try transaction.update(row, before: local)
        transaction.note(.moved, before: local, after: row)
        return true
    }

    /// Keeps an edit of the double as a new document.
    private func separate(_ double: ItemRow, from row: ItemRow) throws {
        var next = double
        next.id = transaction.newItemID()
        if next.entry == nil, let entry = row.entry { next.entry = try freeEntry(in: entry.parent, near: entry.name) }
        try transaction.update(next, before: double)
        try transaction.sendAsNew(next)
        transaction.note(double.entry == nil ? .added : .attributes, before: double, after: next)
    }

    /// Gives an excluded local item a new id, so that the cloud's item is placed beside it. After a loss of power, the
    /// index may have lost that the item was included and uploaded.
    /// - Returns: whether there was such an item.
    func separateLocal(_ id: ItemID) throws -> Bool {
        guard let local = try transaction.row(id: id), local.isExcluded else { return false }
        var next = local
        next.id = transaction.newItemID()
        next.version = nil
        try transaction.update(next, before: local)
        for link in try transaction.allLinks(to: id) where link.isExcluded {
            var retargeted = link
            retargeted.linkTarget = next.id.bytes
            try transaction.update(retargeted, before: link)
        }
        try transaction.touchLinked(next.id, now: now)
        return true
    }
}
