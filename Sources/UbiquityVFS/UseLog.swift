internal import UbiquityCore
internal import UbiquitySystem

/// When files were last opened, for the choice of what to evict. Written to the index in batches: an open must not
/// cost a transaction, and to lose some at a crash does no harm.
final class UseLog: Sendable {
    /// Files that wait to be written down.
    static let batch = 512
    /// A use is not worth noting again for so long.
    static let resolution: Int64 = 600 * 1_000_000_000

    private let pending = Lock<Set<UInt64>>([])

    /// - Returns: the batch to write down, if it is full.
    func add(_ ino: UInt64, lastUse: Timestamp, now: Timestamp) -> Set<UInt64>? {
        guard now.nanoseconds &- lastUse.nanoseconds > Self.resolution || now < lastUse else { return nil }
        return pending.withLock { pending in
            pending.insert(ino)
            guard pending.count >= Self.batch else { return nil }
            defer { pending = [] }
            return pending
        }
    }

    func takeAll() -> Set<UInt64> {
        pending.withLock { pending in
            defer { pending = [] }
            return pending
        }
    }
}
