import UbiquityCore

/// Threads for calls that block: reads, writes, fsync, SQLite. The cooperative threads of Swift are as few as cores,
/// and one that blocks stops everything else.
package final class BlockingPool: Sendable {
    /// Jobs that may wait for a thread. More is a sign that something produces without limit, and is refused.
    package static let maximumWaiting = 65_536

    /// Runs every job at once on the caller's thread: for a simulator, whose jobs must run in a fixed order.
    package static let inline = BlockingPool()

    private let name: String
    private let queue: BlockingQueue?
    private let pause: (@Sendable () async -> Void)?

    /// - Parameter name: of the threads, at most 15 bytes are seen in `ps -T`.
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

    /// Runs every job on the caller's thread, after a pause in which others come between as they would with threads:
    /// for a simulator.
    package init(pausing pause: @escaping @Sendable () async -> Void) {
        name = "pausing"
        queue = nil
        self.pause = pause
    }

    deinit { queue?.close() }

    /// Runs `body` on one of the threads, first come, first served.
    ///
    /// A body whose task is cancelled before it starts is not run; one that has started runs to its end.
    /// - Parameter evenIfCancelled: for what must be done in any case, such as cleaning up.
    /// - Throws: what `body` throws, `CancellationError`, or `.tooManyRequests` if too many wait already.
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

    /// The same for what takes long: it can ask whether the task has been cancelled, of which a thread of the pool
    /// knows nothing by itself.
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

    /// Has `body` run on one of the threads after what was started before, without waiting for it.
    /// - Returns: false if too many wait already; then it is not run.
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
