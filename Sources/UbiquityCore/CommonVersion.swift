/// The common ancestor of two versions of an item.
package enum CommonVersion: Sendable, Hashable {
    case version(RemoteVersion)
    /// There is none: each version was made independently.
    case none
    /// The ancestor is known, but its content has not reached the cloud yet.
    case awaited
    /// The ancestor, or a version between, is no longer known.
    case notKept

    /// - Parameter versions: All known versions of the item, each with its base.
    package init(of one: RemoteVersion, _ other: RemoteVersion, among versions: [RemoteVersion]) {
        let known = Dictionary((versions + [one, other]).map { ($0.id, $0) }) { first, _ in first }
        let (line, isWhole) = Self.line(of: one, known), (others, areWhole) = Self.line(of: other, known)
        let ancestors = Set(others)
        guard let nearest = line.first(where: ancestors.contains) else {
            self = isWhole && areWhole ? .none : .notKept
            return
        }
        switch known[nearest] {
        case let version? where version.content.isAvailable: self = .version(version)
        case let version? where !version.content.isLost: self = .awaited
        default: self = .notKept
        }
    }

    /// Returns the version and its ancestors, nearest first, and whether the chain is complete.
    private static func line(
        of version: RemoteVersion, _ known: [VersionID: RemoteVersion]
    ) -> (versions: [VersionID], isWhole: Bool) {
        var line = [version.id], seen: Set = [version.id], last = version
        while let base = last.baseVersion {
            // A cycle in the cloud's data makes the chain useless.
            guard seen.insert(base).inserted else { return (line, false) }
            line.append(base)
            guard let next = known[base] else { return (line, false) }
            last = next
        }
        return (line, true)
    }
}
