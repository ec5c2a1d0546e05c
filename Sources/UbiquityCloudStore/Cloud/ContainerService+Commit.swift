import GRDB
internal import UbiquityCore
internal import UbiquitySystem
internal import UbiquityWire

// Commits.
extension ContainerService {
    func commit(_ request: CommitRequest) async throws -> CommitResponse {
        let (number, response) = try await cloud.pool.run { [self] in try commitNow(request) }
        cloud.news.tell(response.revision, of: number)
        return response
    }

    private func commitNow(_ request: CommitRequest) throws -> (Int64, CommitResponse) {
        if let answered = try cloud.read({ try self.answer($0, to: request) }) { return answered }
        try storeInlineChunks(request)
        try secureChunks(of: request)
        return try cloud.write { db in
            // A repeat may have been answered since.
            if let answered = try answer(db, to: request) { return answered }
            let found = try required(db)
            let tables = ContainerTables(db: db, container: found.number)
            let plan = try CommitEngine.plan(
                request, on: tables, revision: found.revision, now: cloud.timekeeper.now())
            try count(plan.usageDelta, db)
            for item in plan.items { try tables.put(item) }
            for version in plan.versions { try tables.put(version) }
            try tables.keep(plan.outcomes, at: plan.revision, for: request.id)
            return (found.number, try response(plan.outcomes, at: plan.revision, tables))
        }
    }

    private func answer(_ db: Database, to request: CommitRequest) throws -> (Int64, CommitResponse)? {
        let found = try required(db)
        let tables = ContainerTables(db: db, container: found.number)
        guard let (revision, outcomes) = try tables.answer(to: request.id) else { return nil }
        guard outcomes.count == request.changes.count else {
            throw UbiquityError(.invalid, "request \(request.id) was another one before")
        }
        return (found.number, try response(outcomes, at: revision, tables))
    }

    private func response(
        _ outcomes: [CommitPlan.Outcome], at revision: Revision, _ tables: ContainerTables
    ) throws -> CommitResponse {
        CommitResponse(
            revision: revision,
            results: try outcomes.map { outcome in
                switch outcome {
                case .applied(let id): ChangeResult(outcome: .applied, item: try tables.remoteItem(id))
                case .merged(let id): ChangeResult(outcome: .merged(into: id), item: try tables.remoteItem(id))
                case .unknownItem: ChangeResult(outcome: .unknownItem, item: nil)
                }
            })
    }

    /// Adds to what the account uses. Throws `.quotaExceeded` if that is more than it may; less is always allowed.
    private func count(_ delta: Int64, _ db: Database) throws {
        guard delta != 0 else { return }
        try db.execute(sql: "UPDATE accounts SET used = used + ? WHERE number = ?", arguments: [delta, account])
        guard delta > 0,
            let row = try Row.fetchOne(db, sql: "SELECT used, quota FROM accounts WHERE number = ?", arguments: [account]),
            let used = row.number(0), let quota = row.number(1), used > quota
        else { return }
        throw UbiquityError(
            .quotaExceeded, "the account is full: it may use \(quota) bytes", remedy: "delete something, or ask for more")
    }

    // MARK: Chunks of a commit

    private func storeInlineChunks(_ request: CommitRequest) throws {
        guard request.chunks.reduce(0, { $0 + $1.bytes.count }) <= Limits.maximumInlineChunkBytes else {
            throw UbiquityError(.tooLarge, "the chunks in a commit are more than \(Limits.maximumInlineChunkBytes) bytes")
        }
        if !request.chunks.isEmpty { try store(request.chunks) }
    }

    /// Sees to it that every chunk the commit names is here, has the length it says, and survives power loss.
    private func secureChunks(of request: CommitRequest) throws {
        var lengths = [ChunkID: Int]()
        for change in request.changes {
            guard case .put(let fields) = change.action else { continue }
            for reference in fields.content?.manifest ?? [] {
                guard lengths.updateValue(reference.length, forKey: reference.id) ?? reference.length == reference.length
                else { throw UbiquityError(.invalid, "chunk \(reference.id) is given two lengths") }
            }
        }
        let small = lengths.filter { $0.value < CloudLimits.smallChunkLength }
        let large = lengths.filter { $0.value >= CloudLimits.smallChunkLength }.map(\.key)
        try securedSmall(small)
        let store = try cloud.chunks(of: account)
        try store.touch(large)
        var missing = [ChunkID]()
        for id in large {
            guard let length = try store.length(of: id) else {
                missing.append(id)
                continue
            }
            guard length == lengths[id] else { throw wrongLength(id) }
        }
        guard missing.isEmpty else { throw MissingChunks(ids: missing) }
        try store.makeDurable(large)
    }

    private func securedSmall(_ lengths: [ChunkID: Int]) throws {
        guard !lengths.isEmpty else { return }
        var missing = [ChunkID]()
        try cloud.read { db in
            for (id, length) in lengths {
                guard let stored = try smallLength(of: id, db) else {
                    missing.append(id)
                    continue
                }
                guard stored == length else { throw wrongLength(id) }
            }
        }
        guard missing.isEmpty else { throw MissingChunks(ids: missing.sorted()) }
    }

    private func wrongLength(_ id: ChunkID) -> UbiquityError {
        UbiquityError(.invalid, "chunk \(id) does not have the length that the commit says")
    }
}
