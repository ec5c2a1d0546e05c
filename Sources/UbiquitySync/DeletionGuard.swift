package import UbiquityCore
package import UbiquityIndex

/// Decides whether deletions may go up, so that a slip (`rm -r` in the wrong folder, a script gone wild, a disk that
/// lost its files) does not empty every other device before anybody has seen it.
///
/// Many deletions within a minute are held until a person confirms or undoes them. To be able to hold them all, a burst
/// of them is sent only when it is over. A value without a clock: what is decided depends on what it is given.
package struct DeletionGuard: Sendable {
    /// So many may always go, however small the container.
    package static let harmless = 100
    /// The time in which deletions count together, seconds.
    package static let window: Double = 60
    /// An item that this device made at most so many seconds before its deletion does not count, unless another device
    /// has changed it.
    package static let freshAge: Double = 3600
    /// One of so many items: as many as may go before it is seen that they were the first of very many.
    package static let negligible = 100
    /// Few deletions are the whole of it if nothing more was deleted for so long, seconds. Longer than the pauses of
    /// `rm -r`.
    package static let shortQuiet: Double = 0.25
    /// The same for many.
    package static let quiet: Double = 2

    package enum Verdict: Hashable, Sendable {
        case send
        /// It may not be over: to be asked again then.
        case wait(until: Timestamp)
        /// So many at once are a person's decision.
        case hold
    }

    /// Deletions that the cloud has been told of, of the last minute, in order.
    private var sent: [DeletionMoment] = []

    package init() {}

    /// Takes note of deletions that the cloud was told of.
    package mutating func noteSent(_ deletions: [DeletionMoment], now: Timestamp) {
        let start = now.advanced(bySeconds: -Self.window)
        sent = (sent + deletions).filter { $0.time >= start && $0.time <= now }
    }

    /// Whether so many more may always go.
    package func areFew(pending: Int) -> Bool { sent.count + pending <= Self.harmless }

    /// - Parameters:
    ///   - pending: the deletions of items that the cloud still has.
    ///   - items: how many items there are besides.
    package func verdict(pending: [DeletionMoment], items: Int, now: Timestamp) -> Verdict {
        // A clock that was set back must not make deletions wait for a time long past.
        let times = pending.map { min($0.time, now) }
        guard let oldest = times.min(), let newest = times.max() else { return .send }
        let counted = Self.lastOfEachPlace(sent + pending, now: now)
        let most = Self.mostAtOnce(counted)
        let total = items + counted.count
        if most > Self.harmless, most * 2 > total { return .hold }
        // Where there are so few items nothing is ever held; and who deletes without a pause is not waited for longer
        // than the time in which deletions count together.
        guard total > Self.harmless, oldest.advanced(bySeconds: Self.window) > now else { return .send }
        let end = newest.advanced(bySeconds: most * Self.negligible > total ? Self.quiet : Self.shortQuiet)
        return end > now ? .wait(until: end) : .send
    }

    /// What was deleted again and again at one place is one item: a program that makes the same few files anew all the
    /// time takes away no more than these.
    private static func lastOfEachPlace(_ deletions: [DeletionMoment], now: Timestamp) -> [Timestamp] {
        struct Place: Hashable {
            var folder: ItemID
            var name: ItemName
        }
        var last: [Place: Timestamp] = [:]
        for deletion in deletions {
            let place = Place(folder: deletion.folder, name: deletion.name), time = min(deletion.time, now)
            last[place] = last[place].map { max($0, time) } ?? time
        }
        return last.values.sorted()
    }

    /// The most of these times that lie within one window.
    private static func mostAtOnce(_ times: [Timestamp]) -> Int {
        var most = 0, first = 0
        for (last, time) in times.enumerated() {
            while times[first].advanced(bySeconds: window) < time { first += 1 }
            most = max(most, last - first + 1)
        }
        return most
    }
}
