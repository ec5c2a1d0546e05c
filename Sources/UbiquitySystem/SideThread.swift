import Synchronization

/// A thread that does one half of what a call has to do while the caller does the other.
package final class SideThread: Sendable {
    private let pool: BlockingPool?
    private let isTaken = Atomic(false)

    /// - Parameter pool: of one thread, and for nothing else; nil where the caller is to do all by itself.
    package init(_ pool: BlockingPool?) { self.pool = pool }

    /// Runs both, at one time if the thread is free; otherwise `first`, and `second` if that did not fail. Nothing of
    /// them is under way any more when it returns. It blocks.
    /// - Throws: what `first` throws, or else what `second` throws.
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
