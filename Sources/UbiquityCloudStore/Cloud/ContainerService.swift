import GRDB
internal import UbiquityCore
internal import UbiquitySystem
internal import UbiquityWire

/// One container of a cloud in this process.
struct ContainerService: CloudService {
    let cloud: Cloud
    let account: Int64
    let container: ContainerID
    /// Whether `open` creates the container if it is missing.
    var mayCreate = true

    // MARK: Position

    func open(knowing point: FeedPoint?) async throws -> ContainerDescription {
        try await cloud.pool.run { [self] in
            var found = try self.made()
            if let point, let other = try cloud.read({ try history($0, of: found, lacking: point) }) {
                try renew(other, point)
                found = try cloud.read { try self.required($0) }
            }
            return try cloud.read { db in
                ContainerDescription(
                    container: container, account: try accountName(db), incarnation: incarnation(of: found),
                    revision: found.revision, usage: try usage(db), features: cloud.features)
            }
        }
    }

    func usage() async throws -> CloudUsage {
        try await cloud.pool.run { [self] in try cloud.read { try self.usage($0) } }
    }

    func news() async throws -> AsyncThrowingStream<Revision, any Error> {
        let found = try await cloud.pool.run { [self] in try cloud.read { try self.required($0) } }
        let stream = cloud.news.stream(of: found.number, from: found.revision)
        // A commit between the look and the stream's beginning would not be announced.
        let now = try await cloud.pool.run { [self] in try cloud.read { try self.required($0) } }
        if now.revision > found.revision { cloud.news.tell(now.revision, of: found.number) }
        return stream
    }

    private func usage(_ db: Database) throws -> CloudUsage {
        guard
            let row = try Row.fetchOne(
                db, sql: "SELECT used, quota FROM accounts WHERE number = ?", arguments: [account])
        else { throw UbiquityError(.signedOut, "the account was deleted") }
        return CloudUsage(usedBytes: max(0, row.number(0) ?? 0), quotaBytes: row.number(1) ?? 0)
    }

    private func accountName(_ db: Database) throws -> String {
        try String.fetchOne(db, sql: "SELECT name FROM accounts WHERE number = ?", arguments: [account]) ?? ""
    }

    struct Found {
        var number: Int64
        var revision: Revision
        var purgedThrough: Revision
        /// A random number that changes whenever an older copy of the data was put back. It also distinguishes the
        /// container from one of the same name in a deleted account.
        var history: UInt64
    }

    func find(_ db: Database) throws -> Found? {
        try Row.fetchOne(
            db.cachedStatement(
                sql: "SELECT number, revision, purged, history FROM containers WHERE account = ? AND name = ?"),
            arguments: [account, container.name]
        ).map {
            Found(
                number: $0.number(0) ?? 0, revision: Revision($0.number(1) ?? 0),
                purgedThrough: Revision($0.number(2) ?? 0), history: UInt64(bitPattern: $0.number(3) ?? 0))
        }
    }

    func required(_ db: Database) throws -> Found {
        guard let found = try find(db) else {
            throw UbiquityError(.notFound, "there is no container of this name", at: container.name)
        }
        return found
    }

    /// The container, which is created if it is missing and the token allows it.
    func made() throws -> Found {
        try cloud.read { try mayCreate ? self.find($0) : self.required($0) } ?? cloud.write { try self.make($0) }
    }

    private func make(_ db: Database) throws -> Found {
        if let found = try find(db) { return found }
        let count =
            try Int.fetchOne(db, sql: "SELECT count(*) FROM containers WHERE account = ?", arguments: [account]) ?? 0
        guard count < CloudLimits.maximumContainersPerAccount else {
            throw UbiquityError(
                .tooLarge, "an account has at most \(CloudLimits.maximumContainersPerAccount) containers")
        }
        let history = cloud.random.next()
        try db.execute(
            sql: "INSERT INTO containers (account, name, revision, purged, commits, history) VALUES (?, ?, 0, 0, 0, ?)",
            arguments: [account, container.name, Int64(bitPattern: history)])
        return Found(number: db.lastInsertedRowID, revision: .zero, purgedThrough: .zero, history: history)
    }

    // MARK: The feed

    func changes(after point: FeedPoint, limit: Int) async throws -> ChangePage {
        try await page(after: point, limit, reliesOnDeletions: true)
    }

    func snapshot(after point: FeedPoint, limit: Int) async throws -> ChangePage {
        try await page(after: point, limit, reliesOnDeletions: false)
    }

    private func page(
        after point: FeedPoint, _ limit: Int, reliesOnDeletions: Bool
    ) async throws -> ChangePage {
        guard point.revision >= .zero, (1...Limits.maximumItemsPerPage).contains(limit) else {
            throw UbiquityError(.invalid, "a page has 1 to \(Limits.maximumItemsPerPage) items after a revision")
        }
        return try await cloud.pool.run { [self] in
            try cloud.read { try page($0, after: point, limit, reliesOnDeletions: reliesOnDeletions) }
        }
    }

