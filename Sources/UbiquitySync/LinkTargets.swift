internal import UbiquityCore
internal import UbiquityIndex

/// What hard links lead to, for the settler.
struct LinkTargets {
    let transaction: IndexTransaction
    let now: Timestamp

    /// A further name leads where its record does, once that is here: what was made with it may have become one with
    /// another item, or be sent again as an item of its own.
    /// - Returns: false while that is not here.
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

    /// Whether a hard link's record leads to another link: then it is never followed.
    private func leadsToALink(_ item: RemoteItem) throws -> Bool {
        guard let id = ItemID(bytes: item.linkTarget) else { return true }
        return try transaction.row(id: id)?.kind == .hardLink || transaction.remote(id: id)?.kind == .hardLink
    }

    /// Whether it is a further name of what was made here and has not been answered for yet. Should that be one with
    /// another's item at the cloud, the answer says so, and brings its names along (see `retargetLinks`).
    private func leadsToNewItem(_ row: ItemRow) throws -> Bool {
        guard row.kind == .hardLink, let linked = try transaction.named(row) else { return false }
        return linked.dirty.contains(.created)
    }

    /// Whether what a hard link leads to is here; true for anything else. A file that is kept local is not what the
    /// cloud's link leads to, though it has that id after a loss of power (`separateLocal`): that file comes beside it.
    func isHere(_ item: RemoteItem) throws -> Bool {
        guard item.kind == .hardLink else { return true }
        guard let id = ItemID(bytes: item.linkTarget), let linked = try transaction.row(id: id) else { return false }
        return !linked.isDeleted && !linked.isExcluded && linked.kind != .directory && linked.kind != .hardLink
    }
}
