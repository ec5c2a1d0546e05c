import Glibc
import Logging
import Testing
import UbiquityCore
import UbiquitySystem
import UbiquityTestSupport
import UbiquityWire

@testable import UbiquityDaemon

@Suite struct EmbeddedCloudTests {
    /// A failed start is not retried at once, unless a user requests it.
    @Test func failedStartIsNotRetriedUntilRequested() async throws {
        let folder = Path.join(
            ProcessHost.variable("TMPDIR") ?? "/tmp", "ubiquity-embedded-\(UInt64.random(in: 0...UInt64.max))")
        try FileSystem.makeDirectories(folder)
        defer { try? FileSystem.removeTree(folder) }
        let obstacle = Path.join(folder, "obstacle")
        try SmallFile.publish([], at: obstacle)
        let cloud = EmbeddedCloud(
            data: Path.join(obstacle, "data"), pool: BlockingPool(name: "test", threads: 1),
            timekeeper: ManualTime(.zero, sleep: .returns), logger: Logger(label: "test"))
        let first = await #expect(throws: UbiquityError.self) { _ = try await cloud.ensureRunning() }
        #expect(first?.code == .offline)

        // Another obstacle shows whether it was tried again.
        try FileSystem.unlink(obstacle)
        try FileSystem.symlink(obstacle, at: obstacle)
        let second = await #expect(throws: UbiquityError.self) { _ = try await cloud.ensureRunning() }
        #expect(second == first)
        cloud.forgetFailures()
        let third = await #expect(throws: UbiquityError.self) { _ = try await cloud.ensureRunning() }
        #expect(third != first)
    }
}

extension EmbeddedCloudTests {
    /// Another mount has started the cloud between the failed call and the check whether it runs.
    @Test func callThatMissedTheCloudIsRepeated() async throws {
        let folder = Path.join(
            ProcessHost.variable("TMPDIR") ?? "/tmp", "ubiquity-embedded-\(UInt64.random(in: 0...UInt64.max))")
        try FileSystem.makeDirectories(folder)
        defer { try? FileSystem.removeTree(folder) }
        let listener = try listen(CloudFolder.socket(folder))
        defer { close(listener) }
        let cloud = EmbeddedCloud(
            data: folder, pool: BlockingPool(name: "test", threads: 1), timekeeper: ManualTime(.zero, sleep: .returns),
            logger: Logger(label: "test"))
        for received in [0, 1] {
            let base = try MissedCloud(chunksBefore: received)
            let service = EmbeddedCloudService(base: base, cloud: cloud, timekeeper: ManualTime(.zero, sleep: .returns))
            #expect(try await service.usage().quotaBytes == 2)
            base.calls.withLock { $0 = 0 }
            let arrived = Lock(0)
            let fetch = { try await service.fetchChunks([]) { _ in arrived.withLock { $0 += 1 } } }
            if received == 0 {
                try await fetch()
            } else {
                await #expect(throws: UbiquityError.self) { try await fetch() }
            }
            #expect(arrived.withLock { $0 } == 1)
        }
    }
}

private func listen(_ path: String) throws -> Int32 {
    let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
    let isBound = withUnsafePointer(to: &address) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
        }
    }
    guard isBound, listen(descriptor, 8) == 0 else { throw Errno(rawValue: errno) }
    return descriptor
}

/// The first call does not find it.
private final class MissedCloud: CloudService {
    let calls = Lock(0)
    let chunksBefore: Int

    private let chunk: Chunk

    init(chunksBefore: Int) throws {
        self.chunksBefore = chunksBefore
        chunk = Chunk(id: try #require(ChunkID(bytes: [UInt8](repeating: 1, count: 32))), bytes: [1])
    }

    private func miss() throws {
        let isFirst = calls.withLock { calls in
            calls += 1
            return calls == 1
        }
        if isFirst { throw UbiquityError(.offline, "connection refused") }
    }

    private var other: UbiquityError { UbiquityError(.invalid, "not asked for here") }

    func usage() async throws -> CloudUsage {
        try miss()
        return CloudUsage(usedBytes: 1, quotaBytes: 2)
    }

    func fetchChunks(_ ids: [ChunkID], receive: @Sendable (Chunk) async throws -> Void) async throws {
        for _ in 0..<chunksBefore { try await receive(chunk) }
        try miss()
        try await receive(chunk)
    }

    func changes(after point: FeedPoint, limit: Int) async throws -> ChangePage { throw other }
    func commit(_ request: CommitRequest) async throws -> CommitResponse { throw other }
    func missingChunks(of ids: [ChunkID]) async throws -> [ChunkID] { throw other }
    func upload(_ chunks: [Chunk]) async throws { throw other }
    func manifest(of version: VersionID) async throws -> Manifest { throw other }
    func news() async throws -> AsyncThrowingStream<Revision, any Error> { throw other }
    func open(knowing point: FeedPoint?) async throws -> ContainerDescription { throw other }
}
