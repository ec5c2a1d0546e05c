internal import UbiquityCore
internal import UbiquityIndex

// Two items of this device that the cloud has made one: a new one, and one it knows that has that name there by now.
extension Settler {
    /// Takes away `double`, whose identity `row` is about to take: what is in it goes over to `row`, and an edit that
    /// has not gone up becomes a document of its own.
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
            // Here the new folder may lie in the other one, where moves have not gone up yet.
            if try child.key == row.key || transaction.isWithinReach(row.key, child.key) ?? true {
                if child.key != row.key { try transaction.detach(child) }
                continue
            }
            var moved = child
            moved.entry = ItemRow.Entry(parent: row.key, name: entry.name)
            if try transaction.child(of: row.key, named: entry.name) != nil {
                // What is only here has no other place to wait for.
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

    /// Keeps an edit of the double as a new document.
    private func separate(_ double: ItemRow, from row: ItemRow) throws {
        var next = double
        next.id = transaction.newItemID()
        if next.entry == nil, let entry = row.entry { next.entry = try freeEntry(in: entry.parent, near: entry.name) }
        try transaction.update(next, before: double)
        try transaction.sendAsNew(next)
        transaction.note(double.entry == nil ? .added : .attributes, before: double, after: next)
    }

    /// A power loss may have taken with it that an item came into sync here and went up: for this device it is still
    /// one that is kept local. That takes another identity, and what the cloud has comes beside it.
    /// - Returns: whether that was so.
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
