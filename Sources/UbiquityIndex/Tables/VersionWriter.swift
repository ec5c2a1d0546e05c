package import UbiquityCore

/// Changes of the tables `conflicts`, `versionActions` and `sentVersions`.
///
/// `sentVersions` lists versions that this index has sent, until the cloud confirms them. The device in a version does
/// not suffice. An index restored from a backup, or copied to another machine, meets versions of its own device that it
/// does not know. Its local changes do not start from them.
package struct VersionWriter: TransactionPart {
    let transaction: IndexTransaction

    /// Replaces the stored conflict versions of an item by those in its record.
    func setConflicts(of item: RemoteItem) throws {
        try forgetConflicts(of: item.id)
        guard !item.isDeleted else { return }
        for version in item.conflicts {
            try execute(
                "INSERT OR REPLACE INTO conflicts VALUES (?,?,?,?,?,?,?,?,?,?,?)",
                [
                    SQLValue(version.id), SQLValue(item.id), .int(version.content.size),
                    version.content.isAvailable ? 1 : 0, SQLValue(version.content.device),
                    .text(version.content.deviceName),
                    version.content.manifest.map { .bytes(BlobCoding.encode($0)) } ?? nil,
                    .int(version.modifiedAt.nanoseconds), .int(version.savedAt.nanoseconds),
                    SQLValue(version.savedName), SQLValue(version.baseVersion),
                ])
        }
    }

    func forgetConflicts(of item: ItemID) throws {
        try execute("DELETE FROM conflicts WHERE item = ?", [SQLValue(item)])
    }

    /// Beyond this number the oldest count as never sent. They are edits whose answers were lost in a row; one that the
    /// cloud has accepted would become a conflict.
    private static let maximumSentVersions: Int64 = 10_000

    /// Records versions before they are sent.
    package func noteSent(_ versions: [VersionID]) throws {
        for version in versions {
            try execute("INSERT OR IGNORE INTO sentVersions (version) VALUES (?)", [SQLValue(version)])
        }
        guard !versions.isEmpty else { return }
        try execute(
            "DELETE FROM sentVersions WHERE number <= (SELECT max(number) FROM sentVersions) - ?",
            [.int(Self.maximumSentVersions)])
    }

    /// Deletes a version that the cloud has confirmed.
    package func forgetSent(_ version: VersionID) throws {
        try execute("DELETE FROM sentVersions WHERE version = ?", [SQLValue(version)])
    }

    /// Queues a decision, and shows its effect at once.
    ///
    /// - Parameter after: The item whose content replaces the version and must be uploaded first.
    /// - Returns: The version that a restoration creates.
    @discardableResult
    package func decide(
        _ kind: PendingVersionAction.Kind, _ version: VersionID, of item: ItemID, after: ItemKey? = nil
    ) throws -> VersionID? {
        var newVersion: VersionID?, base: VersionID?, generation: Int64?
        if kind == .restore, let row = try transaction.row(id: item) {
            var generator = SourcedGenerator(index.random)
            let drawn = VersionID(using: &generator)
            try noteSent([drawn])
            newVersion = drawn
            // A version still shown here while the newer one is being downloaded replaces that newer one.
            let isDecided = try row.version == version
                || reader.versions.conflicts(of: item).contains { $0.id == version }
            base = isDecided ? try reader.remotes.remote(id: item)?.content?.version ?? row.version : row.version
            generation = row.generation
        }
        try execute(
            """
            INSERT INTO versionActions (number, item, version, action, newVersion, after, decided, base, generation)
            VALUES (?,?,?,?,?,?,?,?,?)
            """,
            [
                .int(transaction.newNumber()), SQLValue(item), SQLValue(version), .int(kind.rawValue),
                SQLValue(newVersion),
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
        guard let row = try transaction.row(id: item) else { return }
        transaction.note(.versions, before: row, after: row, versions: change)
    }
}
