internal import UbiquityCore

/// Queries for local deletions of items that the cloud has, not yet uploaded.
package struct DeletionTable: IndexTable {
    let reader: IndexReader

    private static let deletedHere =
        "items.dirty & \(DirtyFields.deleted.rawValue) AND items.dirty <> 0 AND items.dirtyOrder > ?"

    private static let condition =
        "\(deletedHere) AND EXISTS (SELECT 1 FROM remote WHERE remote.id = items.id AND remote.deleted = 0)"

    /// Returns the last position in the order of pending changes; 0 if there are none.
    package func lastDirtyOrder() throws -> Int64 {
        try number("SELECT dirtyOrder FROM items WHERE dirty <> 0 ORDER BY dirtyOrder DESC LIMIT 1", []) ?? 0
    }

    /// Returns the moments of pending deletions after a position in the order of changes.
    package func pendingDeletionMoments(after order: Int64) throws -> [DeletionMoment] {
        var moments = [DeletionMoment]()
        let question = """
            SELECT items.dirtyAt, remote.parent, remote.name, items.flags, items.created, remote.device,
                remote.conflicts
            FROM items JOIN remote ON remote.id = items.id WHERE \(Self.deletedHere) AND remote.deleted = 0
            """
        try db.run(question, [.int(order)]) { row in
            guard let folder: ItemID = row.id(1) else { throw BlobCoding.damaged }
            let isOwn = ItemFlags(rawValue: row.int(3)).contains(.madeHere) && row.int(6) == 0
            moments.append(
                DeletionMoment(
                    time: row.time(0), folder: folder, name: ItemName(stored: row.bytes(2) ?? []),
                    madeAt: isOwn ? row.time(4) : nil, writer: row.id(5)))
        }
        return moments
    }

    /// Returns their rows in order, at most `limit`.
    package func pendingDeletions(after order: Int64, limit: Int) throws -> [ItemRow] {
        try rows(
            RowCoding.select(Self.condition) + " ORDER BY items.dirtyOrder LIMIT ?", [.int(order), .int(Int64(limit))])
    }

    /// Returns their number.
    package func pendingDeletionCount(after order: Int64) throws -> Int {
        try Int(number("SELECT count(*) FROM items WHERE \(Self.condition)", [.int(order)]) ?? 0)
    }

    /// Returns whether one of them was put on hold (`holdDeletions`).
    package func hasHeldDeletions(after confirmed: Int64) throws -> Bool {
        guard let last = try number("SELECT value FROM meta WHERE name = 'heldDeletions'", []), last > confirmed
        else { return false }
        return try exists(
            "SELECT 1 FROM items WHERE \(Self.condition) AND items.dirtyOrder <= ? LIMIT 1",
            [.int(confirmed), .int(last)])
    }
}
