internal import UbiquityCore
internal import UbiquitySystem

/// Tasks that wait until an inode's content is complete, or the inode is gone.
final class CompletionWaiters: Sendable {
    private struct State {
        var next: UInt64 = 0
        var waiters: [UInt64: [UInt64: CheckedContinuation<Void, Never>]] = [:]
        /// Waiters cancelled before they began.
        var cancelled: Set<UInt64> = []
    }
    private let state = Lock(State())

    /// For tests: whether a task waits for the inode.
    func isAwaited(_ ino: UInt64) -> Bool { state.withLock { $0.waiters[ino] != nil } }

    /// Waits for `wake(ino)` unless `isDone` returns true. `isDone` is called after the waiter is registered, so no
    /// wake is missed. Returns early when the task is cancelled.
    func wait(for ino: UInt64, unless isDone: @escaping @Sendable () -> Bool) async {
        let number = state.withLock { state in
            state.next += 1
            return state.next
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isCancelled = state.withLock { state in
                    if state.cancelled.remove(number) != nil { return true }
                    state.waiters[ino, default: [:]][number] = continuation
                    return false
                }
                if isCancelled { return continuation.resume() }
                if isDone() { wake(ino, number) }
            }
        } onCancel: {
            wake(ino, number, isCancelled: true)
        }
        _ = state.withLock { $0.cancelled.remove(number) }
    }

    /// - Parameter isCancelled: a waiter not registered yet is recorded as cancelled. Both under one lock, because it
    ///   may be about to register.
    private func wake(_ ino: UInt64, _ number: UInt64, isCancelled: Bool = false) {
        let continuation = state.withLock { state in
            let found = state.waiters[ino]?.removeValue(forKey: number)
            if state.waiters[ino]?.isEmpty == true { state.waiters[ino] = nil }
            if found == nil, isCancelled { state.cancelled.insert(number) }
            return found
        }
        continuation?.resume()
    }

    /// Wakes all tasks that wait for the inode.
    func wake(_ ino: UInt64) {
        let woken = state.withLock { $0.waiters.removeValue(forKey: ino) }
        for continuation in (woken ?? [:]).values { continuation.resume() }
    }
}
