package import UbiquityCore
internal import UbiquitySystem
package import UbiquityWire

/// The network between one device and the cloud: slow, lossy or away, as its conditions and its seed decide.
package final class SimulatedLink: CloudService {
    private struct State {
        var conditions = NetworkConditions.perfect
        var isAway = false
        var script: [(call: CloudCall, fault: ScriptedFault)] = []
        var counts = TrafficCounts()
        var acknowledged: [ChunkID: String] = [:]
        var firstCommitAt: Duration?
    }

    private let cloud: any CloudService
    private let world: VirtualWorld
    private let executor: VirtualExecutor
    private let name: String
    private let state = Lock(State())

    package init(_ cloud: any CloudService, world: VirtualWorld, name: String) {
        self.cloud = cloud
        self.world = world
        self.name = name
        executor = VirtualExecutor(world: world, name: "network of \(name)")
    }

    // MARK: Conditions

    package func setConditions(_ conditions: NetworkConditions) { state.withLock { $0.conditions = conditions } }

    /// Nothing passes; streams break.
    package func setAway(_ away: Bool) {
        state.withLock { state in
            state.isAway = away
            state.firstCommitAt = nil
        }
    }

    /// The time when the cloud accepted the first commit since the network last changed.
    var firstCommitAt: Duration? { state.withLock { $0.firstCommitAt } }

    /// Plans a fault for the next such call.
    package func script(_ call: CloudCall, _ fault: ScriptedFault) {
        state.withLock { $0.script.append((call, fault)) }
    }

    /// Cancels all planned faults.
    package func forgetScript() { state.withLock { $0.script = [] } }

    /// The contents that the cloud has acknowledged to this device, with the changes that carried them.
    package var acknowledged: [ChunkID: String] { state.withLock { $0.acknowledged } }

    package var counts: TrafficCounts { state.withLock { $0.counts } }
    package func resetCounts() { state.withLock { $0.counts = TrafficCounts() } }

    private var conditions: NetworkConditions { state.withLock { $0.conditions } }

    private func takeScripted(_ call: CloudCall) -> ScriptedFault? {
        state.withLock { state in
            guard let position = state.script.firstIndex(where: { $0.call == call }) else { return nil }
            return state.script.remove(at: position).fault
        }
    }

    // MARK: One call

    private func call<T: Sendable>(_ call: CloudCall, _ body: () async throws -> T) async throws -> T {
        try await self.call(call, takeScripted(call), body)
    }

    private func call<T: Sendable>(
        _ call: CloudCall, _ scripted: ScriptedFault?, _ body: () async throws -> T
    ) async throws -> T {
        state.withLock { $0.counts.calls[call, default: 0] += 1 }
        try await travel()
        switch scripted {
        case .fail(let error): throw error
        case .hold(let time): try await world.sleep(for: time)
        case .vanishBefore(let action):
            action()
            try await world.sleep(for: .seconds(1_000_000))
        default: break
        }
        // Draws nothing at probability zero: the random numbers of other worlds stay the same.
        if conditions.brokenRequests > 0, world.random.chance(conditions.brokenRequests) {
            throw UbiquityError(.offline, "the connection is broken")
        }
        if world.random.chance(conditions.lostRequests) { try await giveUp(call, "request") }
        let result: Result<T, any Error>
        do { result = .success(try await body()) } catch { result = .failure(error) }
        world.trace.note("\(world.uptime) \(name) \(call.rawValue) \(Self.summary(result))")
        switch scripted {
        case .loseAnswer: try await giveUp(call, "answer")
        case .holdAnswer(let time): try await world.sleep(for: time)
        case .vanishAfter(let action):
            action()
            try await world.sleep(for: .seconds(1_000_000))
        default: break
        }
        if world.random.chance(conditions.lostAnswers) { try await giveUp(call, "answer") }
        try await travel()
        return try result.get()
    }

    private static func summary<T>(_ result: Result<T, any Error>) -> String {
        switch result {
        case .success: "ok"
        case .failure(let error): "failed: \(error)"
        }
    }

    private func travel() async throws {
        try requireNetwork()
        try await world.sleep(for: world.random.duration(conditions.delay))
        try requireNetwork()
    }

    private func requireNetwork() throws {
        guard state.withLock({ $0.isAway }) else { return }
        throw UbiquityError(.offline, "the network is away")
    }

    private func giveUp(_ call: CloudCall, _ what: String) async throws -> Never {
        world.trace.note("\(world.uptime) \(name) \(call.rawValue): \(what) lost")
        try await world.sleep(for: conditions.timeout)
        throw UbiquityError(.timedOut, "no answer to \(call.rawValue)")
    }

    // MARK: CloudService

    package func open(knowing point: FeedPoint?) async throws -> ContainerDescription {
        try await call(.open) { try await cloud.open(knowing: point) }
    }

    package func changes(after point: FeedPoint, limit: Int) async throws -> ChangePage {
        // Small pages, so that even small containers have several.
        let limit = min(limit, 1 + world.random.below(20))
        return try await call(.changes) { try await cloud.changes(after: point, limit: limit) }
    }

    package func snapshot(after point: FeedPoint, limit: Int) async throws -> ChangePage {
        let limit = min(limit, 1 + world.random.below(20))
        return try await call(.snapshot) { try await cloud.snapshot(after: point, limit: limit) }
    }

    package func commit(_ request: CommitRequest) async throws -> CommitResponse {
        state.withLock { state in
            state.counts.changes += request.changes.count
            state.counts.inlineBytes += request.chunks.reduce(0) { $0 + $1.bytes.count }
            state.counts.contents += request.changes.reduce(0) { $0 + ($1.hasContent ? 1 : 0) }
        }
        for change in request.changes { world.trace.note("\(world.uptime) \(name) sends \(change.summary)") }
        if world.random.chance(conditions.repeatedCommits) {
            deliver(request, after: world.random.duration(.milliseconds(1)...(.seconds(60))))
        }
        let scripted = takeScripted(.commit)
        if case .late(let time) = scripted {
            deliver(request, after: time)
            try await giveUp(.commit, "request")
        }
        let response = try await call(.commit, scripted) {
            let response = try await cloud.commit(request)
            state.withLock { $0.firstCommitAt = $0.firstCommitAt ?? world.uptime }
            for result in response.results { world.trace.note("  → \(result.summary)") }
            return response
        }
        noteAcknowledged(request, response)
        return response
    }

    /// Every content that the cloud has accepted must be found there from now on.
    private func noteAcknowledged(_ request: CommitRequest, _ response: CommitResponse) {
        state.withLock { state in
            for (change, result) in zip(request.changes, response.results) {
                guard case .put(let fields) = change.action, let manifest = fields.content?.manifest,
                    result.outcome != .unknownItem
                else { continue }
                state.acknowledged[SimulatedCloud.name(of: manifest)] = change.summary
            }
        }
    }

    /// Delivers the request, or a copy of it, after a delay.
    private func deliver(_ request: CommitRequest, after delay: Duration) {
        Task(executorPreference: executor) { [cloud, world, name] in
            try await world.sleep(for: delay)
            let result: Result<CommitResponse, any Error>
            do { result = .success(try await cloud.commit(request)) } catch { result = .failure(error) }
            world.trace.note("\(world.uptime) \(name) commit held up for \(delay) \(Self.summary(result))")
        }
    }

    package func missingChunks(of ids: [ChunkID]) async throws -> [ChunkID] {
        try await call(.missingChunks) { try await cloud.missingChunks(of: ids) }
    }

    package func upload(_ chunks: [Chunk]) async throws {
        state.withLock { $0.counts.uploadedBytes += chunks.reduce(0) { $0 + $1.bytes.count } }
        try await call(.upload) { try await cloud.upload(chunks) }
    }

    package func fetchChunks(_ ids: [ChunkID], receive: @Sendable (Chunk) async throws -> Void) async throws {
        try await call(.fetchChunks) {
            try await cloud.fetchChunks(ids) { chunk in
                try self.requireNetwork()
                var chunk = chunk
                if !chunk.bytes.isEmpty, self.world.random.chance(self.conditions.damagedChunks) {
                    chunk.bytes[self.world.random.below(chunk.bytes.count)] ^= 0x40
                }
                let count = chunk.bytes.count
                self.state.withLock { $0.counts.fetchedBytes += count }
                try await receive(chunk)
            }
        }
    }

    package func manifest(of version: VersionID) async throws -> Manifest {
        try await call(.manifest) { try await cloud.manifest(of: version) }
    }

    package func allVersions(of item: ItemID) async throws -> ItemVersions {
        try await call(.versions) { try await cloud.allVersions(of: item) }
    }

    package func trash(in folder: ItemID?, after position: TrashPosition?, limit: Int) async throws -> TrashPage {
        try await call(.trash) { try await cloud.trash(in: folder, after: position, limit: limit) }
    }

    package func news() async throws -> AsyncThrowingStream<Revision, any Error> {
        let stream = try await call(.news) { try await cloud.news() }
        let (news, teller) = AsyncThrowingStream<Revision, any Error>.makeStream()
        let task = Task(executorPreference: executor) { [self] in
            do {
                for try await revision in stream {
                    try await travel()
                    if world.random.chance(conditions.brokenNews) {
                        throw UbiquityError(.offline, "the stream of news broke")
                    }
                    if !world.random.chance(conditions.lostNews) { teller.yield(revision) }
                }
                teller.finish()
            } catch { teller.finish(throwing: error) }
        }
        teller.onTermination = { _ in task.cancel() }
        return news
    }

    package func usage() async throws -> CloudUsage { try await call(.usage) { try await cloud.usage() } }
}

