package import UbiquityCore
internal import UbiquitySystem
package import UbiquityWire

/// A cloud that lies while it is hostile: a seed decides about when and how. It forwards to a sound cloud.
///
/// Each lie is encoded and decoded as a message of the wire, so a device meets only lies that its decoder accepts. If
/// the decoder refuses a message, the device gets the decoder's error.
package final class HostileCloud: CloudService {
    private struct State {
        var isHostile = false
        /// Empty pages that are still to be sent.
        var emptyPages = 0
        /// Calls while it was hostile.
        var calls = 0
    }

    private let cloud: SimulatedCloud
    private let world: VirtualWorld
    private let executor: VirtualExecutor
    private let random: SeededRandom
    private let lies: Lies
    private let state = Lock(State())

    package init(_ cloud: SimulatedCloud, world: VirtualWorld, seed: UInt64) {
        self.cloud = cloud
        self.world = world
        random = SeededRandom(seed &+ 47)
        lies = Lies(random)
        executor = VirtualExecutor(world: world, name: "hostile cloud")
    }

    package var isHostile: Bool { state.withLock { $0.isHostile } }
    package var calls: Int { state.withLock { $0.calls } }

    /// Ends all streams of news.
    package func setHostile(_ isHostile: Bool) {
        state.withLock { $0.isHostile = isHostile }
        cloud.restart()
    }

    // MARK: Lies

    private func lies(_ chance: Double) -> Bool { isHostile && random.chance(chance) }

    private func note(_ text: @autoclosure () -> String) { world.trace.note("\(world.uptime) hostile cloud: \(text())") }

    /// Begins a call. Sometimes throws an arbitrary error.
    private func begin(_ call: CloudCall, failing chance: Double = 0.05) throws {
        guard isHostile else { return }
        state.withLock { $0.calls += 1 }
        guard random.chance(chance) else { return }
        let failure = lies.failure()
        note("\(call.rawValue) fails with \(failure)")
        throw failure
    }

    /// The value after a round trip over the wire.
    private func sent<Value: WireValue>(_ value: Value) throws -> Value {
        guard isHostile else { return value }
        return try WireCodec.decode(Value.self, from: WireCodec.encode(value, as: .protobuf), as: .protobuf)
    }

    // MARK: CloudService

    package func open(knowing point: FeedPoint?) async throws -> ContainerDescription {
        try begin(.open)
        guard isHostile else { return try await cloud.open(knowing: point) }
        var answer = try await cloud.open()
        if lies(0.05) { answer.incarnation = random.next() }
        if lies(0.2) { answer.revision = lies.revision(near: answer.revision) }
        if lies(0.2) { answer.usage = lies.usage() }
        return try sent(answer)
    }

    package func changes(after point: FeedPoint, limit: Int) async throws -> ChangePage {
        try begin(.changes)
        guard isHostile else { return try await cloud.changes(after: point, limit: limit) }
        return try await page(after: point, limit)
    }

    package func snapshot(after point: FeedPoint, limit: Int) async throws -> ChangePage {
        try begin(.snapshot)
        guard isHostile else { return try await cloud.snapshot(after: point, limit: limit) }
        return try await page(after: point, limit)
    }

    private func page(after point: FeedPoint, _ limit: Int) async throws -> ChangePage {
        let newest = try await cloud.revision()
        let start = lies(0.3) ? Revision(Int64(random.below(Int(newest.number) + 1))) : min(point.revision, newest)
        var page = try await cloud.snapshot(after: FeedPoint(start), limit: limit)
        lies.learn(page.items)
        // The requested revision may be beyond the newest one.
        page.revision = max(page.revision, point.revision)
        let isEmpty = state.withLock { state in
            if state.emptyPages > 0 { state.emptyPages -= 1 }
            return state.emptyPages > 0
        }
        if isEmpty {
            return try sent(ChangePage(items: [], revision: point.revision.next, hasMore: true, mark: random.next()))
        }
        page.items = lies.records(page.items)
        switch random.below(12) {
        case 0: page.revision = lies.revision(near: point.revision)
        case 1:
            page.hasMore = true
            page.revision = point.revision.next
        case 2: page.hasMore.toggle()
        case 3: page.isIncomplete = true
        case 4: page.mark = random.next()
        case 5: state.withLock { $0.emptyPages = random.below(60) }
        case 6...8: page.revision = page.revision.next
        default: break
        }
        note("a page of \(page.items.count) up to \(page.revision)\(page.hasMore ? " …" : "")")
        return try sent(page)
    }

    package func commit(_ request: CommitRequest) async throws -> CommitResponse {
        guard isHostile else { return try await cloud.commit(request) }
        if lies(0.1) {
            let failure = lies.refusal(of: request)
            note("refuses a commit: \(failure)")
            throw failure
        }
        try begin(.commit)
        var answer: CommitResponse
        if random.chance(0.3) {
            note("a commit is answered and not kept")
            answer = CommitResponse(
                revision: lies.revision(near: try await cloud.revision()), results: request.changes.map(lies.result))
        } else {
            var request = request
            (request.known, request.number) = (nil, nil)
            answer = try await cloud.commit(request)
        }
        lies.learn(answer.results.compactMap(\.item))
        if random.chance(0.4) { lies.spoil(&answer) }
        return try sent(answer)
    }

    package func missingChunks(of ids: [ChunkID]) async throws -> [ChunkID] {
        try begin(.missingChunks)
        let missing = try await cloud.missingChunks(of: ids)
        guard lies(0.3) else { return missing }
        return try sent(ChunkIDs(random.pick([[], ids, ids + ids, [lies.chunk()], Array(missing.dropFirst())]))).ids
    }

    package func unsoundChunks(of ids: [ChunkID]) async throws -> [ChunkID] { try await missingChunks(of: ids) }

    package func upload(_ chunks: [Chunk]) async throws {
        try begin(.upload)
        guard !lies(0.2) else { return }
        try await cloud.upload(chunks)
    }

    package func fetchChunks(_ ids: [ChunkID], receive: @Sendable (Chunk) async throws -> Void) async throws {
        try begin(.fetchChunks)
        guard lies(0.4) else { return try await cloud.fetchChunks(ids, receive: receive) }
        for id in ids {
            switch random.below(5) {
            case 0: try await receive(Chunk(id: id, bytes: random.bytes(1 + random.below(400))))
            case 1: try await receive(Chunk(id: lies.chunk(), bytes: random.bytes(10)))
            case 2: break
            default:
                try await cloud.fetchChunks([id]) { chunk in
                    var chunk = chunk
                    if !chunk.bytes.isEmpty { chunk.bytes[self.random.below(chunk.bytes.count)] ^= 1 }
                    try await receive(chunk)
                    if self.random.chance(0.3) { try await receive(chunk) }
                }
            }
        }
    }

    package func manifest(of version: VersionID) async throws -> Manifest {
        try begin(.manifest)
        guard lies(0.4) else { return try await cloud.manifest(of: version) }
        return try sent(VersionManifest(lies.manifest())).chunks
    }

    package func allVersions(of item: ItemID) async throws -> ItemVersions {
        try begin(.versions)
        guard lies(0.5) else { return try await cloud.allVersions(of: item) }
        return try sent(ItemVersions((0..<random.below(5)).map { _ in lies.version() }, isIncomplete: random.chance(0.3)))
    }

    package func trash(in folder: ItemID?, after position: TrashPosition?, limit: Int) async throws -> TrashPage {
        try begin(.trash)
        var page = try await cloud.trash(in: folder, after: position, limit: limit)
        guard lies(0.5) else { return page }
        page.items += lies.records([]).map { item in
            TrashedItem(item: item, deletedAt: lies.time(), device: lies.device(), path: "../a//b")
        }
        page.hasMore = random.chance(0.5)
        return try sent(page)
    }

    package func news() async throws -> AsyncThrowingStream<Revision, any Error> {
        try begin(.news)
        guard isHostile else { return try await cloud.news() }
        let (stream, teller) = AsyncThrowingStream<Revision, any Error>.makeStream()
        let task = Task(executorPreference: executor) { [self] in
            do {
                while isHostile, !random.chance(0.02) {
                    try await world.sleep(for: random.duration(.milliseconds(100)...(.seconds(4))))
                    teller.yield(lies.revision(near: try await cloud.revision()))
                }
                throw UbiquityError(.offline, "the stream of news broke")
            } catch { teller.finish(throwing: error) }
        }
        teller.onTermination = { _ in task.cancel() }
        return stream
    }

    package func usage() async throws -> CloudUsage {
        try begin(.usage)
        return lies(0.5) ? try sent(lies.usage()) : try await cloud.usage()
    }
}
