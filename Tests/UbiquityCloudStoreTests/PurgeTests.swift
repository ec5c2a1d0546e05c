import GRDB
import Testing
@testable import UbiquityCloudStore
import UbiquityCore
import UbiquitySystem
import UbiquityTestSupport
import UbiquityWire

/// `trash empty` and `trash delete`: a secret that was saved by mistake is really gone from the cloud's folder.
@Suite struct PurgeTests {
    private let bench: CloudBench
    private static let account = Cloud.localAccount
    private static let container = ContainerID("notes").unsafelyUnwrapped
    private let small = ChunkSamples.chunk(1, length: 9000)
    private let large = ChunkSamples.chunk(2, length: 40_000)
    private let other = ChunkSamples.chunk(3, length: 50_000)
    private var purges: Purges { bench.cloud.purges }

    init() throws { bench = try CloudBench() }

    private func secrets() -> [[UInt8]] {
        [Array("my password.txt".utf8), Array(small.bytes.prefix(64)), Array(large.bytes.prefix(64))]
    }

    /// Which of the secrets are in a file of the cloud's folder.
    private func present() throws -> [Bool] {
        try secrets().map { try !FolderSearch.files(in: bench.folder.path, with: $0).isEmpty }
    }

    /// A file with an earlier version, deleted.
    private func saveAndDelete(_ service: any CloudService) async throws {
        _ = try await service.commit(bench.request([bench.file(1, "my password.txt", [small])], [small]))
        let content = ContentChange(
            version: .number(50), baseVersion: .number(1), size: 40_000,
            manifest: [ChunkReference(id: large.id, length: 40_000)])
        _ = try await service.commit(bench.request([Make.put(1, base: 1, ChangedFields(content: content))], [large]))
        _ = try await service.commit(bench.request([Make.delete(1, base: 2)]))
    }

    private func collect() async throws {
        bench.clock.advance(seconds: CloudLimits.purgedChunkAge + 1)
        try await bench.cloud.maintain()
    }

    @Test func purgedSecretIsGoneAfterTheNextCollection() async throws {
        let service = try await bench.container()
        try await saveAndDelete(service)
        #expect(try present() == [true, true, true])
        let purged = try await purges.purge(.number(1), in: Self.container, of: Self.account)
        #expect(purged.items == 1 && purged.versions == 2)
        try await collect()
        #expect(try present() == [false, false, false])
        #expect(try await service.trash(in: nil, after: nil, limit: 10).items.isEmpty)
        #expect(try await service.missingChunks(of: [small.id, large.id]) == [small.id, large.id])
        try await bench.reopen()
        #expect(try present() == [false, false, false])
    }

    @Test func contentsOfOtherItemsStay() async throws {
        let service = try await bench.container()
        _ = try await service.commit(bench.request([bench.file(2, "kept", [small, other])], [small, other]))
        try await saveAndDelete(service)
        _ = try await purges.emptyTrash(of: Self.container, of: Self.account)
        try await collect()
        #expect(try await bench.fetch([small.id, other.id], from: service) == [small, other])
        #expect(try await service.missingChunks(of: [large.id]) == [large.id])
    }

    /// A device that stores the content again after the purge keeps it for its commit.
    @Test func contentSentAgainAfterThePurgeStays() async throws {
        let service = try await bench.container()
        try await saveAndDelete(service)
        _ = try await purges.emptyTrash(of: Self.container, of: Self.account)
        bench.clock.advance(seconds: 5)
        try await service.upload([small, large])
        try await collect()
        #expect(try await service.missingChunks(of: [small.id, large.id]) == [])
        _ = try await service.commit(bench.request([bench.file(9, "again", [small, large])]))
        #expect(try await bench.fetch([small.id, large.id], from: service) == [small, large])
    }