/// The traffic of a link.
package struct TrafficCounts: Sendable {
    package var calls: [CloudCall: Int] = [:]
    /// Changes in commits, and those of them that carried a content.
    package var changes = 0
    package var contents = 0
    /// Bytes of chunks.
    package var inlineBytes = 0
    package var uploadedBytes = 0
    package var fetchedBytes = 0
}

extension ItemChange {
    fileprivate var hasContent: Bool {
        if case .put(let fields) = action { fields.content?.manifest != nil } else { false }
    }

    /// One line for the trace. Only values that are the same in every run of a seed.
    var summary: String {
        switch action {
        case .delete: return "delete \(id.short) base \(baseRevision)"
        case .undelete: return "undelete \(id.short)"
        case .versions(let actions):
            return "versions of \(id.short): " + actions.map { "\($0.version.short)" }.joined(separator: " ")
        case .put(let fields):
            var parts = ["put \(kind) \(id.short) base \(baseRevision)"]
            if let place = fields.place { parts.append("at \(place.parent.short)/\(place.name)") }
            if let content = fields.content {
                let from = content.baseVersion.map(\.short) ?? "nothing"
                parts.append(
                    "version \(content.version.short) from \(from)\(content.manifest == nil ? " announced" : "")")
            }
            if fields.mode != nil { parts.append("mode") }
            if fields.modifiedAt != nil { parts.append("times") }
            if !fields.xattrsSet.isEmpty || !fields.xattrsRemoved.isEmpty { parts.append("xattrs") }
            return parts.joined(separator: " ")
        }
    }
}

extension ChangeResult {
    var summary: String {
        let what = switch outcome {
        case .applied: "applied"
        case .merged(let other): "merged into \(other.short)"
        case .unknownItem: "unknown item"
        }
        guard let item else { return what }
        return "\(what): \(item.summary)"
    }
}

extension RemoteItem {
    var summary: String {
        let state = "\(isDeleted ? "deleted " : "")\(kind) \(id.short) at \(parent.short)/\(name) revision \(revision)"
        guard let content else { return state }
        return state + " version \(content.version.short)\(content.isAvailable ? "" : " (announced)")"
    }
}

extension Identifier {
    /// The first digits of a random id: unique in a small world.
    var short: String { self == Identifier(high: 0, low: 0) ? "top" : String(description.prefix(8)) }
}
