import UbiquityCloudServer
import UbiquityCloudStore
import UbiquityCore
import UbiquitySystem
import UbiquityWire

/// A cloud in memory with answers that a test may replace.
final class FakeCloud: Sendable {
    static let token = "a-token"
    static let account = "alice"

    struct State {
        var accounts: Set<String> = [FakeCloud.account]
        var containers: [String: FakeContainer] = [:]
    }

    let state = Lock(State())

    func container(_ account: String, _ name: ContainerID) -> FakeContainer {
        state.withLock { state in
            let key = "\(account)/\(name)"
            if let known = state.containers[key] { return known }
            let new = FakeContainer(account: account, name: name)
            state.containers[key] = new
            return new
        }
    }

    var host: CloudHost {
        CloudHost(
            authenticate: { token in
                if token == Self.token { return TokenHolder(account: Self.account) }
                let name = String(token.trimmingPrefix("token-of-"))
                guard name != token, self.state.withLock({ $0.accounts.contains(name) }) else {
                    throw UbiquityError(.signedOut, "the token is not valid")
                }
                return TokenHolder(account: name)
            },
            service: { holder, container in self.container(holder.account, container) },
            overview: { account in throw UbiquityError(.notFound, "nothing to see", at: account) },
            browser: { _, container in throw UbiquityError(.notFound, "nothing to see", at: container.name) },
            createAccount: { name, _ in
                let isNew = self.state.withLock { $0.accounts.insert(name).inserted }
                guard isNew else { throw UbiquityError(.alreadyExists, "there is an account \(name)") }
                return "token-of-\(name)"
            },
            accounts: { self.state.withLock { $0.accounts.sorted() } },
            deleteAccount: { name in
                guard self.state.withLock({ $0.accounts.remove(name) }) != nil else {
                    throw UbiquityError(.notFound, "no account \(name)")
                }
            })
    }
}

final class FakeContainer: CloudService {
    struct State {
        var chunks: [ChunkID: [UInt8]] = [:]
        var commits: [CommitRequest] = []
        var revision = Revision.zero
        var listeners: [Int: AsyncThrowingStream<Revision, any Error>.Continuation] = [:]
        var nextListener = 0
        var page = ChangePage(items: [], revision: .zero, hasMore: false)
        var asked: [Revision] = []
        var points: [FeedPoint] = []
        /// Called before each commit is answered; may wait or throw.
        var beforeCommit: @Sendable () async throws -> Void = {}
        /// Called before each chunk of a download.
        var beforeChunk: @Sendable (ChunkID) async throws -> Void = { _ in }
    }

    let account: String
    let name: ContainerID
    let state = Lock(State())

    init(account: String, name: ContainerID) {
        self.account = account
        self.name = name
    }

    func open(knowing point: FeedPoint?) async throws -> ContainerDescription {
        if let point { state.withLock { $0.points.append(point) } }
        return ContainerDescription(
            container: name, account: account, incarnation: 0xFEED_0000_0000_0001,
            revision: state.withLock { $0.revision }, usage: try await usage())
    }

    func changes(after point: FeedPoint, limit: Int) async throws -> ChangePage {
        state.withLock { state in
            state.asked.append(point.revision)
            state.points.append(point)
            return state.page
        }
    }

    func snapshot(after point: FeedPoint, limit: Int) async throws -> ChangePage {
        var page = state.withLock { $0.page }
        page.revision = Revision(point.revision.number + Int64(limit))
        return page
    }

    func commit(_ request: CommitRequest) async throws -> CommitResponse {
        try await state.withLock { $0.beforeCommit }()
        let (revision, listeners) = state.withLock { state in
            state.commits.append(request)
            state.revision = state.revision.next
            return (state.revision, Array(state.listeners.values))
        }
        for listener in listeners { listener.yield(revision) }
        return CommitResponse(
            revision: revision,
            results: request.changes.map { _ in ChangeResult(outcome: .unknownItem, item: nil) })
    }

    func missingChunks(of ids: [ChunkID]) async throws -> [ChunkID] {
        state.withLock { state in ids.filter { state.chunks[$0] == nil } }
    }

    func upload(_ chunks: [Chunk]) async throws {
        for chunk in chunks {
            guard chunk.id == TestChunks.id(of: chunk.bytes) else {
                throw UbiquityError(.invalid, "chunk \(chunk.id) does not match its id")
            }
            state.withLock { $0.chunks[chunk.id] = chunk.bytes }
        }
    }

    func fetchChunks(_ ids: [ChunkID], receive: @Sendable (Chunk) async throws -> Void) async throws {
        for id in ids {
            try await state.withLock { $0.beforeChunk }(id)
            guard let bytes = state.withLock({ $0.chunks[id] }) else {
                throw UbiquityError(.notFound, "no chunk \(id)")
            }
            try await receive(Chunk(id: id, bytes: bytes))
        }
    }

    func manifest(of version: VersionID) async throws -> Manifest {
        guard version.low == 1 else { throw UbiquityError(.notUploadedYet, "only its metadata is known") }
        return [ChunkReference(id: TestChunks.id(of: [1]), length: 1)]
    }

    func news() async throws -> AsyncThrowingStream<Revision, any Error> {
        let (stream, continuation) = AsyncThrowingStream.makeStream(of: Revision.self)
        let (token, revision) = state.withLock { state in
            state.nextListener += 1
            state.listeners[state.nextListener] = continuation
            return (state.nextListener, state.revision)
        }
        continuation.onTermination = { _ in self.state.withLock { $0.listeners[token] = nil } }
        continuation.yield(revision)
        return stream
    }

    func usage() async throws -> CloudUsage {
        CloudUsage(
            usedBytes: state.withLock { Int64($0.chunks.values.reduce(0) { $0 + $1.count }) }, quotaBytes: 1 << 30)
    }
}
