internal import UbiquityContent
internal import UbiquityCore
internal import UbiquitySystem

/// Contents of versions that are not the current ones of their files, by version.
///
/// They belong to no item, so the next start removes them. While the process lives, some are kept for repeated reads,
/// within limits.
final class VersionContents: Sendable {
    /// Limits on the contents kept after their last reader: their number and their total bytes.
    private static let keptContents = 64
    private static let keptBytes: Int64 = 512 << 20

    private struct Entry {
        var content: PartialContent
        var users = 0
        /// A counter of releases: the lowest value was used longest ago.
        var lastUse: UInt64 = 0
    }

    private struct State {
        var entries: [VersionID: Entry] = [:]
        var versions: [ContentID: VersionID] = [:]
        var uses: UInt64 = 0
    }

    private let state = Lock(State())

    func contains(_ content: ContentID) -> Bool { state.withLock { $0.versions[content] != nil } }

    /// The content, in use until `release`, or nil if there is none.
    func use(_ version: VersionID) -> PartialContent? {
        state.withLock { state in
            state.entries[version]?.users += 1
            return state.entries[version]?.content
        }
    }

    /// Adds a content. If another caller was quicker, that caller's content is used.
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

    /// - Returns: contents beyond the limits. The caller removes them.
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

    /// Removes all entries. The caller removes the contents.
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
}
