package import UbiquityCore

/// A pending decision about a version.
package struct PendingVersionAction: Hashable, Sendable {
    /// The position in the queue.
    package var number: Int64
    package var item: ItemID
    package var version: VersionID
    package var kind: Kind
    /// The id of the version that a restoration creates. It is drawn with the decision, so that a retry sends the same
    /// version.
    package var newVersion: VersionID?
    package var decidedAt: Timestamp
    /// The version that a restoration replaces: the one the file showed at the decision; for a conflict version, the
    /// current one.
    package var base: VersionID?
    /// The row's generation at the decision. A different one shows a later local edit.
    package var generation: Int64?

    /// The numbers are stored.
    package enum Kind: Int64, Hashable, Sendable {
        case resolve = 1
        case remove = 2
        case restore = 3
    }
}

extension IndexReader {
    /// Returns the next decisions to upload, without those that wait for the upload of a content that replaces the
    /// version.
    package func versionActions(limit: Int) throws -> [PendingVersionAction] {
        var result = [PendingVersionAction]()
        let notUp = DirtyFields([.created, .content]).rawValue
        try db.run(
            """
            SELECT number, item, version, action, newVersion, decided, base, generation FROM versionActions
            WHERE after IS NULL OR NOT EXISTS (
                SELECT 1 FROM items WHERE items.key = after AND dirty & \(notUp) <> 0
                AND dirty & \(DirtyFields.deleted.rawValue) = 0)
            ORDER BY number LIMIT ?
            """, [.int(Int64(limit))]
        ) { row in
            guard let item: ItemID = row.id(1), let version: VersionID = row.id(2),
                let kind = PendingVersionAction.Kind(rawValue: row.int(3))
            else { throw BlobCoding.damaged }
            result.append(
                PendingVersionAction(
                    number: row.int(0), item: item, version: version, kind: kind, newVersion: row.id(4),
                    decidedAt: row.time(5), base: row.id(6), generation: row.optionalInt(7)))
        }
        return result
    }

    package func versionActionCount() throws -> Int { Int(try number("SELECT count(*) FROM versionActions", []) ?? 0) }

    /// Returns files with decisions that are not uploaded, at most `limit`.
    package func itemsWithVersionActions(limit: Int) throws -> [ItemRow] {
        try rows(
            RowCoding.select("items.id IN (SELECT item FROM versionActions)") + " ORDER BY items.key LIMIT ?",
            [.int(Int64(limit))])
    }

    /// Returns an item's versions that were decided here.
    package func decidedVersions(of item: ItemID) throws -> [VersionID: PendingVersionAction.Kind] {
        var result: [VersionID: PendingVersionAction.Kind] = [:]
        try db.run("SELECT version, action FROM versionActions WHERE item = ?", [SQLValue(item)]) { row in
            guard let version: VersionID = row.id(0) else { return }
            result[version] = PendingVersionAction.Kind(rawValue: row.int(1))
        }
        return result
    }
}

extension IndexTransaction {
    /// Queues a decision, and shows its effect at once.
    ///
    /// - Parameter after: The item whose content replaces the version and must be uploaded first.
    /// - Returns: The version that a restoration creates.
    @discardableResult
    package func decide(
        _ kind: PendingVersionAction.Kind, _ version: VersionID, of item: ItemID, after: ItemKey? = nil
    ) throws -> VersionID? {
        var newVersion: VersionID?, base: VersionID?, generation: Int64?
        if kind == .restore, let row = try row(id: item) {
            var generator = SourcedGenerator(index.random)
            let drawn = VersionID(using: &generator)
            try noteSent([drawn])
            newVersion = drawn
            // A version still shown here while the newer one is being downloaded replaces that newer one.
            let isDecided = try row.version == version || conflicts(of: item).contains { $0.id == version }
            base = isDecided ? try remote(id: item)?.content?.version ?? row.version : row.version
            generation = row.generation
        }
        try execute(
            """
            INSERT INTO versionActions (number, item, version, action, newVersion, after, decided, base, generation)
            VALUES (?,?,?,?,?,?,?,?,?)
            """,
            [
                .int(newNumber()), SQLValue(item), SQLValue(version), .int(kind.rawValue), SQLValue(newVersion),
                SQLValue(after?.rawValue), .int(index.timekeeper.now().nanoseconds), SQLValue(base),
                SQLValue(generation),
            ])
        // Restoring or removing a conflict version resolves the conflict.
        try noteVersions(of: item, kind == .remove ? .lost(version) : .conflicts)
        return newVersion
    }

    /// Deletes decisions that the cloud has accepted or will never accept.
    package func forgetVersionActions(_ actions: [PendingVersionAction]) throws {
        for action in actions {
            try execute("DELETE FROM versionActions WHERE number = ?", [.int(action.number)])
            if let version = action.newVersion { try forgetSent(version) }
        }
    }

    /// Deletes restorations of a file that was deleted here afterwards.
    func forgetRestorations(of item: ItemID) throws {
        try execute(
            "DELETE FROM versionActions WHERE item = ? AND action = ?",
            [SQLValue(item), .int(PendingVersionAction.Kind.restore.rawValue)])
    }

    /// Notifies observers that an item's versions have changed.
    package func noteVersions(of item: ItemID, _ change: IndexEvent.VersionsChange) throws {
        guard let row = try row(id: item) else { return }
        note(.versions, before: row, after: row, versions: change)
    }
}
