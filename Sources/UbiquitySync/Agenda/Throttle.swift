internal import UbiquityCore
internal import UbiquitySystem

/// Throttles items that change again and again.
final class Throttle: Sendable {
    private struct Burst {
        var start: Timestamp
        var count: Int
        var until: Timestamp
        /// Commits since `first`, without weights.
        var commits = 0
        var first: Timestamp
        /// Whether another device has changed the item since this one did.
        var isAnswered = false
    }

    /// The number of items remembered. Above it, all without an active throttle are dropped.
    private static let capacity = 10_000

    private let bursts = Lock<[ItemKey: Burst]>([:])
    private let timekeeper: any Timekeeper

    init(timekeeper: any Timekeeper) { self.timekeeper = timekeeper }

    /// Records that another device has changed the item, perhaps in reaction to this device's change.
    func noteAnswer(to key: ItemKey) { bursts.withLock { $0[key]?.isAnswered = true } }

    var isEmpty: Bool { bursts.withLock { $0.isEmpty } }

    /// Records a commit of the item.
    /// - Returns: whether the item is throttled from now on because this device and another change it in turns.
    @discardableResult
    func noteCommit(of key: ItemKey) -> Bool {
        let now = timekeeper.now()
        return bursts.withLock { table in
            if table.count >= Self.capacity { table = table.filter { $0.value.until > now } }
            var burst = table[key] ?? Burst(start: now, count: 0, until: now, first: now)
            let window = now.advanced(bySeconds: -(SyncLimits.burstWindow / .seconds(1)))
            if burst.until <= now, burst.start < window { burst = Burst(start: now, count: 0, until: now, first: now) }
            let isAnswer = burst.isAnswered, before = burst.count
            burst.isAnswered = false
            burst.count += isAnswer ? SyncLimits.answerWeight : 1
            burst.commits += 1
            let excess = burst.count - SyncLimits.burst
            if excess > 0 {
                let rest = min(SyncLimits.throttleStep * excess, SyncLimits.longestThrottle)
                burst.until = now.advanced(bySeconds: rest / .seconds(1))
                burst.start = now
            }
            table[key] = burst
            return isAnswer && excess > 0 && before <= SyncLimits.burst
        }
    }

    /// The items with an active throttle.
    var resting: [ItemKey] {
        let now = timekeeper.now()
        return bursts.withLock { table in table.compactMap { $0.value.until > now ? $0.key : nil } }
    }

    /// Ends the item's throttle. Its next commit is throttled as before.
    /// - Returns: when the throttle would have ended, or nil if there was none.
    func endRest(of key: ItemKey) -> Timestamp? {
        let now = timekeeper.now()
        return bursts.withLock { table in
            guard let until = table[key]?.until, until > now else { return nil }
            table[key]?.until = now
            return until
        }
    }

    /// How often the item was committed, and in how many seconds, if its throttle lasts.
    func rate(of key: ItemKey) -> (commits: Int, seconds: Int)? {
        guard restsUntil(key) != nil else { return nil }
        return bursts.withLock { table in
            table[key].map { burst in
                let nanoseconds = burst.start.nanoseconds - burst.first.nanoseconds
                return (burst.commits, max(1, Int((Double(nanoseconds) / 1e9).rounded())))
            }
        }
    }

    /// When the item's throttle ends, or nil if it has none.
    func restsUntil(_ key: ItemKey) -> Timestamp? {
        let now = timekeeper.now()
        // A time farther away was set before the clock was set back.
        let latest = now.advanced(bySeconds: SyncLimits.longestThrottle / .seconds(1))
        return bursts.withLock { table in table[key].flatMap { $0.until > now && $0.until <= latest ? $0.until : nil } }
    }
}
