/// What two versions of an item were both made from.
package enum CommonVersion: Sendable, Hashable {
    case version(RemoteVersion)
    /// Nothing: each was made by itself.
    case none
    /// It is known, and its content is still on its way to the cloud.
    case awaited
    /// It, or what was between, is not known any more.
    case notKept

    /// - Parameter versions: All that is known of the item. Each tells what it was made from.
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

    /// The version and those that it was made from, nearest first; and whether it is known what the first one was made
    /// from.
    private static func line(
        of version: RemoteVersion, _ known: [VersionID: RemoteVersion]
    ) -> (versions: [VersionID], isWhole: Bool) {
        var line = [version.id], seen: Set = [version.id], last = version
        while let base = last.baseVersion {
            // A cloud that tells of a circle tells nothing.
            guard seen.insert(base).inserted else { return (line, false) }
            line.append(base)
            guard let next = known[base] else { return (line, false) }
            last = next
        }
        return (line, true)
    }
}
