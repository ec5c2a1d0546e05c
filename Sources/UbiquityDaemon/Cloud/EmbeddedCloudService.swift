import UbiquityCore
import UbiquitySystem
import UbiquityWire

/// The embedded cloud as a `CloudService`. If a call fails because the cloud is not running, it starts the cloud and
/// repeats the call.
struct EmbeddedCloudService: CloudService {
    let base: any CloudService
    let cloud: EmbeddedCloud
    let timekeeper: any Timekeeper

    /// A failure within this time means the cloud was not reached: it was just ending, or another process may have
    /// started it since. (A busy machine can take seconds for it; a cloud that does not answer takes longer.)
    private static let atOnce = Duration.seconds(5)

    func open(knowing point: FeedPoint?) async throws -> ContainerDescription {
        try await reaching { try await base.open(knowing: point) }
    }

    func changes(after point: FeedPoint, limit: Int) async throws -> ChangePage {
        try await reaching { try await base.changes(after: point, limit: limit) }
    }

    func snapshot(after point: FeedPoint, limit: Int) async throws -> ChangePage {
        try await reaching { try await base.snapshot(after: point, limit: limit) }
    }

    func commit(_ request: CommitRequest) async throws -> CommitResponse {
        try await reaching { try await base.commit(request) }
    }

    func missingChunks(of ids: [ChunkID]) async throws -> [ChunkID] {
        try await reaching { try await base.missingChunks(of: ids) }
    }

    func unsoundChunks(of ids: [ChunkID]) async throws -> [ChunkID] {
        try await reaching { try await base.unsoundChunks(of: ids) }
    }

    func upload(_ chunks: [Chunk]) async throws { try await reaching { try await base.upload(chunks) } }

    /// Not repeated once a chunk has been delivered: the caller knows which chunks were.
    func fetchChunks(_ ids: [ChunkID], receive: @Sendable (Chunk) async throws -> Void) async throws {
        let hasReceived = Lock(false)
        try await reaching(unless: { hasReceived.withLock { $0 } }) {
            try await base.fetchChunks(ids) { chunk in
                hasReceived.withLock { $0 = true }
                try await receive(chunk)
            }
        }
    }

    func manifest(of version: VersionID) async throws -> Manifest {
        try await reaching { try await base.manifest(of: version) }
    }

    func allVersions(of item: ItemID) async throws -> ItemVersions {
        try await reaching { try await base.allVersions(of: item) }
    }

    func trash(in folder: ItemID?, after position: TrashPosition?, limit: Int) async throws -> TrashPage {
        try await reaching { try await base.trash(in: folder, after: position, limit: limit) }
    }

    func news() async throws -> AsyncThrowingStream<Revision, any Error> {
        try await reaching { try await base.news() }
    }

    func usage() async throws -> CloudUsage { try await reaching { try await base.usage() } }

    /// Every call of `CloudService` may be repeated, so one more try after a start is harmless.
    func reaching<Value>(
        unless isUnderWay: () -> Bool = { false }, _ call: () async throws -> Value
    ) async throws -> Value {
        let begin = timekeeper.uptime()
        do {
            return try await call()
        } catch let error as UbiquityError where error.code == .offline {
            let hasFailedAtOnce = timekeeper.uptime() - begin < Self.atOnce
            guard try await cloud.ensureRunning() || hasFailedAtOnce, !isUnderWay() else { throw error }
            return try await call()
        }
    }
}
