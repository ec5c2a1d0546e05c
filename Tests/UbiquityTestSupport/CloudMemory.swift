internal import UbiquityCloudStore
internal import UbiquityCore
internal import UbiquityWire

/// What a simulated cloud holds. The decisions are the real engine's; this is only where things stand.
struct CloudMemory: ContainerState {
    var items: [ItemID: ItemRecord] = [:]
    var versions: [VersionID: VersionRecord] = [:]
    var chunks: [ChunkID: [UInt8]] = [:]
    /// The number of the last commit taken from each device.
    var lastCommits: [DeviceID: Int64] = [:]
    private var names: [DeviceID: String] = [:]
    var answers: [RequestID: CommitResponse] = [:]
    var revision = Revision.zero
    /// Deletions up to here are forgotten.
    var purgedThrough = Revision.zero
    /// What was kept until the cloud forgot it: it was not lost.
    var forgotten: Set<Manifest> = []
    var usedBytes: Int64 = 0
    var quotaBytes = Int64.max
    var incarnation: UInt64 = 1
    /// The mark of each revision, and the next one: no mark is drawn twice, whatever copy is put back.
    private var marks: [Revision: UInt64] = [:]
    var nextMark: UInt64 = 1
    /// Live items by place.
    private var children: [ItemID: [ItemName: ItemID]] = [:]

    /// Live hard links by what they lead to.
    private var links: [ItemID: Set<ItemID>] = [:]

    // MARK: ContainerState

    func item(_ id: ItemID) throws -> ItemRecord? { items[id] }
    func liveChild(of parent: ItemID, named name: ItemName) throws -> ItemID? { children[parent]?[name] }
    func liveChildCount(of parent: ItemID) throws -> Int { children[parent]?.count ?? 0 }
    func liveLinks(to item: ItemID) throws -> [ItemID] { links[item, default: []].sorted() }
    func version(_ id: VersionID) throws -> VersionRecord? { versions[id] }

    func name(of device: DeviceID) throws -> String? { names[device] }

    func conflicts(of item: ItemID) throws -> [VersionRecord] {
        versions.values.filter { $0.item == item && $0.role == .conflict }.sorted { $0.id < $1.id }
    }

    func history(of item: ItemID) throws -> [VersionID] {
        versions.values.filter { $0.item == item && $0.role == .history && $0.isAvailable }.map(\.id).sorted()
    }

    // MARK: Changes

    /// Carries out a commit, or answers a repeated one as before.
    mutating func commit(_ request: CommitRequest, now: Timestamp) throws -> CommitResponse {
        if let answer = answers[request.id] { return answer }
        if let number = request.number, let last = lastCommits[request.device], last >= number {
            throw OutdatedCommit(last: last)
        }
        let plan = try CommitEngine.plan(request, on: self, revision: revision, now: now)
        guard plan.usageDelta <= 0 || usedBytes + plan.usageDelta <= quotaBytes else {
            throw UbiquityError(.quotaExceeded, "the account is full")
        }
        var present = chunks
        for chunk in request.chunks { present[chunk.id] = chunk.bytes }
        let lacking = Set(plan.newManifests.joined().map(\.id)).filter { present[$0] == nil }
        guard lacking.isEmpty else { throw MissingChunks(ids: lacking.sorted()) }
        chunks = present
        for record in plan.items { leave(record.id) }
        for record in plan.items { enter(record) }
        for version in plan.versions { versions[version.id] = version }
        forgotten.formUnion(plan.removedVersions.compactMap { versions[$0]?.manifest })
        for version in plan.removedVersions { versions[version] = nil }
        if plan.revision > revision {
            marks[plan.revision] = nextMark
            nextMark += 1
        }
        revision = plan.revision
        usedBytes += plan.usageDelta
        if let number = request.number { lastCommits[request.device] = number }
        names[request.device] = request.deviceName
        let answer = CommitResponse(revision: revision, results: plan.outcomes.map(result))
        answers[request.id] = answer
        return answer
    }

    /// Places are entered when all have left their old ones: two items may swap names.
    private mutating func leave(_ id: ItemID) {
        guard let old = items[id], old.isLive, children[old.parent]?[old.name] == id else { return }
        children[old.parent]?[old.name] = nil
    }

    private mutating func enter(_ record: ItemRecord) {
        if let old = items[record.id], let target = Self.linked(old) { links[target]?.remove(old.id) }
        items[record.id] = record
        if record.isLive, let target = Self.linked(record) { links[target, default: []].insert(record.id) }
        guard record.isLive, record.id != .root else { return }
        children[record.parent, default: [:]][record.name] = record.id
    }

    private static func linked(_ record: ItemRecord) -> ItemID? {
        record.kind == .hardLink ? ItemID(bytes: record.linkTarget) : nil
    }

    private func result(_ outcome: CommitPlan.Outcome) -> ChangeResult {
        switch outcome {
        case .applied(let id): ChangeResult(outcome: .applied, item: items[id].map(remote))
        case .merged(let id): ChangeResult(outcome: .merged(into: id), item: items[id].map(remote))
        case .unknownItem: ChangeResult(outcome: .unknownItem, item: nil)
        }
    }

    /// From the top folder, without a slash in front; also of what is deleted.
    func path(of record: ItemRecord) -> String {
        var names = [record.name.description], parent = record.parent
        while parent != .root, names.count < Limits.maximumDepth, let folder = items[parent] {
            names.append(folder.name.description)
            parent = folder.parent
        }
        return names.reversed().joined(separator: "/")
    }

    func remote(_ record: ItemRecord) -> RemoteItem {
        let conflicts = record.conflictCount == 0 ? [] : versions.values
            .filter { $0.item == record.id && $0.role == .conflict }.sorted { $0.id < $1.id }
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
        for id in gone { items[id] = nil }
        let contents = versions.values.filter { gone.contains($0.item) }
        for version in contents { versions[version.id] = nil }
        forgotten.formUnion(contents.compactMap(\.manifest))
    }
}
