internal import UbiquityCore
internal import UbiquityIndex

/// A local item whose id the cloud uses for an item of another kind.
///
/// A correct cloud never changes the kind of an item. The local item got its id from a cloud that lied or is damaged.
/// So the record keeps the id, and the local item gets another.
struct KindConflict {
    let transaction: IndexTransaction
    let now: Timestamp

    /// Separates the local item from the record. The item gets a new id, and is uploaded as new. A placeholder has
    /// nothing to upload, so it is removed, and so is an item that was deleted here.
    /// - Returns: the backing file to drop, if there is one.
    func resolve(with record: RemoteItem) throws -> ContentID? {
        guard let row = try transaction.row(id: record.id), row.kind != record.kind, !row.isExcluded else { return nil }
        guard row.isPlaceholder || row.isDeleted else {
            try separate(row)
            return nil
        }
        for link in try transaction.allLinks(to: row.id) { try remove(link) }
        try remove(try transaction.row(key: row.key) ?? row)
        return row.content
    }

    /// Gives the item a new id, under which it is uploaded as new.
    func separate(_ row: ItemRow) throws {
        var next = row
        next.id = transaction.newItemID()
        // The cloud was never sent an item with this id.
        next.flags.subtract([.creationSent, .returned])
        try transaction.update(next, before: row)
        try transaction.sendAsNew(next)
        transaction.note(.attributes, before: row, after: next)
        try transaction.retargetLinks(from: row.id, to: next.id)
    }

    private func remove(_ row: ItemRow) throws {
        try transaction.delete(row)
        if row.entry != nil, !row.isDeleted { transaction.note(.removed, before: row, after: nil) }
        if row.kind == .hardLink { try transaction.touchLinked(row.linkedID, now: now) }
    }
}
