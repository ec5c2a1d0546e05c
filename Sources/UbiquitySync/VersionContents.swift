internal import UbiquityContent
internal import UbiquityCore
internal import UbiquitySystem

/// Contents of versions that are not the current ones of their files, by version.
///
/// They belong to no item, so the next start sweeps them away; while the process lives they are kept for who reads a
/// version twice, within bounds.
final class VersionContents: Sendable {
    /// Contents kept after their last reader, and their bytes together.
    private static let keptContents = 64
    private static let keptBytes: Int64 = 512 << 20

    private struct Entry {
        var content: PartialContent
        var users = 0
        /// Counts the releases: the lowest was used longest ago.
        var lastUse: UInt64 = 0
    }

    private struct State {
        var entries: [VersionID: Entry] = [:]
        var versions: [ContentID: VersionID] = [:]
        var uses: UInt64 = 0
    }

    private let state = Lock(State())

    func contains(_ content: ContentID) -> Bool { state.withLock { $0.versions[content] != nil } }

    /// The content, which is in use until `release`; nil if there is none.
    func use(_ version: VersionID) -> PartialContent? {
        state.withLock { state in
            state.entries[version]?.users += 1
            return state.entries[version]?.content
        }
    }

    /// Adds a content. Another caller may have been quicker: then that one's is the version's.
    /// - Returns: the version's content, in use by the caller until `release`.
    func add(_ content: PartialContent, of version: VersionID) -> PartialContent {
        state.withLock { state in
            if let known = state.entries[version]?.content {
                state.entries[version]?.users += 1
                return known
            }
            state.entries[version] = Entry(content: content, users: 1)
            state.versions[content.id] = version
            return content
        }
    }

    /// - Returns: contents beyond the bounds, which are the caller's to remove.
    func release(_ content: PartialContent) -> [ContentID] {
        state.withLock { state in
            guard let version = state.versions[content.id], var entry = state.entries[version] else { return [] }
            state.uses += 1
            entry.users = max(0, entry.users - 1)
            entry.lastUse = state.uses
            state.entries[version] = entry
            return trim(&state)
        }
    }

    /// All of them; they are the caller's to remove, and nobody's any more.
    func takeAll() -> [ContentID] {
        state.withLock { state in
            defer { state = State() }
            return Array(state.versions.keys)
        }
    }

    private func trim(_ state: inout State) -> [ContentID] {
        var idle = state.entries.filter { $0.value.users == 0 }.sorted { $0.value.lastUse > $1.value.lastUse }
        var bytes = idle.reduce(0) { $0 + $1.value.content.presentBytes }
        var dropped = [ContentID]()
        while let last = idle.last, idle.count > Self.keptContents || bytes > Self.keptBytes {
            idle.removeLast()
            bytes -= last.value.content.presentBytes
            state.entries[last.key] = nil
            state.versions[last.value.content.id] = nil
            dropped.append(last.value.content.id)
        }
        return dropped
    }

    func isOne(_ content: ContentID) -> Bool { state.withLock { $0.versions[content] != nil } }
}

/// What the cloud said of the versions of items, for a while: a listing of a folder asks more than once.
final class VersionLists: Sendable {
    /// Items whose lists are kept.
    private static let capacity = 256
    /// A list is believed that long: history also changes without a word, when the cloud forgets.
    private static let lifetime = Duration.seconds(60)

    private struct Entry {
        var revision: Revision
        var askedAt: Duration
        var versions: [RemoteVersion]
    }

    private let entries = Lock<[ItemID: Entry]>([:])
    /// After a question that got no answer none is asked for that long: each name that is looked up would wait anew.
    private static let pause = Duration.seconds(10)
    private let pausesUntil = Lock(Duration.zero)

    func noteNoAnswer(now: Duration) { pausesUntil.withLock { $0 = now + Self.pause } }
    func noteAnswer() { pausesUntil.withLock { $0 = .zero } }
    func isPausing(now: Duration) -> Bool { pausesUntil.withLock { now < $0 } }

    /// - Parameters:
    ///   - revision: the item's, as it is known here; a list of an older one is out of date.
    ///   - now: uptime.
    ///   - old: also takes a list that is out of date (offline it is better than none).
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
