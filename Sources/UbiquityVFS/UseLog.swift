internal import UbiquityCore
internal import UbiquitySystem

/// When files were last opened, for the choice of what to evict. An open must not cost a transaction: the times reach
/// the index when something is about to be evicted, and else now and then. To lose some at a crash does no harm.
final class UseLog: Sendable {
    /// Files whose use is remembered here, at most.
    static let limit = 65_536
    /// Files written to the index at a time: others write between, and an open that finds no room writes no more.
    static let batch = 512
    /// What is not asked for is written down so often.
    static let interval: Int64 = 600 * 1_000_000_000
    /// A new file that was open for longer was used later than it was made.
    static let making: Int64 = 60 * 1_000_000_000
    static let day: Int64 = 86_400 * 1_000_000_000

    private struct State {
        var times: [UInt64: Timestamp] = [:]
        var written = Timestamp.zero
    }
    private let state = Lock(State())

    /// - Returns: what is to be written down to make room, if there is none for more.
    func add(_ ino: UInt64, now: Timestamp) -> [UInt64: Timestamp] {
        state.withLock { state in
            state.times[ino] = now
            guard state.times.count >= Self.limit else { return [:] }
            let some = Dictionary(uniqueKeysWithValues: Array(state.times.prefix(Self.batch)))
            for ino in some.keys { state.times[ino] = nil }
            return some
        }
    }

    func contains(_ ino: UInt64) -> Bool { state.withLock { $0.times[ino] != nil } }

    /// All that has not been written down.
    func take(now: Timestamp) -> [UInt64: Timestamp] {
        state.withLock { state in
            defer { state = State(written: now) }
            return state.times
        }
    }

    /// The same if it was last taken long enough ago, else nothing.
    func takeIfDue(now: Timestamp) -> [UInt64: Timestamp] {
        let isDue = state.withLock { now.nanoseconds &- $0.written.nanoseconds > Self.interval || now < $0.written }
        return isDue ? take(now: now) : [:]
    }
}
