internal import UbiquityCore
internal import UbiquitySystem

/// Times at which files were last opened, for the choice of items to evict. An open must not cost a transaction. So the
/// times are written to the index before an eviction, and otherwise periodically. Losing some in a crash does no harm.
final class UseLog: Sendable {
    /// Largest number of files in the log.
    static let limit = 65_536
    /// Files written to the index at a time. Other writers run in between, and an open that finds the log full writes
    /// no more.
    static let batch = 512
    /// In nanoseconds: how often the log is written without an eviction.
    static let interval: Int64 = 600 * 1_000_000_000
    /// In nanoseconds: a new file that was open longer than this was last used later than its creation.
    static let making: Int64 = 60 * 1_000_000_000
    static let day: Int64 = 86_400 * 1_000_000_000

    private struct State {
        var times: [UInt64: Timestamp] = [:]
        var written = Timestamp.zero
    }
    private let state = Lock(State())

    /// - Returns: times to write to the index, if the log is full.
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

    /// Removes all times that are not yet written.
    func removeAll(now: Timestamp) -> [UInt64: Timestamp] {
        state.withLock { state in
            defer { state = State(written: now) }
            return state.times
        }
    }

    /// The same if the last time is long enough ago; else nothing.
    func removeAllIfDue(now: Timestamp) -> [UInt64: Timestamp] {
        let isDue = state.withLock { now.nanoseconds &- $0.written.nanoseconds > Self.interval || now < $0.written }
        return isDue ? removeAll(now: now) : [:]
    }
}
