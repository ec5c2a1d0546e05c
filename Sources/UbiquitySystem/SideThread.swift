import Synchronization

/// A thread that runs one half of a call's work while the caller runs the other.
package final class SideThread: Sendable {
    private let pool: BlockingPool?
    private let isTaken = Atomic(false)

    /// - Parameter pool: A pool of one thread, used for nothing else; nil to run everything on the caller's thread.
    package init(_ pool: BlockingPool?) { self.pool = pool }

    /// Runs both, in parallel if the thread is free. Otherwise it runs `first`, and `second` unless `first` failed.
    /// Both have finished when it returns. It blocks.
    ///
    /// - Throws: The error of `first`, or else that of `second`.
    package func run(_ first: () throws -> Void, beside second: @escaping @Sendable () throws -> Void) throws {
        guard let pool, !isTaken.exchange(true, ordering: .acquiring) else {
            try first()
            return try second()
        }
        defer { isTaken.store(false, ordering: .releasing) }
        let ended = Monitor<Result<Void, any Error>?>(nil)
        let isStarted = pool.start {
            let result = Result { try second() }
            ended.withLock { $0 = result }
            ended.signal()
        }
        let result = Result { try first() }
        if isStarted {
            let other = ended.wait { $0 }
            try result.get()
            try other.get()
        } else {
            try result.get()
            try second()
        }
    }
}
