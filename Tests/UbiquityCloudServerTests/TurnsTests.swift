import Testing
import UbiquitySystem

@testable import UbiquityCloudClient

/// A limited number at a time; the others wait.
@Suite struct TurnsTests {
    private struct Count {
        var inside = 0, most = 0, done = 0
    }

    @Test func concurrencyIsLimited() async throws {
        let turns = Turns(limit: 3), count = Lock(Count())
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<200 {
                group.addTask {
                    try await turns.run {
                        count.withLock { count in
                            count.inside += 1
                            count.most = max(count.most, count.inside)
                        }
                        await Task.yield()
                        count.withLock { count in
                            count.inside -= 1
                            count.done += 1
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(count.withLock { $0.done } == 200)
        #expect((1...3).contains(count.withLock { $0.most }))
    }

    /// A cancelled waiter uses no turn, whatever the order of events.
    @Test func cancelledWaitersUseNoTurn() async throws {
        let turns = Turns(limit: 1), done = Lock(0)
        for _ in 0..<50 {
            let tasks = (0..<20).map { _ in
                Task {
                    try await turns.run {
                        await Task.yield()
                        done.withLock { $0 += 1 }
                    }
                }
            }
            for task in tasks.dropFirst(2) { task.cancel() }
            for task in tasks.prefix(2) { try await task.value }
            for task in tasks.dropFirst(2) { _ = await task.result }
        }
        #expect(done.withLock { $0 } >= 100)
        try await turns.run {}
    }
}
