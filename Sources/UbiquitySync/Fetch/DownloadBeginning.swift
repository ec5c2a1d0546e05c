internal import UbiquitySystem

/// A download that is about to begin, and its waiters. It queries the cloud, so it may take that long. A cancelled
/// waiter stops waiting.
final class DownloadBeginning: Sendable {
    private typealias Waiter = CheckedContinuation<Download, any Error>

    private struct State {
        var result: Result<Download, any Error>?
        var nextWaiter: UInt64 = 0
        var waiters: [UInt64: Waiter] = [:]
        /// Waiters cancelled before they waited.
        var cancelled: Set<UInt64> = []
        /// Callers that will wait, are waiting, or have the result.
        var takers = 0
    }

    private let state = Lock(State())

    /// Call it before `wait`, at the moment the caller gets the object.
    func join() { state.withLock { $0.takers += 1 } }

    /// - Returns: whether any caller has the download or will get it.
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
                // The caller has the result already, or is about to get it.
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