    @Test func liveItemsAndUnknownOnesAreNotPurged() async throws {
        let service = try await bench.container()
        _ = try await service.commit(bench.request([bench.file(2, "kept", [small])], [small]))
        #expect(
            await failure { _ = try await purges.purge(.number(2), in: Self.container, of: Self.account) } == .busy)
        #expect(
            await failure { _ = try await purges.purge(.number(3), in: Self.container, of: Self.account) }
                == .notFound)
        let unknown = try #require(ContainerID("unknown"))
        #expect(await failure { _ = try await purges.emptyTrash(of: unknown, of: Self.account) } == .notFound)
        #expect(try await purges.emptyTrash(of: Self.container, of: Self.account).items == 0)
        #expect(try await service.changes(after: .zero, limit: 10).items.contains { $0.id == .number(2) })
    }

    private func folders(_ service: any CloudService, count: UInt64) async throws {
        var changes = [try Make.folder(1, "top"), try Make.folder(2, "kept")]
        for number in 3..<(3 + count) { changes.append(try Make.folder(number, "f\(number)", in: .number(1))) }
        _ = try await service.commit(bench.request(changes))
        let deleted = [1] + Array(3..<(3 + count))
        _ = try await service.commit(bench.request(deleted.map { Make.delete($0, .directory, base: 1) }))
    }

    @Test func folderIsPurgedWithAllThatIsInIt() async throws {
        let service = try await bench.container()
        try await folders(service, count: 20)
        let purged = try await purges.purge(.number(1), in: Self.container, of: Self.account)
        #expect(purged.items == 21)
        #expect(try await service.trash(in: nil, after: nil, limit: 10).items.isEmpty)
        #expect(try await service.changes(after: .zero, limit: 10).items.map(\.name.description) == ["kept"])
    }

    /// A device that did not see the deletion learns of it by comparing its complete state.
    @Test func deviceThatMissedTheDeletionReadsTheSnapshot() async throws {
        let service = try await bench.container()
        let before = try await service.commit(bench.request([bench.file(1, "a", [small])], [small])).revision
        _ = try await service.commit(bench.request([Make.delete(1, base: 1)]))
        _ = try await purges.emptyTrash(of: Self.container, of: Self.account)
        let point = FeedPoint(before)
        #expect(await failure { _ = try await service.changes(after: point, limit: 10) } == .feedCompacted)
        #expect(try await service.snapshot(after: .zero, limit: 10).items.isEmpty)
    }

    // MARK: Interrupted

    /// A process that is killed after any transaction of a purge leaves its row, and the next start finishes it.
    @Test func interruptedPurgeIsFinishedByTheNextStart() async throws {
        let service = try await bench.container()
        try await folders(service, count: 5)
        try await saveSecretBeside(service)
        let now = bench.clock.now().nanoseconds
        try await bench.reopen {
            let database = try DatabaseQueue(path: Path.join(bench.folder.path, "metadata.db"))
            try database.write { db in
                // The state after the first transaction, and one item of the second.
                try db.execute(
                    sql: "INSERT INTO purges (container, item, before) VALUES (1, NULL, ?)", arguments: [now])
                try db.execute(
                    sql: "DELETE FROM items WHERE container = 1 AND id = ?", arguments: [Bytes(ItemID.number(3).bytes)])
            }
            try database.close()
        }
        try await bench.cloud.maintain()
        let again = try await bench.container()
        #expect(try await again.trash(in: nil, after: nil, limit: 10).items.isEmpty)
        let left = try await bench.cloud.pool.run { [cloud = bench.cloud] in
            try cloud.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM purges") }
        }
        #expect(left == 0)
        // The rows are gone and the process ended before the collection: the one after the next start does it.
        try await bench.reopen()
        try await collect()
        #expect(try present() == [false, false, false])
    }

    private func saveSecretBeside(_ service: any CloudService) async throws {
        _ = try await service.commit(
            bench.request([bench.file(100, "my password.txt", [small, large])], [small, large]))
        _ = try await service.commit(bench.request([Make.delete(100, base: 3)]))
    }

    /// A row of an account that was deleted meanwhile ends.
    @Test func purgeOfADeletedAccountEnds() async throws {
        _ = try await bench.cloud.createAccount("alice")
        _ = try await bench.container(account: "alice")
        try await bench.cloud.pool.run { [cloud = bench.cloud] in
            try cloud.write { db in
                try db.execute(sql: "INSERT INTO purges (container, item, before) VALUES (77, NULL, 0)")
            }
        }
        try await bench.cloud.maintain()
        try await bench.cloud.deleteAccount("alice")
        try await bench.cloud.maintain()
    }
}
