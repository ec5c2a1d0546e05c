import GRDB
internal import UbiquityCore
internal import UbiquitySystem
internal import UbiquityWire

// Commits.
extension ContainerService {
    func commit(_ request: CommitRequest) async throws -> CommitResponse {
        let (number, response) = try await cloud.commits.run(for: account) {
            try await cloud.pool.run { [self] in try commitOrRenew(request) }
        }
        cloud.news.tell(response.revision, of: number)
        return response
    }

    private func commitOrRenew(_ request: CommitRequest) throws -> (Int64, CommitResponse) {
        do {
            return try commitNow(request)
        } catch let other as AnotherHistory {
            if let known = request.known { try renew(other, known) }
            // A connection error, because the changes are not at fault: the device sends them once it has read this
            // history.
            throw UbiquityError(.offline, HistoryCheck.error.message, remedy: HistoryCheck.error.remedy)
        }
    }

    private func commitNow(_ request: CommitRequest) throws -> (Int64, CommitResponse) {
        if let answered = try cloud.read({ try self.answer($0, to: request) }) { return answered }
        try request.check()
        let inlineSmall = try storeInlineChunks(request)
        let named = try namedChunks(of: request)
        let missingLarge = try secureLarge(named.large)
        let cap = StorageCap(cloud: cloud, account: account)
        let answered = try cap.write(isRelief: request.isRelief) { db in
            // A repeated request may have been answered since.
            if let answered = try answer(db, to: request) { return answered }
            try storeSmall(inlineSmall, db)
            let missing = missingLarge + (try secureSmall(named.small, storedNow: Set(inlineSmall.map(\.id)), db))
            guard missing.isEmpty else { throw MissingChunks(ids: missing.sorted()) }
            let found = try required(db)
            let tables = ContainerTables(db: db, container: found.number)
            if let known = request.known {
                let check = try HistoryCheck(known, found, incarnation: incarnation(of: found), tables)
                guard check == .same else { throw AnotherHistory(check: check, found: found) }
            }
            try tables.takeNumber(of: request)
            let plan = try CommitEngine.plan(
                request, on: tables, revision: found.revision, now: cloud.timekeeper.now())
            try requireOnePage(plan, request)
            try count(plan.usageDelta, db)
            for item in plan.items { try tables.put(item) }
            for version in plan.versions { try tables.put(version) }
            for version in plan.removedVersions { try tables.remove(version) }
            for version in plan.lostVersions { try tables.supersede(version, at: cloud.timekeeper.now()) }
            try tables.trimHistory(of: plan, to: cloud.keeping.versionsPerItem)
            let mark = plan.revision > found.revision ? max(1, cloud.random.next()) : nil
            try tables.keep(plan.outcomes, at: plan.revision, mark: mark, for: request.id)
            return (found.number, try response(plan.outcomes, at: plan.revision, tables))
        }
        noteSound(inlineSmall)
        return answered
    }

    /// Throws if the commit exceeds a feed page: a page does not end inside a revision. Package commits are exempt,
    /// because a package's members cannot be sent in parts.
    private func requireOnePage(_ plan: CommitPlan, _ request: CommitRequest) throws {
        guard plan.items.count > 1, request.packages.isEmpty else { return }
        let bytes = plan.items.reduce(0) { $0 + $1.pageBytes }
        guard bytes > Limits.maximumPageBytes else { return }
        throw UbiquityError(
            .tooLarge, "the items of the commit have \(bytes) bytes of names, attributes and conflicts",
            remedy: "send fewer items at a time, as ubiquity's devices do")
    }

