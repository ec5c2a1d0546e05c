import UbiquitySystem

/// The waits of one coordinator, so that `cancel` can end them.
final class CoordinatorCancellation: Sendable {
    private struct State {
        var isCancelled = false
        var waits: [Int: @Sendable () -> Void] = [:]
        var lastNumber = 0
    }

    private let state = Lock(State())

    var isCancelled: Bool { state.withLock { $0.isCancelled } }

    /// Ends the running waits. Every later wait ends at once.
    func cancel() {
        let waits = state.withLock { state in
            state.isCancelled = true
            return Array(state.waits.values)
        }
        for wait in waits { wait() }
    }

    /// Runs `body` until it ends or the coordinator or the calling task is cancelled.
    ///
    /// - Throws: `FileCoordinationError.userCancelled` after `cancel`, or the error of `body`.
    func run<Result: Sendable>(_ body: @escaping @Sendable () async throws -> Result) async throws -> Result {
        guard let begun = begin(body) else { throw FileCoordinationError.userCancelled }
        let result = await withTaskCancellationHandler {
            await begun.task.result
        } onCancel: {
            begun.task.cancel()
        }
        state.withLock { _ = $0.waits.removeValue(forKey: begun.number) }
        do { return try result.get() } catch where isCancelled { throw FileCoordinationError.userCancelled }
    }

    /// Nil if the coordinator is cancelled.
    private func begin<Result: Sendable>(
        _ body: @escaping @Sendable () async throws -> Result
    ) -> (number: Int, task: Task<Result, any Error>)? {
        state.withLock { state in
            guard !state.isCancelled else { return nil }
            let task = Task(operation: body)
            state.lastNumber += 1
            state.waits[state.lastNumber] = { task.cancel() }
            return (state.lastNumber, task)
        }
    }
}
