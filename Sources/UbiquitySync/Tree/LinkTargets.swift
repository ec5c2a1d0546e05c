internal import UbiquityCore
internal import UbiquityIndex

/// The targets of hard links, for the settler.
struct LinkTargets {
    let transaction: IndexTransaction
    let now: Timestamp

    /// Gives a hard link the target of its record once that item is here. The item that the link was made for may have
    /// been merged into another one, or be sent again as a new item.
    /// - Returns: false while the target is not here.
    func follow(_ item: RemoteItem, _ row: inout ItemRow) throws -> Bool {
        guard row.kind == .hardLink, row.linkTarget != item.linkTarget, try !leadsToNewItem(row) else { return true }
        guard try isHere(item) || row.entry == nil && !leadsToALink(item) else { return false }
        let before = row
        row.linkTarget = item.linkTarget
        row.changedAt = now
        try transaction.update(row, before: before)
        transaction.note(.replaced, before: before, after: row)
        try transaction.touchLinked(before.linkedID, now: now)
        try transaction.touchLinked(row.linkedID, now: now)
        return true
    }

    /// Whether a hard link's record refers to another link. Such a record is never followed.
    private func leadsToALink(_ item: RemoteItem) throws -> Bool {
        guard let id = ItemID(bytes: item.linkTarget) else { return true }
        return try transaction.row(id: id)?.kind == .hardLink || transaction.remote(id: id)?.kind == .hardLink
    }

    /// Whether the link's item was created here and its commit has no answer yet. If the cloud merges the item into
    /// another one, the answer says so and retargets its links (see `retargetLinks`).
    private func leadsToNewItem(_ row: ItemRow) throws -> Bool {
        guard row.kind == .hardLink, let linked = try transaction.named(row) else { return false }
        return linked.dirty.contains(.created)
    }

    /// Whether the target of a hard link is here; true for other kinds. An excluded file is not the target, even if it
    /// has the target's id after a power loss (`separateLocal`): the cloud's file is placed beside it.
    func isHere(_ item: RemoteItem) throws -> Bool {
        guard item.kind == .hardLink else { return true }
        guard let id = ItemID(bytes: item.linkTarget), let linked = try transaction.row(id: id) else { return false }
        return !linked.isDeleted && !linked.isExcluded && linked.kind != .directory && linked.kind != .hardLink
    }
}
