package import UbiquityCore

/// When an item was deleted here, and where the cloud had it.
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

    /// The moment of a pending deletion.
    /// - Parameter known: The cloud's record of the item.
    package init(of row: ItemRow, known: RemoteItem) {
        self.init(time: row.dirtyAt, folder: known.parent, name: known.name, writer: known.content?.device)
        if row.flags.contains(.madeHere), known.conflictCount == 0 { madeAt = row.createdAt }
    }

    /// Whether `device` made the item at most `age` seconds before the deletion, and no other device changed it.
    package func isOfFreshItem(madeOn device: DeviceID, within age: Double) -> Bool {
        guard let madeAt, writer == nil || writer == device else { return false }
        return madeAt <= time && madeAt.advanced(bySeconds: age) > time
    }
}

// Deletions made here of items that the cloud has, while it has not been told.
extension IndexReader {
    private static let deletedHere =
        "items.dirty & \(DirtyFields.deleted.rawValue) AND items.dirty <> 0 AND items.dirtyOrder > ?"
    private static let condition =
        "\(deletedHere) AND EXISTS (SELECT 1 FROM remote WHERE remote.id = items.id AND remote.deleted = 0)"

    /// The last place in the order of changes that wait; 0 if none does.
    package func lastDirtyOrder() throws -> Int64 {
        try number("SELECT dirtyOrder FROM items WHERE dirty <> 0 ORDER BY dirtyOrder DESC LIMIT 1", []) ?? 0
    }

    /// When they were made and where the cloud has the items, those after a place in the order of changes.
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

    /// Their rows in order, at most `limit`.
    package func pendingDeletions(after order: Int64, limit: Int) throws -> [ItemRow] {
        try rows(
            RowCoding.select(Self.condition) + " ORDER BY items.dirtyOrder LIMIT ?", [.int(order), .int(Int64(limit))])
    }

    /// How many those are.
    package func pendingDeletionCount(after order: Int64) throws -> Int {
        try Int(number("SELECT count(*) FROM items WHERE \(Self.condition)", [.int(order)]) ?? 0)
    }

    /// Whether one of those waits that were held (`holdDeletions`).
    package func hasHeldDeletions(after confirmed: Int64) throws -> Bool {
        guard let last = try number("SELECT value FROM meta WHERE name = 'heldDeletions'", []), last > confirmed
        else { return false }
        return try exists(
            "SELECT 1 FROM items WHERE \(Self.condition) AND items.dirtyOrder <= ? LIMIT 1",
            [.int(confirmed), .int(last)])
    }

    /// Items that have an entry and that the cloud has or is to have. Looks at each.
    package func syncedItemCount() throws -> Int64 {
        let local = ItemFlags([.excluded, .lingering]).rawValue
        return try number(
            """
            SELECT count(*) FROM entries JOIN items ON items.key = entries.item WHERE items.flags & \(local) = 0
            """, []) ?? 0
    }

    /// The place in the order of changes up to which a person has confirmed the deletions; 0 if none has.
    package func confirmedDeletions() throws -> Int64 {
        try number("SELECT value FROM meta WHERE name = 'confirmedDeletions'", []) ?? 0
    }
}

extension IndexTransaction {
    package func confirmDeletions(upTo order: Int64) throws {
        try execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('confirmedDeletions', ?)", [.int(order)])
    }

    /// Notes that deletions are held until a person answers, whatever becomes of the container meanwhile.
    package func holdDeletions(upTo order: Int64) throws {
        try execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('heldDeletions', ?)", [.int(order)])
    }
}
