import GRDB
internal import UbiquityCore
internal import UbiquityWire

/// The rows of one container, within one access to the database.
///
/// Queries name their index. Without statistics SQLite prefers the primary key's first column, the container, and so
/// reads all its rows.
struct ContainerTables: ContainerState {
    let db: Database
    let container: Int64

    // MARK: Queries of the commit engine

    func item(_ id: ItemID) throws -> ItemRecord? {
        // A row of the present commit may exist already.
        let row = try fetchOne(
            """
            SELECT \(ItemRows.columns), (SELECT revision + 1 FROM containers WHERE number = ?1)
            FROM items WHERE container = ?1 AND id = ?2
            """, [Bytes(id.bytes)])
        guard let row else { return nil }
        guard let record = ItemRows.record(row, upTo: row.number(ItemRows.columnCount).map { Revision($0) }) else {
            throw BlobReader.damaged
        }
        return record
    }

    func liveChild(of parent: ItemID, named name: ItemName) throws -> ItemID? {
        try fetchAll(
            """
            SELECT \(ItemRows.columns) FROM items INDEXED BY itemsPlace
            WHERE container = ? AND parent = ? AND name = ? AND deleted IS NULL
            """,
            [Bytes(parent.bytes), Bytes(name.bytes)]
        ).lazy.compactMap { ItemRows.record($0)?.id }.first
    }

    func liveChildCount(of parent: ItemID) throws -> Int {
        // A row without a valid id could never be deleted, so it is not counted.
        Int(
            try fetchOne(
                """
                SELECT count(*) FROM items INDEXED BY itemsPlace WHERE container = ? AND parent = ? AND deleted IS NULL
                AND typeof(id) = 'blob' AND length(id) = 16
                """,
                [Bytes(parent.bytes)])?.number(0) ?? 0)
    }

    func liveLinks(to item: ItemID) throws -> [ItemID] {
        try fetchAll(
            "SELECT id FROM items INDEXED BY itemsLinks "
                + "WHERE container = ? AND link = ? AND kind = 4 AND deleted IS NULL ORDER BY id", [Bytes(item.bytes)]
        ).compactMap { ItemID(bytes: $0.bytes(0) ?? []) }
    }

    func version(_ id: VersionID) throws -> VersionRecord? {
        try fetchOne("SELECT \(VersionRows.columns) FROM versions WHERE container = ? AND id = ?", [Bytes(id.bytes)])
            .flatMap { VersionRows.record($0) }
    }

    func conflicts(of item: ItemID) throws -> [VersionRecord] {
        try conflictRows(of: item, VersionRows.columns).compactMap { VersionRows.record($0) }
    }

    private func conflictRows(of item: ItemID, _ columns: String) throws -> [Row] {
        try fetchAll(
            """
            SELECT \(columns) FROM versions INDEXED BY versionsItem
            WHERE container = ? AND item = ? AND role = \(VersionRecord.Role.conflict.rawValue) ORDER BY id
            """, [Bytes(item.bytes)])
    }

    // MARK: The feed

    /// A part of the feed.
    struct Part {
        var items: [RemoteItem]
        /// Whether damaged rows were skipped.
        var isIncomplete: Bool
        /// Where it ends; nil if it is not full.
        var last: (revision: Revision, id: DatabaseValue)?
    }

    /// Items after `revision` (and, within it, after the item `id`), by revision and id.
    /// - Parameter end: the container's last revision.
    func items(
        after revision: Revision, _ id: DatabaseValue?, upTo end: Revision, liveOnly: Bool, limit: Int
    ) throws -> Part {
        let rows = try Row.fetchCursor(
            db.cachedStatement(
                sql: """
                    SELECT \(ItemRows.columns), \(VersionRows.columnsToTell) FROM items INDEXED BY itemsFeed
                    LEFT JOIN versions ON versions.container = items.container AND versions.id = items.version
                    WHERE items.container = ?
                    AND \(id == nil ? "items.revision > ?" : "items.revision = ? AND items.id > ?")
                    \(liveOnly ? "AND items.deleted IS NULL" : "")
                    ORDER BY items.revision, items.id LIMIT ?
                    """),
            arguments: StatementArguments([container, revision.number] + (id.map { [$0] } ?? []) + [limit]))
        var part = Part(items: [], isIncomplete: false), last: (Revision, DatabaseValue)?, count = 0, bytes = 0
        // The remaining items of a revision are not divided.
        while id != nil || bytes < Limits.maximumPageBytes, let row = try rows.next() {
            count += 1
            // A revision that is not a number sorts after all numbers.
            if let number = row.number(2) { last = (Revision(number), row[0] as DatabaseValue) }
            guard let item = try remoteItem(row, upTo: end) else {
                part.isIncomplete = true
                continue
            }
            bytes += item.pageBytes
            part.items.append(item)
        }
        if count == limit || bytes >= Limits.maximumPageBytes { part.last = last }
        return part
    }

