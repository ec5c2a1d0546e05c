internal import UbiquityCore
internal import UbiquitySystem

/// How far a transfer is.
package struct TransferProgress: Sendable, Hashable {
    package var doneBytes: Int64
    package var totalBytes: Int64

    /// 0 … 100; an empty content is done.
    package var percent: Double { totalBytes == 0 ? 100 : Double(doneBytes) * 100 / Double(totalBytes) }
}

/// The uploads under way, for status. (Downloads tell their own progress.)
final class Transfers: Sendable {
    private let uploads = Lock<[ItemKey: TransferProgress]>([:])

    func begin(_ key: ItemKey, total: Int64) {
        uploads.withLock { $0[key] = TransferProgress(doneBytes: 0, totalBytes: total) }
    }

    func advance(_ key: ItemKey, by bytes: Int64) {
        uploads.withLock {
            guard var progress = $0[key] else { return }
            progress.doneBytes = min(progress.doneBytes + bytes, progress.totalBytes)
            $0[key] = progress
        }
    }

    func end(_ key: ItemKey) { uploads.withLock { _ = $0.removeValue(forKey: key) } }

    func upload(_ key: ItemKey) -> TransferProgress? { uploads.withLock { $0[key] } }

    var uploading: [ItemKey: TransferProgress] { uploads.withLock { $0 } }
}

/// Slows down items that change again and again.
final class Throttle: Sendable {
    private struct Burst {
        var start: Timestamp
        var count: Int
        var until: Timestamp
        /// Another device has changed it since this one did.
        var isAnswered = false
    }

    /// Items remembered; beyond, all that are at rest are dropped.
    private static let capacity = 10_000

    private let bursts = Lock<[ItemKey: Burst]>([:])
    private let timekeeper: any Timekeeper

    init(timekeeper: any Timekeeper) { self.timekeeper = timekeeper }

    /// Another device has changed the item, perhaps in answer to this one, and that in answer to it.
    func noteAnswer(to key: ItemKey) { bursts.withLock { $0[key]?.isAnswered = true } }

    var isEmpty: Bool { bursts.withLock { $0.isEmpty } }

    /// Notes a commit of the item.
    /// - Returns: whether it is slowed down from now on, since it and another device's changes take turns.
    @discardableResult
    func noteCommit(of key: ItemKey) -> Bool {
        let now = timekeeper.now()
        return bursts.withLock { table in
            if table.count >= Self.capacity { table = table.filter { $0.value.until > now } }
            var burst = table[key] ?? Burst(start: now, count: 0, until: now)
            let window = now.advanced(bySeconds: -(SyncLimits.burstWindow / .seconds(1)))
            if burst.until <= now, burst.start < window { burst = Burst(start: now, count: 0, until: now) }
            let isAnswer = burst.isAnswered, before = burst.count
            burst.isAnswered = false
            burst.count += isAnswer ? SyncLimits.answerWeight : 1
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

    /// The items that rest.
    var resting: [ItemKey] {
        let now = timekeeper.now()
        return bursts.withLock { table in table.compactMap { $0.value.until > now ? $0.key : nil } }
    }

    /// The item need not rest any more; after its next commit it does, as long as it would have.
    /// - Returns: until when it would have rested; nil if it did not.
    func endRest(of key: ItemKey) -> Timestamp? {
        let now = timekeeper.now()
        return bursts.withLock { table in
            guard let until = table[key]?.until, until > now else { return nil }
            table[key]?.until = now
            return until
        }
    }

    /// Until when the item rests; nil if it need not.
    func restsUntil(_ key: ItemKey) -> Timestamp? {
        let now = timekeeper.now()
        // One that is farther away was set before the clock was set back.
        let latest = now.advanced(bySeconds: SyncLimits.longestThrottle / .seconds(1))
        return bursts.withLock { table in table[key].flatMap { $0.until > now && $0.until <= latest ? $0.until : nil } }
    }
}
