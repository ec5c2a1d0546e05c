internal import UbiquityCore
internal import UbiquitySystem

/// Lists of versions that the cloud has sent, cached for a while: a listing of a folder asks more than once.
final class VersionLists: Sendable {
    /// The number of items whose lists are cached.
    private static let capacity = 256
    /// How long a list is valid. The cloud may drop old versions without a new revision.
    private static let lifetime = Duration.seconds(60)

    private struct Entry {
        var revision: Revision
        var askedAt: Duration
        var versions: [RemoteVersion]
    }

    private let entries = Lock<[ItemID: Entry]>([:])
    /// How long no request is made after one without an answer. Otherwise each looked-up name would wait anew.
    private static let pause = Duration.seconds(10)
    private let pausesUntil = Lock(Duration.zero)

    func recordNoAnswer(now: Duration) { pausesUntil.withLock { $0 = now + Self.pause } }
    func recordAnswer() { pausesUntil.withLock { $0 = .zero } }
    func isPausing(now: Duration) -> Bool { pausesUntil.withLock { now < $0 } }

    /// - Parameters:
    ///   - revision: the item's known revision. A list of an older one is out of date.
    ///   - now: uptime.
    ///   - old: accepts an outdated list, which is better than none when offline.
    func list(of item: ItemID, at revision: Revision, now: Duration, old: Bool = false) -> [RemoteVersion]? {
        entries.withLock { entries in
            guard let entry = entries[item], old || entry.revision == revision && now - entry.askedAt < Self.lifetime
            else { return nil }
            return entry.versions
        }
    }

    func keep(_ versions: [RemoteVersion], of item: ItemID, at revision: Revision, now: Duration) {
        entries.withLock { entries in
            if entries[item] == nil, entries.count >= Self.capacity,
                let oldest = entries.min(by: { $0.value.askedAt < $1.value.askedAt })
            {
                entries[oldest.key] = nil
            }
            entries[item] = Entry(revision: revision, askedAt: now, versions: versions)
        }
    }
}
