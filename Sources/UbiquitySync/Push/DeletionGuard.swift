package import UbiquityCore
package import UbiquityIndex

/// Decides whether deletions may be uploaded. It protects other devices from mass deletions made by mistake: `rm -r` in
/// the wrong folder, a faulty script, or a disk that lost its files.
///
/// Many deletions within a minute are put on hold until a person confirms or undoes them. To hold all of them, a burst
/// of deletions is sent only when it is over. The type has no clock: its decisions depend on its inputs only.
package struct DeletionGuard: Sendable {
    /// This many deletions may always be sent, however small the container.
    package static let harmless = 100
    /// The time in which deletions count together, in seconds.
    package static let window: Double = 60
    /// An item that this device created at most this many seconds before its deletion does not count, unless another
    /// device has changed it.
    package static let freshAge: Double = 3600
    /// One deletion of this many items is negligible: it may be sent before more deletions show that a mass deletion
    /// began.
    package static let negligible = 100
    /// A burst of few deletions is over after this pause, in seconds. Longer than the pauses of `rm -r`.
    package static let shortQuiet: Double = 0.25
    /// The same for a burst of many deletions.
    package static let quiet: Double = 2

    package enum Verdict: Hashable, Sendable {
        case send
        /// The burst may not be over. Ask again at that time.
        case wait(until: Timestamp)
        /// A person must decide about so many deletions.
        case hold
    }

    /// Deletions sent to the cloud within the last minute, in order.
    private var sent: [DeletionMoment] = []

    package init() {}

    /// Records deletions that were sent to the cloud.
    package mutating func noteSent(_ deletions: [DeletionMoment], now: Timestamp) {
        let start = now.advanced(bySeconds: -Self.window)
        sent = (sent + deletions).filter { $0.time >= start && $0.time <= now }
    }

    /// Whether this many more deletions may always be sent.
    package func areFew(pending: Int) -> Bool { sent.count + pending <= Self.harmless }

    /// - Parameters:
    ///   - pending: the deletions of items that the cloud still has.
    ///   - items: the number of other items.
    package func verdict(pending: [DeletionMoment], items: Int, now: Timestamp) -> Verdict {
        // After the clock was set back, deletions must not wait for a time in the future.
        let times = pending.map { min($0.time, now) }
        guard let oldest = times.min(), let newest = times.max() else { return .send }
        let counted = Self.lastOfEachPlace(sent + pending, now: now)
        let most = Self.mostAtOnce(counted)
        let total = items + counted.count
        if most > Self.harmless, most * 2 > total { return .hold }
        // In a container this small nothing is ever held. A burst without pauses waits at most for the window.
        guard total > Self.harmless, oldest.advanced(bySeconds: Self.window) > now else { return .send }
        let end = newest.advanced(bySeconds: most * Self.negligible > total ? Self.quiet : Self.shortQuiet)
        return end > now ? .wait(until: end) : .send
    }

    /// Counts repeated deletions at one place as one: a program that recreates the same few files removes no more than
    /// these.
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

    /// The largest number of these times that lie within one window.
    private static func mostAtOnce(_ times: [Timestamp]) -> Int {
        var most = 0, first = 0
        for (last, time) in times.enumerated() {
            while times[first].advanced(bySeconds: window) < time { first += 1 }
            most = max(most, last - first + 1)
        }
        return most
    }
}
