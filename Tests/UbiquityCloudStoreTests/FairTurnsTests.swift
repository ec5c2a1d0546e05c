import Testing
@testable import UbiquityCloudStore
import UbiquityCore
import UbiquitySystem
import UbiquityWire

/// One account sends many heavy commits at once while another sends a small one.
@Suite struct FairTurnsTests {
    private static let depth: UInt64 = 200
    private static let commits: UInt64 = 24

    private func folder(_ number: UInt64, in parent: UInt64?) throws -> ItemChange {
        try Make.folder(number, "d\(number)", in: parent.map { .number($0) } ?? .root)
    }

    /// The other account's commit waits for running commits, and not for queued ones.
    @Test func commitOfAnotherAccountPassesTheQueue() async throws {
        let bench = try CloudBench()
        for name in ["eve", "alice"] { _ = try await bench.cloud.createAccount(name) }
        let eve = try await bench.container(account: "eve"), alice = try await bench.container(account: "alice")
        _ = try await eve.commit(
            bench.request(try (1...Self.depth).map { try folder($0, in: $0 == 1 ? nil : $0 - 1) }))
        let attack = try (1...Self.commits).map { number in
            bench.request(try (1...300).map { try folder(number * 1000 + $0, in: Self.depth) })
        }
        let request = bench.request([try folder(1, in: nil)])
        let done = Lock(0), (first, source) = AsyncStream.makeStream(of: Void.self)
        let clock = ContinuousClock()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for commit in attack {
                group.addTask {
                    _ = try await eve.commit(commit)
                    done.withLock { $0 += 1 }
                    source.yield()
                }
            }
            for await _ in first { break }
            let before = done.withLock { $0 }, start = clock.now
            _ = try await alice.commit(request)
            let passed = done.withLock { $0 } - before, time = clock.now - start
            print("a commit beside \(Self.commits) heavy ones waited for \(passed) of them, \(time)")
            #expect(passed <= 2 * CloudLimits.commitsOfAnAccount)
            try await group.waitForAll()
        }
        #expect(done.withLock { $0 } == Int(Self.commits))
    }
}
