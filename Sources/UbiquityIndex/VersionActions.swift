package import UbiquityCore

/// A decision about a version that waits to go up.
package struct PendingVersionAction: Hashable, Sendable {
    /// Its place in the queue.
    package var number: Int64
    package var item: ItemID
    package var version: VersionID
    package var kind: Kind
    /// The id that the new version of a restoration will have, drawn when it was decided, so that a repeat is the same.
    package var newVersion: VersionID?
    package var decidedAt: Timestamp
    /// What a restoration was decided against: the version that the file showed then; for one in conflict, the one it
    /// is in conflict with.
    package var base: VersionID?
    /// The row's generation then: another one is an edit made here later.
    package var generation: Int64?

    /// The numbers are stored.
    package enum Kind: Int64, Hashable, Sendable {
        case resolve = 1
        case remove = 2
        case restore = 3
    }
}

extension IndexReader {
    /// The next decisions that may go up: not those that wait for a content which takes the version's place.
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

    /// Files about whose versions something was decided that has not gone up, at most `limit`.
    package func itemsWithVersionActions(limit: Int) throws -> [ItemRow] {
        try rows(
            RowCoding.select("items.id IN (SELECT item FROM versionActions)") + " ORDER BY items.key LIMIT ?",
            [.int(Int64(limit))])
    }

    /// Versions of an item that were decided about here.
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
    /// Queues a decision, and shows it from now on.
    /// - Parameter after: the item whose content takes the version's place and must be at the cloud first.
    /// - Returns: the version that a restoration makes.
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
            // A version that is still shown here, while the newer one is on its way, is wanted in the place of that.
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
        // A conflict that is restored or removed is resolved.
        try noteVersions(of: item, kind == .remove ? .lost(version) : .conflicts)
        return newVersion
    }

    /// The cloud has taken these decisions in, or will never.
    package func forgetVersionActions(_ actions: [PendingVersionAction]) throws {
        for action in actions {
            try execute("DELETE FROM versionActions WHERE number = ?", [.int(action.number)])
            if let version = action.newVersion { try forgetSent(version) }
        }
    }

    /// The file was deleted here after these were decided: they are none any more.
    func forgetRestorations(of item: ItemID) throws {
        try execute(
            "DELETE FROM versionActions WHERE item = ? AND action = ?",
            [SQLValue(item), .int(PendingVersionAction.Kind.restore.rawValue)])
    }

    /// Tells observers that an item has other versions than before.
    package func noteVersions(of item: ItemID, _ change: IndexEvent.VersionsChange) throws {
        guard let row = try row(id: item) else { return }
        note(.versions, before: row, after: row, versions: change)
    }
}
