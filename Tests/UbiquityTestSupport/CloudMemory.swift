internal import UbiquityCloudStore
internal import UbiquityCore
internal import UbiquityWire

/// The data of a simulated cloud. The real engine decides; this type only stores.
struct CloudMemory {
    private var container = MemoryContainer()
    var chunks: [ChunkID: [UInt8]] = [:]
    /// The number of the last commit accepted from each device.
    var lastCommits: [DeviceID: Int64] = [:]
    var answers: [RequestID: CommitResponse] = [:]
    /// Deletions up to this revision are forgotten.
    var purgedThrough = Revision.zero
    /// Contents that the cloud kept until it forgot them: they do not count as lost.
    var forgotten: Set<Manifest> = []
    var quotaBytes = Int64.max
    var incarnation: UInt64 = 1
    /// The mark of each revision, and the next mark. No mark is drawn twice, also after an older copy was restored.
    private var marks: [Revision: UInt64] = [:]
    var nextMark: UInt64 = 1

    var items: [ItemID: ItemRecord] { container.items }
    var versions: [VersionID: VersionRecord] { container.versions }
    var revision: Revision { container.revision }
    var usedBytes: Int64 { container.usedBytes }

    // MARK: Changes

    /// Carries out a commit, or answers a repeated one as before.
    mutating func commit(_ request: CommitRequest, now: Timestamp) throws -> CommitResponse {
        if let answer = answers[request.id] { return answer }
        if let number = request.number, let last = lastCommits[request.device], last >= number {
            throw OutdatedCommit(last: last)
        }
        let plan = try CommitEngine.plan(request, on: container, revision: revision, now: now)
        guard plan.usageDelta <= 0 || usedBytes + plan.usageDelta <= quotaBytes else {
            throw UbiquityError(.quotaExceeded, "the account is full")
        }
        var present = chunks
        for chunk in request.chunks { present[chunk.id] = chunk.bytes }
        let lacking = Set(plan.newManifests.joined().map(\.id)).filter { present[$0] == nil }
        guard lacking.isEmpty else { throw MissingChunks(ids: lacking.sorted()) }
        chunks = present
        forgotten.formUnion(plan.removedVersions.compactMap { versions[$0]?.manifest })
        if plan.revision > revision {
            marks[plan.revision] = nextMark
            nextMark += 1
        }
        container.apply(plan)
        if let number = request.number { lastCommits[request.device] = number }
        container.deviceNames[request.device] = request.deviceName
        let answer = CommitResponse(revision: revision, results: plan.outcomes.map(result))
        answers[request.id] = answer
        return answer
    }

    private func result(_ outcome: CommitPlan.Outcome) -> ChangeResult {
        switch outcome {
        case .applied(let id): ChangeResult(outcome: .applied, item: items[id].map(remote))
        case .merged(let id): ChangeResult(outcome: .merged(into: id), item: items[id].map(remote))
        case .unknownItem: ChangeResult(outcome: .unknownItem, item: nil)
        }
    }

    /// The path from the top folder, without a leading slash; also of deleted items.
    func path(of record: ItemRecord) -> String {
        var names = [record.name.description], parent = record.parent
        while parent != .root, names.count < Limits.maximumDepth, let folder = items[parent] {
            names.append(folder.name.description)
            parent = folder.parent
        }
        return names.reversed().joined(separator: "/")
    }

    func remote(_ record: ItemRecord) -> RemoteItem {
        let conflicts = record.conflictCount == 0 ? [] : container.conflicts(of: record.id)
        return record.remoteItem(record.version.flatMap { versions[$0] }, conflicts: conflicts)
    }

    // MARK: Feed

    func changes(after position: Revision, limit: Int) throws -> ChangePage {
        guard position == .zero || position >= purgedThrough else {
            throw UbiquityError(.feedCompacted, "the feed reaches back to \(purgedThrough)")
        }
        return page(after: position, limit: limit)
    }

    /// Whether a device at that point knows another history (see `HistoryCheck`).
    func isReplaced(_ point: FeedPoint) -> Bool {
        if point.revision > revision { return true }
        guard point.mark != 0, let mark = marks[point.revision] else { return false }
        return mark != point.mark
    }

    func page(after position: Revision, limit: Int) -> ChangePage {
        let all = items.values.filter { $0.revision > position && (position != .zero || $0.isLive) }
            .sorted { ($0.revision, $0.id) < ($1.revision, $1.id) }
        var page = Array(all.prefix(limit))
        while page.count < all.count, all[page.count].revision == page.last?.revision { page.append(all[page.count]) }
        let hasMore = page.count < all.count
        let end = hasMore ? page.last?.revision ?? revision : revision
        return ChangePage(items: page.map(remote), revision: end, hasMore: hasMore, mark: marks[end] ?? 0)
    }

    /// Forgets deletions made before a time.
    mutating func purge(before time: Timestamp) {
        let old = items.values.filter { $0.deletedAt.map { $0 < time } ?? false }
        let gone = Set(old.map(\.id))
        purgedThrough = max(purgedThrough, old.map(\.revision).max() ?? .zero)
        forgotten.formUnion(container.forget(deleted: gone).compactMap(\.manifest))
    }
}
