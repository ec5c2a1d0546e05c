internal import UbiquitySystem

/// A download that is about to begin, and those who wait for that. It asks the cloud, so it may take as long as that
/// takes; who is cancelled waits no longer.
final class DownloadBeginning: Sendable {
    private typealias Waiter = CheckedContinuation<Download, any Error>

    private struct State {
        var result: Result<Download, any Error>?
        var nextWaiter: UInt64 = 0
        var waiters: [UInt64: Waiter] = [:]
        /// Cancelled before they waited.
        var cancelled: Set<UInt64> = []
        /// Those who are going to wait, or do, or have it.
        var takers = 0
    }

    private let state = Lock(State())

    /// To be called before `wait`, in the moment in which it is got hold of.
    func join() { state.withLock { $0.takers += 1 } }

    /// - Returns: whether anybody has it, or will.
    @discardableResult
    func finish(_ result: Result<Download, any Error>) -> Bool {
        let (waiters, isTaken) = state.withLock { state in
            state.result = result
            defer { state.waiters = [:] }
            return (state.waiters, state.takers > 0)
        }
        for (_, waiter) in waiters.sorted(by: { $0.key < $1.key }) { waiter.resume(with: result) }
        return isTaken
    }

    func wait() async throws -> Download {
        let id = state.withLock { state in
            state.nextWaiter += 1
            return state.nextWaiter
        }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { waiter in
                let known = state.withLock { state -> Result<Download, any Error>? in
                    if state.cancelled.remove(id) != nil { return .failure(CancellationError()) }
                    if state.result == nil { state.waiters[id] = waiter }
                    return state.result
                }
                if let known { waiter.resume(with: known) }
            }
        } onCancel: {
            let waiter = state.withLock { state -> Waiter? in
                // It has it already, or is about to be given it.
                guard state.result == nil else { return nil }
                state.takers -= 1
                let waiter = state.waiters.removeValue(forKey: id)
                if waiter == nil { state.cancelled.insert(id) }
                return waiter
            }
            waiter?.resume(throwing: CancellationError())
        }
    }
}
