package import UbiquityCore
internal import UbiquitySystem

/// Notifies any number of waiters of a change. They check their condition and may wait again.
package final class Broadcast: Sendable {
    private struct State {
        var generation: UInt64 = 0
        var waiters: [UInt64: Signal] = [:]
        var nextWaiter: UInt64 = 0
    }

    private let state = Lock(State())

    package init() {}

    package var generation: UInt64 { state.withLock { $0.generation } }

    func fire() {
        let waiters = state.withLock { state in
            state.generation += 1
            return state.waiters
        }
        for (_, signal) in waiters.sorted(by: { $0.key < $1.key }) { signal.fire() }
    }

    /// Waits for a change since `generation` was read, at most `duration`.
    package func wait(since generation: UInt64, atMost duration: Duration, _ timekeeper: any Timekeeper) async {
        let signal = Signal()
        let id = state.withLock { state -> UInt64? in
            guard state.generation == generation else { return nil }
            state.nextWaiter += 1
            state.waiters[state.nextWaiter] = signal
            return state.nextWaiter
        }
        guard let id else { return }
        await signal.wait(atMost: duration, timekeeper)
        state.withLock { _ = $0.waiters.removeValue(forKey: id) }
    }
}
