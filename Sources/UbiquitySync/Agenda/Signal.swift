package import UbiquityCore
internal import UbiquitySystem

/// Wakes a loop. Several fires before the loop looks count as one. A fire before the loop waits is not lost.
package final class Signal: Sendable {
    private struct State {
        var isFired = false
        var nextWaiter: UInt64 = 0
        var waiters: [UInt64: CheckedContinuation<Void, Never>] = [:]
        var cancelled: Set<UInt64> = []
    }

    private let state = Lock(State())

    package init() {}

    package func fire() {
        let woken = state.withLock { state in
            defer { state.waiters = [:] }
            if state.waiters.isEmpty { state.isFired = true }
            return state.waiters
        }
        for (_, waiter) in woken.sorted(by: { $0.key < $1.key }) { waiter.resume() }
    }

    /// Waits for a fire, or for the task's cancellation.
    package func wait() async {
        let id = state.withLock { state in
            state.nextWaiter += 1
            return state.nextWaiter
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
                let isReady = state.withLock { state in
                    if state.isFired || state.cancelled.remove(id) != nil {
                        state.isFired = false
                        return true
                    }
                    state.waiters[id] = continuation
                    return false
                }
                if isReady { continuation.resume() }
            }
        } onCancel: {
            let waiter = state.withLock { state in
                let waiter = state.waiters.removeValue(forKey: id)
                if waiter == nil { state.cancelled.insert(id) }
                return waiter
            }
            waiter?.resume()
        }
        state.withLock { _ = $0.cancelled.remove(id) }
    }

    /// Waits for a fire, at most `duration`.
    package func wait(atMost duration: Duration, _ timekeeper: any Timekeeper) async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.wait() }
            group.addTask { try? await timekeeper.sleep(for: duration) }
            await group.next()
            group.cancelAll()
        }
    }
}
