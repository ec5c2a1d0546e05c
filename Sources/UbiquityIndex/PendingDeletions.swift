package import UbiquityCore

// Deletions made here of items that the cloud has, while it has not been told.
extension IndexReader {
    private static let condition = """
        items.dirty & \(DirtyFields.deleted.rawValue) AND items.dirty <> 0 AND items.dirtyOrder > ?
        AND EXISTS (SELECT 1 FROM remote WHERE remote.id = items.id AND remote.deleted = 0)
        """

    /// The last place in the order of changes that wait; 0 if none does.
    package func lastDirtyOrder() throws -> Int64 {
        try number("SELECT dirtyOrder FROM items WHERE dirty <> 0 ORDER BY dirtyOrder DESC LIMIT 1", []) ?? 0
    }

    /// When they were made, those after a place in the order of changes.
    package func pendingDeletionTimes(after order: Int64) throws -> [Timestamp] {
        var times = [Timestamp]()
        let question = "SELECT items.dirtyAt FROM items WHERE \(Self.condition)"
        try db.run(question, [.int(order)]) { times.append($0.time(0)) }
        return times
    }

    /// Their rows in order, at most `limit`.
    package func pendingDeletions(after order: Int64, limit: Int) throws -> [ItemRow] {
        try rows(
            RowCoding.select(Self.condition) + " ORDER BY items.dirtyOrder LIMIT ?", [.int(order), .int(Int64(limit))])
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
}