    private func answer(_ db: Database, to request: CommitRequest) throws -> (Int64, CommitResponse)? {
        let found = try required(db)
        let tables = ContainerTables(db: db, container: found.number)
        guard let (revision, outcomes) = try tables.answer(to: request.id) else { return nil }
        guard outcomes.count == request.changes.count else {
            throw UbiquityError(.invalid, "request \(request.id) repeats the id of a different request")
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
                case .applied(let id): ChangeResult(outcome: .applied, item: try tables.remoteItem(id) ?? Self.top(id))
                case .merged(let id): ChangeResult(outcome: .merged(into: id), item: try tables.remoteItem(id))
                case .unknownItem: ChangeResult(outcome: .unknownItem, item: nil)
                }
            })
    }

    /// The top folder, which has no row before its first change.
    private static func top(_ id: ItemID) -> RemoteItem? {
        id == .root ? ItemRecord.root.remoteItem(nil, conflicts: []) : nil
    }

    /// Adds to the account's usage. Throws `.quotaExceeded` if that exceeds the quota; less is always allowed.
    private func count(_ delta: Int64, _ db: Database) throws {
        guard delta != 0 else { return }
        try db.execute(sql: "UPDATE accounts SET used = used + ? WHERE number = ?", arguments: [delta, account])
        guard delta > 0,
            let row = try Row.fetchOne(
                db, sql: "SELECT used, quota FROM accounts WHERE number = ?", arguments: [account]),
            let used = row.number(0), let quota = row.number(1), used > quota
        else { return }
        throw UbiquityError(
            .quotaExceeded,
            "the account is full: the change needs \(ByteSize.text(delta)), "
                + "\(ByteSize.text(max(0, quota - (used - delta)))) left of \(ByteSize.text(quota))",
            remedy: "delete items, or ask the cloud's owner for a larger quota")
    }

    // MARK: Chunks of a commit

    /// Verifies the chunks in the request and stores the large ones.
    /// - Returns: the small ones, which are stored in the commit's own transaction: one sync for both.
    private func storeInlineChunks(_ request: CommitRequest) throws -> [Chunk] {
        if !request.chunks.isEmpty { try cloud.requireRoom(for: request.chunks.reduce(0) { $0 + $1.bytes.count }) }
        for chunk in request.chunks { try ChunkCheck.verify(chunk) }
        let large = request.chunks.filter { $0.bytes.count >= CloudLimits.smallChunkLength }
        try StorageCap(cloud: cloud, account: account).store(large)
        return request.chunks.filter { $0.bytes.count < CloudLimits.smallChunkLength }
    }

    private typealias Lengths = [ChunkID: Int]

    /// All chunks that the commit names, by where they are stored.
    private func namedChunks(of request: CommitRequest) throws -> (small: Lengths, large: Lengths) {
        var small = Lengths(), large = Lengths()
        for manifest in request.manifests {
            for reference in manifest {
                let isSmall = reference.length < CloudLimits.smallChunkLength
                let other = isSmall
                    ? small.updateValue(reference.length, forKey: reference.id)
                    : large.updateValue(reference.length, forKey: reference.id)
                if let other, other != reference.length {
                    throw UbiquityError(.invalid, "the commit gives chunk \(reference.id) two lengths")
                }
            }
        }
        return (small, large)
    }

    /// Ensures that these chunks survive a power loss and that the collector spares them.
    /// - Returns: the missing ones.
    private func secureLarge(_ lengths: Lengths) throws -> [ChunkID] {
        guard !lengths.isEmpty else { return [] }
        let ids = Array(lengths.keys)
        let store = try cloud.chunks(of: account)
        try store.touch(ids)
        var present = [ChunkID](), missing = [ChunkID]()
        for id in ids {
            guard let length = try store.length(of: id) else {
                missing.append(id)
                continue
            }
            guard length == lengths[id] else { throw wrongLength(id) }
            present.append(id)
        }
        if missing.isEmpty { try store.makeDurable(present) }
        return missing
    }

    /// The same for small ones, in the commit's transaction, because the collector removes them in one too.
    /// - Parameter storedNow: chunks that came with the commit: they replace any stored copy, damaged or not.
    private func secureSmall(
        _ lengths: Lengths, storedNow: Set<ChunkID>, _ db: Database
    ) throws -> [ChunkID] {
        var missing = [ChunkID]()
        for (id, length) in lengths {
            guard let stored = try smallLength(of: id, db, isSound: storedNow.contains(id)) else {
                missing.append(id)
                continue
            }
            guard stored == length else { throw wrongLength(id) }
        }
        try touchSmall(lengths.keys, db)
        return missing
    }

    private func wrongLength(_ id: ChunkID) -> UbiquityError {
        UbiquityError(.invalid, "chunk \(id) does not have the length that the commit says")
    }
}

extension CommitRequest {
    /// Whether it only deletes items and decides about versions: that makes room sooner or later.
    fileprivate var isRelief: Bool {
        packages.isEmpty && changes.allSatisfy { change in
            switch change.action {
            case .delete, .versions: true
            case .put, .undelete: false
            }
        }
    }
}