    /// Nil if the device's point belongs to this history.
    private func history(_ db: Database, of found: Found, lacking point: FeedPoint) throws -> AnotherHistory? {
        let tables = ContainerTables(db: db, container: found.number)
        let check = try HistoryCheck(point, found, incarnation: incarnation(of: found), tables)
        return check == .same ? nil : AnotherHistory(check: check, found: found)
    }

    func incarnation(of found: Found) -> UInt64 { cloud.incarnation ^ found.history }

    /// Draws a new incarnation, because a device that connects or commits knows a commit that this history lacks: the
    /// data is an older copy. Every device then compares its complete state with the container. The event stream
    /// announces the new incarnation.
    ///
    /// The incarnation changes only if it is still the one that was compared, so one of several devices renews it.
    /// Devices that do not send an incarnation can renew it once per process: a copy is put back while no process runs.
    func renew(_ other: AnotherHistory, _ point: FeedPoint) throws {
        guard other.check == .replaced else { return }
        let number = other.found.number
        guard point.incarnation != nil || cloud.renewed.withLock({ !$0.contains(number) }) else { return }
        let isRenewed = try cloud.write { db in
            try db.execute(
                sql: "UPDATE containers SET history = ? WHERE number = ? AND history = ?",
                arguments: [
                    Int64(bitPattern: cloud.random.next()), number, Int64(bitPattern: other.found.history),
                ])
            return db.changesCount > 0
        }
        guard isRenewed else { return }
        cloud.renewed.withLock { _ = $0.insert(number) }
        cloud.news.end(of: number)
    }

    private func page(
        _ db: Database, after point: FeedPoint, _ limit: Int, reliesOnDeletions: Bool
    ) throws -> ChangePage {
        let found = try required(db), revision = point.revision
        guard try history(db, of: found, lacking: point) == nil else { throw HistoryCheck.error }
        guard !reliesOnDeletions || revision == .zero || revision >= found.purgedThrough else {
            throw UbiquityError(
                .feedCompacted, "the feed begins after revision \(found.purgedThrough)", remedy: "read the snapshot")
        }
        let tables = ContainerTables(db: db, container: found.number)
        // A new device needs no deleted items; a continuing one does. After the first page the revision does not tell
        // which it is, so later pages contain them, and a new device drops them.
        let liveOnly = revision == .zero
        let end = found.revision
        let first = try tables.items(after: revision, nil, upTo: end, liveOnly: liveOnly, limit: limit)
        var page = ChangePage(
            items: first.items, revision: end, hasMore: false, isIncomplete: first.isIncomplete)
        if let last = first.last {
            // Extends the page to the end of its last revision.
            let rest = try tables.items(after: last.revision, last.id, upTo: end, liveOnly: liveOnly, limit: .max)
            page.items += rest.items
            page.revision = min(last.revision, end)
            page.hasMore = last.revision < end
            page.isIncomplete = page.isIncomplete || rest.isIncomplete
        }
        page.mark = try tables.mark(of: page.revision) ?? 0
        let links = LinkTables(db: db), changed = try links.revision(of: found.number)
        if changed > revision, changed <= page.revision { page.links = try links.counts(in: found.number) }
        return page
    }

    func manifest(of version: VersionID) async throws -> Manifest {
        try await cloud.pool.run { [self] in
            try cloud.read { db in
                let tables = ContainerTables(db: db, container: try required(db).number)
                guard let record = try tables.version(version) else {
                    throw UbiquityError(.notFound, "there is no version \(version)")
                }
                guard let manifest = record.manifest else {
                    throw UbiquityError(.notUploadedYet, "the content of version \(version) has not arrived yet")
                }
                return manifest
            }
        }
    }

    func allVersions(of item: ItemID) async throws -> ItemVersions {
        try await cloud.pool.run { [self] in
            try cloud.read { db in
                let tables = ContainerTables(db: db, container: try required(db).number)
                guard let record = try tables.item(item) else {
                    throw UbiquityError(.notFound, "there is no such item")
                }
                return try tables.versions(of: record, limit: Limits.maximumVersionsPerAnswer)
            }
        }
    }

    func trash(in folder: ItemID?, after position: TrashPosition?, limit: Int) async throws -> TrashPage {
        guard (1...Limits.maximumTrashPage).contains(limit) else {
            throw UbiquityError(.invalid, "a page has 1 to \(Limits.maximumTrashPage) deleted items")
        }
        return try await cloud.pool.run { [self] in
            try cloud.read { db in
                let tables = ContainerTables(db: db, container: try required(db).number)
                return try tables.trash(in: folder, after: position, limit: limit)
            }
        }
    }
}
