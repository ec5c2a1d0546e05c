import UbiquityCore

/// Threads for calls that block: reads, writes, fsync, SQLite. Swift has only as many cooperative threads as cores, so
/// a blocking call there stops everything else.
package final class BlockingPool: Sendable {
    /// Maximum waiting jobs. More jobs indicate unlimited production and are refused.
    package static let maximumWaiting = 65_536

    /// Runs every job at once on the caller's thread: for a simulator, whose jobs must run in a fixed order.
    package static let inline = BlockingPool()

    private let name: String
    private let queue: BlockingQueue?
    private let pause: (@Sendable () async -> Void)?

    /// - Parameter name: The threads' name; `ps -T` shows at most 15 bytes.
    package init(
        name: String, threads: Int, maximumWaiting: Int = BlockingPool.maximumWaiting, stackSize: Int? = nil
    ) {
        self.name = name
        pause = nil
        let queue = BlockingQueue(maximumWaiting: maximumWaiting)
        self.queue = queue
        queue.startThreads(max(1, threads), name: name, stackSize: stackSize)
    }

    private init() {
        name = "inline"
        queue = nil
        pause = nil
    }

    /// Runs every job on the caller's thread, after a pause that lets other tasks run between, as threads would: for a
    /// simulator.
    package init(pausing pause: @escaping @Sendable () async -> Void) {
        name = "pausing"
        queue = nil
        self.pause = pause
    }

    deinit { queue?.close() }

    /// Runs `body` on one of the threads, first come, first served.
    ///
    /// If the task is cancelled before the body starts, the body does not run; once started, it runs to its end.
    ///
    /// - Parameter evenIfCancelled: True for work that must be done in any case, such as cleaning up.
    /// - Throws: The error of `body`, `CancellationError`, or `.tooManyRequests` if too many jobs wait already.
    package func run<T: Sendable>(
        evenIfCancelled: Bool = false, _ body: @escaping @Sendable () throws -> T
    ) async throws -> T {
        guard let queue else {
            await pause?()
            if !evenIfCancelled { try Task.checkCancellation() }
            return try body()
        }
        let job = BlockingJob()
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<T, any Error>) in
                queue.add(job) { outcome in
                    switch outcome {
                    case .run: continuation.resume(with: Result(catching: body))
                    case .cancelled: continuation.resume(throwing: CancellationError())
                    case .refused: continuation.resume(throwing: self.refusal)
                    }
                }
            }
        } onCancel: {
            if !evenIfCancelled { queue.cancel(job) }
        }
    }

    /// Runs a long `body` that can check for the task's cancellation. A thread of the pool cannot see the cancellation
    /// by itself.
    package func run<T: Sendable>(
        asking body: @escaping @Sendable (_ isCancelled: @Sendable () -> Bool) throws -> T
    ) async throws -> T {
        let isCancelled = Lock(false)
        return try await withTaskCancellationHandler {
            try await run { try body { isCancelled.withLock { $0 } } }
        } onCancel: {
            isCancelled.withLock { $0 = true }
        }
    }

    /// Starts `body` on one of the threads, after earlier jobs, without waiting for it.
    ///
    /// - Returns: False if too many jobs wait already; then `body` does not run.
    package func start(_ body: @escaping @Sendable () -> Void) -> Bool {
        guard let queue else {
            body()
            return true
        }
        return queue.add(BlockingJob()) { outcome in
            if outcome == .run { body() }
        }
    }

    private var refusal: UbiquityError {
        UbiquityError(.tooManyRequests, "no thread of \"\(name)\" is free and too many jobs wait")
    }
}
