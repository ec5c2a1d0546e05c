package import UbiquityCore

/// The time of a local deletion, and the item's place at the cloud.
package struct DeletionMoment: Hashable, Sendable {
    package var time: Timestamp
    package var folder: ItemID
    package var name: ItemName
    /// When this device made the item; nil if another device made or changed it.
    package var madeAt: Timestamp?
    /// The device that wrote the current content; nil for an item without content.
    package var writer: DeviceID?

    package init(
        time: Timestamp, folder: ItemID, name: ItemName, madeAt: Timestamp? = nil, writer: DeviceID? = nil
    ) {
        self.time = time
        self.folder = folder
        self.name = name
        self.madeAt = madeAt
        self.writer = writer
    }

    /// Makes the moment of a pending deletion.
    ///
    /// - Parameter known: The cloud's record of the item.
    package init(of row: ItemRow, known: RemoteItem) {
        self.init(time: row.dirtyAt, folder: known.parent, name: known.name, writer: known.content?.device)
        if row.flags.contains(.madeHere), known.conflictCount == 0 { madeAt = row.createdAt }
    }

    /// Returns whether `device` made the item at most `age` seconds before the deletion, and no other device changed
    /// it.
    package func isOfFreshItem(madeOn device: DeviceID, within age: Double) -> Bool {
        guard let madeAt, writer == nil || writer == device else { return false }
        return madeAt <= time && madeAt.advanced(bySeconds: age) > time
    }
}

// Local deletions of items that the cloud has, not yet uploaded.
extension IndexReader {
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

    /// Returns the number of items that have an entry and are synced. Scans all of them.
    package func syncedItemCount() throws -> Int64 {
        let local = ItemFlags([.excluded, .lingering]).rawValue
        return try number(
            """
            SELECT count(*) FROM entries JOIN items ON items.key = entries.item WHERE items.flags & \(local) = 0
            """, []) ?? 0
    }

    /// Returns the position in the order of changes up to which the user confirmed deletions; 0 if none.
    package func confirmedDeletions() throws -> Int64 {
        try number("SELECT value FROM meta WHERE name = 'confirmedDeletions'", []) ?? 0
    }
}

extension IndexTransaction {
    package func confirmDeletions(upTo order: Int64) throws {
        try execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('confirmedDeletions', ?)", [.int(order)])
    }

    /// Puts deletions on hold until the user answers, regardless of later changes in the container.
    package func holdDeletions(upTo order: Int64) throws {
        try execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('heldDeletions', ?)", [.int(order)])
    }
}
