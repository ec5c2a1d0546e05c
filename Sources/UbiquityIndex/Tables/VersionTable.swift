package import UbiquityCore

/// Queries of the tables `conflicts`, `versionActions` and `sentVersions`.
///
/// The conflict versions of an item are those of the cloud's last record, minus those that this device has decided.
package struct VersionTable: IndexTable {
    let reader: IndexReader

    private static let columns = """
        conflicts.id, conflicts.size, conflicts.available, conflicts.device, conflicts.deviceName, conflicts.manifest, \
        conflicts.modified, conflicts.saved, conflicts.name, conflicts.base
        """

    private static let undecided =
        "NOT EXISTS (SELECT 1 FROM versionActions WHERE versionActions.version = conflicts.id)"

    /// Items in conflict and their undecided versions: those stored here, plus those that the record only counts
    /// (`Limits.maximumConflictsInRecord`).
    private static let numbers = """
        SELECT conflicts.item AS item,
            count(*) FILTER (WHERE \(undecided)) + max(0, coalesce(max(remote.conflicts), 0) - count(*)) AS versions,
            coalesce(sum(conflicts.size) FILTER (WHERE \(undecided)), 0) AS bytes
        FROM conflicts LEFT JOIN remote ON remote.id = conflicts.item
        """

    /// Returns an item's unresolved conflict versions, newest first.
    package func conflicts(of item: ItemID) throws -> [RemoteVersion] {
        var result = [RemoteVersion]()
        try db.run("SELECT \(Self.columns) FROM conflicts WHERE item = ? AND \(Self.undecided)", [SQLValue(item)]) {
            result.append(try Self.version($0))
        }
        return result.sorted { $0.isListed(before: $1) }
    }

    /// Returns all conflict versions in the cloud's record, decided or not, ordered by id.
    package func allConflicts(of item: ItemID) throws -> [RemoteVersion] {
        var result = [RemoteVersion]()
        try db.run("SELECT \(Self.columns) FROM conflicts WHERE item = ? ORDER BY id", [SQLValue(item)]) {
            result.append(try Self.version($0))
        }
        return result
    }

    /// Returns one conflict version from the cloud's records, decided or not.
    package func conflict(_ version: VersionID) throws -> (item: ItemID, version: RemoteVersion)? {
        try db.first(
            "SELECT \(Self.columns), conflicts.item FROM conflicts WHERE id = ?", [SQLValue(version)]
        ) { row in
            guard let item: ItemID = row.id(10) else { return nil }
            return (item, try Self.version(row))
        } ?? nil
    }

    /// Returns the number of unresolved conflicts of an item; for a folder, of everything in it.
    ///
    /// It counts upwards from the conflicts. So it costs nothing where there are none, and stays correct after any
    /// move.
    package func conflictCount(of row: ItemRow) throws -> Int {
        guard row.kind == .directory else {
            guard row.kind == .file else { return 0 }
            let count = try db.first("\(Self.numbers) WHERE conflicts.item = ?", [SQLValue(row.id)]) { $0.int(1) }
            return Int(count ?? 0)
        }
        let count = try number(
            """
            WITH RECURSIVE own AS (\(Self.numbers) GROUP BY conflicts.item),
            up(key, versions, level) AS (
                SELECT items.key, own.versions, 0 FROM own CROSS JOIN items ON items.id = own.item
                WHERE items.dirty & \(DirtyFields.deleted.rawValue) = 0 AND own.versions > 0
                UNION ALL
                SELECT entries.parent, up.versions, level + 1 FROM up CROSS JOIN entries ON entries.item = up.key
                WHERE level <= \(Limits.maximumDepth))
            SELECT sum(versions) FROM up WHERE key = ?
            """, [SQLValue(row.key)])
        return Int(count ?? 0)
    }

    /// Returns the totals of unresolved conflict versions: items, versions and bytes. Such versions are kept until
    /// somebody decides, so the user should see them. The bytes exclude versions that the record only counts.
    package func conflictTotal() throws -> (items: Int, versions: Int, bytes: Int64) {
        let sql = """
            SELECT count(*), coalesce(sum(own.versions), 0), coalesce(sum(own.bytes), 0)
            FROM (\(Self.numbers) GROUP BY conflicts.item) AS own CROSS JOIN items ON items.id = own.item
            WHERE items.dirty & \(DirtyFields.deleted.rawValue) = 0 AND own.versions > 0
            """
        let found = try db.first(sql, []) { (Int($0.int(0)), Int($0.int(1)), $0.int(2)) }
        return found ?? (0, 0, 0)
    }

    /// Returns files (and packages, if requested) with unresolved conflicts, ordered by key: those after `key`, at most
    /// `limit`.
    package func itemsInConflict(
        withPackages: Bool = false, after key: ItemKey = ItemKey(0), limit: Int
    ) throws -> [ItemRow] {
        let kinds = withPackages ? "1, 2" : "1"
        return try rows(
            RowCoding.select(
                """
                items.id IN (SELECT item FROM conflicts WHERE \(Self.undecided)) AND items.kind IN (\(kinds))
                AND items.dirty & \(DirtyFields.deleted.rawValue) = 0 AND items.key > ?
                """) + " ORDER BY items.key LIMIT ?", [SQLValue(key), .int(Int64(limit))])
    }

    /// Returns the files and packages in a folder, at any depth, that have unresolved conflicts.
    package func itemsInConflict(below folder: ItemKey) throws -> [ItemRow] {
        var found = [ItemRow](), key = ItemKey(0)
        while true {
            let page = try itemsInConflict(withPackages: true, after: key, limit: Self.pageOfConflicts)
            found += try page.filter { try $0.key != folder && reader.items.isWithin($0.key, folder) }
            guard let last = page.last, page.count == Self.pageOfConflicts else { return found }
            key = last.key
        }
    }

    /// Files and packages directly in a folder with unresolved conflicts, by name. It looks at all conflicts, which
    /// are few, and not at all that is in the folder.
    package func itemsInConflict(in folder: ItemKey) throws -> [ItemRow] {
        try rows(
            """
            SELECT items.*, entries.parent, entries.name
            FROM (SELECT DISTINCT item FROM conflicts WHERE \(Self.undecided)) AS own
            CROSS JOIN items ON items.id = own.item CROSS JOIN entries ON entries.item = items.key
            WHERE entries.parent = ? AND items.kind IN (1, 2)
            AND items.dirty & \(DirtyFields.deleted.rawValue) = 0 ORDER BY entries.name
            """, [SQLValue(folder)])
    }

    /// Rows read at a time.
    private static let pageOfConflicts = 500

    /// Returns the files and packages in a folder that have other versions, ordered by name: those after `name`, at
    /// most `limit`.
    package func childrenWithVersions(
        of parent: ItemKey, after name: ItemName?, limit: Int
    ) throws -> [ItemRow] {
        try rows(
            """
            SELECT items.*, entries.parent, entries.name FROM entries CROSS JOIN items ON items.key = entries.item
            CROSS JOIN remote
            ON remote.id = CASE items.kind WHEN \(ItemKind.hardLink.rawValue) THEN items.link ELSE items.id END
            WHERE entries.parent = ? AND entries.name > ? AND items.kind IN (1, 2, \(ItemKind.hardLink.rawValue))
            AND (remote.history OR EXISTS (
                SELECT 1 FROM conflicts WHERE conflicts.item = remote.id AND \(Self.undecided)))
            ORDER BY entries.name LIMIT ?
            """, [SQLValue(parent), .bytes(name?.bytes ?? []), .int(Int64(limit))])
    }

    private static func version(_ row: SQLRow) throws -> RemoteVersion {
        guard let id: VersionID = row.id(0), let device: DeviceID = row.id(3) else {
            throw BlobCoding.damaged
        }
        return RemoteVersion(
            content: RemoteContent(
                version: id, size: row.int(1), isAvailable: row.int(2) != 0, device: device,
                deviceName: row.text(4) ?? "", manifest: row.bytes(5).flatMap { try? BlobCoding.manifest($0) }),
            kind: .conflict, modifiedAt: row.time(6), savedAt: row.time(7),
            savedName: ItemName(stored: row.bytes(8) ?? []), baseVersion: row.id(9))
    }

    /// Returns items that have versions besides the current one, ordered by id.
    package func itemsWithVersions(conflictsOnly: Bool) throws -> [ItemID] {
        var result = [ItemID]()
        try db.run(
            """
            SELECT id FROM remote WHERE deleted = 0 AND (conflicts <> 0 OR history <> 0) AND (conflicts <> 0 OR ?)
            ORDER BY id
            """, [.int(conflictsOnly ? 0 : 1)]
        ) { if let id: ItemID = $0.id(0) { result.append(id) } }
        return result
    }

    package func isSent(_ version: VersionID) throws -> Bool {
        try number("SELECT 1 FROM sentVersions WHERE version = ?", [SQLValue(version)]) != nil
    }

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
