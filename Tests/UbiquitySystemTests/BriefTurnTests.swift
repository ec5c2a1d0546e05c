import Glibc
import Testing
import UbiquitySystem

@Suite struct BriefTurnTests {
    private struct Refusal: Error {}

    private let threads = BlockingPool(name: "turns", threads: 4)

    @Test func oneAtATime() async throws {
        let turn = BriefTurn()
        let total = Box()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<4 {
                group.addTask {
                    try await threads.run {
                        for _ in 0..<20_000 {
                            if number == 0 { turn.takeLast { total.value += 1 } } else { turn.take { total.value += 1 } }
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(total.value == 80_000)
    }

    @Test func failingBodyReleasesTheLock() {
        let turn = BriefTurn()
        #expect(throws: Refusal.self) { try turn.take { throw Refusal() } }
        #expect(throws: Refusal.self) { try turn.takeLast { throw Refusal() } }
        #expect(turn.take { 1 } == 1)
    }

    /// Holds the lock longer than a waiter spins, until the waiter is seen to sleep.
    @Test func longWaiterGetsTheLock() async throws {
        let turn = BriefTurn()
        let waiting = Lock(""), order = Lock([Int]()), sleeps = Lock(false)
        async let holder: Void = threads.run {
            try turn.take {
                order.withLock { $0.append(1) }
                for _ in 0..<30_000 where !sleeps.withLock({ $0 }) {
                    usleep(1000)
                    let thread = waiting.withLock { $0 }
                    guard !thread.isEmpty else { continue }
                    let line = try SmallFile.read("/proc/\(thread)/stat", limit: 1024) ?? []
                    sleeps.withLock { $0 = String(decoding: line, as: UTF8.self).contains(") S ") }
                }
                order.withLock { $0.append(2) }
            }
        }
        for _ in 0..<30_000 where order.withLock({ $0.isEmpty }) { try await Task.sleep(for: .milliseconds(1)) }
        try await threads.run {
            let own = String(decoding: try FileSystem.readLink("/proc/thread-self"), as: UTF8.self)
            waiting.withLock { $0 = own }
            turn.take { order.withLock { $0.append(3) } }
        }
        try await holder
        #expect(sleeps.withLock { $0 })
        #expect(order.withLock { $0 } == [1, 2, 3])
    }

    private final class Box: @unchecked Sendable {
        var value = 0
    }
}
