import Synchronization
import Testing
import UbiquitySystem

@testable import UbiquityVFS

@Suite struct CompletionWaitersTests {
    /// A cancellation comes at any moment, also at the start of the wait. An open ends its watch for the inode like
    /// that, and would otherwise hang for ever.
    @Test func cancelledWaitEndsAtAnyMoment() async throws {
        let waiters = CompletionWaiters()
        for round in 0..<30_000 {
            let begun = Shared(Atomic(false)), ended = Lock(false)
            let wait = Task.detached {
                begun.value.store(true, ordering: .releasing)
                await waiters.wait(for: 1) { false }
                ended.withLock { $0 = true }
            }
            while !begun.value.load(ordering: .acquiring) { await Task.yield() }
            // A little later each time.
            for _ in 0..<(round % 300) { _ = begun.value.load(ordering: .acquiring) }
            wait.cancel()
            let limit = ContinuousClock.now + .seconds(10)
            while !ended.withLock({ $0 }) {
                await Task.yield()
                guard ContinuousClock.now < limit else {
                    Issue.record("the wait of round \(round) goes on")
                    return waiters.wake(1)
                }
            }
        }
    }

    /// A waiter that starts after the notification checks the condition itself.
    @Test func waitForCompleteContentReturnsAtOnce() async { await CompletionWaiters().wait(for: 1) { true } }
}

/// A box for a non-copyable value, for a closure.
private final class Shared<Value: ~Copyable & Sendable>: Sendable {
    let value: Value
    init(_ value: consuming Value) { self.value = value }
}