    func remoteItem(_ id: ItemID) throws -> RemoteItem? {
        try fetchOne(
            """
            SELECT \(ItemRows.columns), \(VersionRows.columnsToTell) FROM items
            LEFT JOIN versions ON versions.container = items.container AND versions.id = items.version
            WHERE items.container = ? AND items.id = ?
            """, [Bytes(id.bytes)]
        ).flatMap { try remoteItem($0) }
    }

    /// Items found through an index.
    func remoteItems(
        _ index: String, _ condition: String, _ arguments: [(any DatabaseValueConvertible)?]
    ) throws -> [RemoteItem] {
        try fetchAll(
            """
            SELECT \(ItemRows.columns), \(VersionRows.columnsToTell) FROM items INDEXED BY \(index)
            LEFT JOIN versions ON versions.container = items.container AND versions.id = items.version
            WHERE items.container = ? AND \(condition)
            """, arguments
        ).compactMap { try remoteItem($0) }
    }

    private func remoteItem(_ row: Row, upTo last: Revision? = nil) throws -> RemoteItem? {
        guard var record = ItemRows.record(row, upTo: last) else { return nil }
        let rows = record.conflictCount > 0 ? try conflictRows(of: record.id, VersionRows.columnsToTell) : []
        record.conflictCount = rows.count
        let conflicts = rows.compactMap { VersionRows.record($0, isWhole: false) }
        let version = VersionRows.record(row, first: ItemRows.columnCount, isWhole: false)
        return record.remoteItem(version, conflicts: conflicts)
    }

    // MARK: Changes

    func put(_ item: ItemRecord) throws {
        try execute(
            "INSERT OR REPLACE INTO items VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
            ItemRows.values(item, in: container))
    }

    func put(_ version: VersionRecord) throws {
        try execute(
            "INSERT OR REPLACE INTO versions VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
            VersionRows.values(version, in: container))
    }

    func remove(_ version: VersionID) throws {
        try execute("DELETE FROM versions WHERE container = ? AND id = ?", [container, Bytes(version.bytes)])
    }

    func name(of device: DeviceID) throws -> String? {
        try fetchOne(
            "SELECT deviceName FROM lastCommits WHERE container = ? AND device = ?", [Bytes(device.bytes)])?.text(0)
    }

    // MARK: Answered commits

    func answer(to request: RequestID) throws -> (revision: Revision, outcomes: [CommitPlan.Outcome])? {
        try fetchOne(
            "SELECT revision, outcomes FROM commits WHERE container = ? AND request = ?", [Bytes(request.bytes)]
        )
            .map { (Revision($0.number(0) ?? 0), try BlobCoding.outcomes($0.bytes(1) ?? [])) }
    }

    /// Refuses a commit whose number is not greater than that of the device's last commit.
    func takeNumber(of request: CommitRequest) throws {
        guard let number = request.number else { return }
        let device = Bytes(request.device.bytes)
        let known = try fetchOne("SELECT number FROM lastCommits WHERE container = ? AND device = ?", [device])
        if let last = known?.number(0), last >= number { throw OutdatedCommit(last: last) }
        try execute(
            "INSERT OR REPLACE INTO lastCommits VALUES (?,?,?,?)", [container, device, number, request.deviceName])
    }

    /// Keeps an answer, and drops answers that are too old to be requested again.
    /// - Parameter mark: of the revision, if this commit made it.
    func keep(
        _ outcomes: [CommitPlan.Outcome], at revision: Revision, mark: UInt64?, for request: RequestID
    ) throws {
        try execute(
            "UPDATE containers SET commits = commits + 1, revision = ? WHERE number = ?", [revision.number, container])
        let number = try fetchOne("SELECT commits FROM containers WHERE number = ?", [])?.number(0) ?? 0
        try execute(
            "INSERT OR REPLACE INTO commits VALUES (?,?,?,?,?,?)",
            [
                container, Bytes(request.bytes), number, revision.number, Bytes(BlobCoding.encode(outcomes)),
                mark.map { Int64(bitPattern: $0) },
            ])
        try execute(
            "DELETE FROM commits WHERE container = ? AND number <= ?", [container, number - CloudLimits.keptCommits])
    }

    /// The mark of a revision; nil if it is not known (any more).
    func mark(of revision: Revision) throws -> UInt64? {
        try fetchOne(
            "SELECT mark FROM commits INDEXED BY commitsMark "
                + "WHERE container = ? AND revision = ? AND mark IS NOT NULL", [revision.number])?
            .number(0).map { UInt64(bitPattern: $0) }
    }

    // MARK: Statements; the first argument of a query is always the container

    func fetchOne(_ sql: String, _ arguments: [(any DatabaseValueConvertible)?]) throws -> Row? {
        try Row.fetchOne(db.cachedStatement(sql: sql), arguments: StatementArguments([container] + arguments))
    }

    func fetchAll(_ sql: String, _ arguments: [(any DatabaseValueConvertible)?]) throws -> [Row] {
        try Row.fetchAll(db.cachedStatement(sql: sql), arguments: StatementArguments([container] + arguments))
    }

    func execute(_ sql: String, _ arguments: [(any DatabaseValueConvertible)?]) throws {
        try db.cachedStatement(sql: sql).execute(arguments: StatementArguments(arguments))
    }
}
