import Logging
import Testing
import UbiquityCloudStore
import UbiquityCore
import UbiquitySystem
import UbiquityTestSupport
import UbiquityWire

/// A cloud in a temporary folder, which can be closed and opened again.
final class CloudBench {
    let clock = ManualTime(sleep: .isCancelled)
    let folder: ChunkFolder
    let pool = BlockingPool(name: "cloud-test", threads: 2)
    private(set) var cloud: Cloud
    private var requests: UInt64 = 0

    static let device = DeviceID(high: 0, low: 1)

    init() throws {
        folder = try ChunkFolder()
        cloud = try Self.open(folder.path, clock, pool)
    }

    static func open(
        _ path: String, _ clock: any Timekeeper, _ pool: BlockingPool, quotaBytes: Int64? = nil
    ) throws -> Cloud {
        var logger = Logger(label: "cloud-test")
        logger.logLevel = .critical
        return try Cloud(
            data: path, timekeeper: clock, random: SystemRandom(), pool: pool, logger: logger, quotaBytes: quotaBytes)
    }

    /// Closes the cloud and runs `between` while nothing uses the folder.
    func reopen(quotaBytes: Int64? = nil, _ between: () throws -> Void = {}) async throws {
        try await cloud.close()
        try between()
        cloud = try Self.open(folder.path, clock, pool, quotaBytes: quotaBytes)
    }

    /// Opens a container.
    func container(_ name: String = "notes", account: String = Cloud.localAccount) async throws -> any CloudService {
        let service = try await cloud.service(account: account, container: try #require(ContainerID(name)))
        _ = try await service.open()
        return service
    }

    func request(_ changes: [ItemChange], _ chunks: [Chunk] = []) -> CommitRequest {
        requests += 1
        return CommitRequest(
            id: RequestID(high: 7, low: requests), device: Self.device, deviceName: "laptop", changes: changes,
            chunks: chunks)
    }

    /// A new file with these chunks.
    func file(_ number: UInt64, _ name: String, _ chunks: [Chunk], version: UInt64? = nil) throws -> ItemChange {
        let manifest = chunks.map { ChunkReference(id: $0.id, length: $0.bytes.count) }
        let size = chunks.reduce(0) { $0 + Int64($1.bytes.count) }
        return Make.put(
            number,
            ChangedFields(
                place: try Make.place(name), mode: 0o644, createdAt: .at(100), modifiedAt: .at(100),
                content: ContentChange(
                    version: .number(version ?? number), baseVersion: nil, size: size, manifest: manifest)))
    }

    func fetch(_ ids: [ChunkID], from service: any CloudService) async throws -> [Chunk] {
        let received = Lock<[Chunk]>([])
        try await service.fetchChunks(ids) { chunk in received.withLock { $0.append(chunk) } }
        return received.withLock { $0 }
    }

    /// The durable file of a large chunk of the only account.
    func file(of id: ChunkID) throws -> String {
        let accounts = try FileSystem.entries(of: folder.path + "/chunks").map(\.text)
        return "\(folder.path)/chunks/\(try #require(accounts.first))/chunks/\(id.description.prefix(2))/\(id)"
    }
}

/// The code of the failure of `body`.
func failure(_ body: () async throws -> Void) async -> UbiquityError.Code? {
    do {
        try await body()
        return nil
    } catch {
        return error is MissingChunks ? .missingChunks : (error as? UbiquityError)?.code
    }
}
