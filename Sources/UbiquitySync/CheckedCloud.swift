internal import UbiquityCore
internal import UbiquityWire

/// A cloud whose refusals belong to the call. Only a commit can lack chunks, be outdated, or meet a changed package. A
/// cloud that lies may refuse any call like that. The caller then gets a `UbiquityError`, as for every other failure.
struct CheckedCloud: CloudService {
    let cloud: any CloudService

    private func checked<R>(_ body: () async throws -> R) async throws -> R {
        do { return try await body() } catch let error where Self.belongsToACommit(error) {
            throw UbiquityError(.io, "the cloud refused a request as if it were a commit")
        }
    }

    private static func belongsToACommit(_ error: any Error) -> Bool {
        switch error {
        case is MissingChunks, is OutdatedCommit, is PackageConflict: true
        default: false
        }
    }

    func commit(_ request: CommitRequest) async throws -> CommitResponse { try await cloud.commit(request) }

    func open(knowing point: FeedPoint?) async throws -> ContainerDescription {
        try await checked { try await cloud.open(knowing: point) }
    }

    func changes(after point: FeedPoint, limit: Int) async throws -> ChangePage {
        try await checked { try await cloud.changes(after: point, limit: limit) }
    }

    func snapshot(after point: FeedPoint, limit: Int) async throws -> ChangePage {
        try await checked { try await cloud.snapshot(after: point, limit: limit) }
    }

    func missingChunks(of ids: [ChunkID]) async throws -> [ChunkID] {
        try await checked { try await cloud.missingChunks(of: ids) }
    }

    func unsoundChunks(of ids: [ChunkID]) async throws -> [ChunkID] {
        try await checked { try await cloud.unsoundChunks(of: ids) }
    }

    func upload(_ chunks: [Chunk]) async throws { try await checked { try await cloud.upload(chunks) } }

    func fetchChunks(_ ids: [ChunkID], receive: @Sendable (Chunk) async throws -> Void) async throws {
        try await checked { try await cloud.fetchChunks(ids, receive: receive) }
    }

    func manifest(of version: VersionID) async throws -> Manifest {
        try await checked { try await cloud.manifest(of: version) }
    }

    func allVersions(of item: ItemID) async throws -> ItemVersions {
        try await checked { try await cloud.allVersions(of: item) }
    }

    func trash(in folder: ItemID?, after position: TrashPosition?, limit: Int) async throws -> TrashPage {
        try await checked { try await cloud.trash(in: folder, after: position, limit: limit) }
    }

    func news() async throws -> AsyncThrowingStream<Revision, any Error> {
        try await checked { try await cloud.news() }
    }

    func usage() async throws -> CloudUsage { try await checked { try await cloud.usage() } }
}
