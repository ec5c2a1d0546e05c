/// Which names never leave the device: folders kept local by their name, and what editors drop beside documents.
///
/// The rule looks at one name; an item below an excluded folder is excluded as well.
package struct SyncExclusion: Sendable, Hashable {
    /// Shell patterns with "*" and "?" over the whole name.
    package var patterns: [String]

    /// Editors' swap, backup, probe and lock files (`design.md` section 4), and `.nosync` folders.
    package static let standard = SyncExclusion(patterns: [
        "*.nosync", "*.swp", "*.swo", "*.swx", "4913", "*~", ".goutputstream-*", ".~lock.*#", ".#*", "~$*", ".fuse_hidden*",
        ".nfs????????????*",
    ])

    package init(patterns: [String]) { self.patterns = patterns }

    package func excludes(_ name: ItemName) -> Bool {
        patterns.contains { Self.matches(name.bytes[...], Array($0.utf8)[...]) }
    }

    /// Whether the name matches the pattern. Each "*" is tried at its shortest first and lengthened on a mismatch after
    /// it; only the last one ever needs lengthening, so the cost is at most name times pattern.
    private static func matches(_ name: ArraySlice<UInt8>, _ pattern: ArraySlice<UInt8>) -> Bool {
        var name = name, pattern = pattern
        var retry: (name: ArraySlice<UInt8>, pattern: ArraySlice<UInt8>)?
        while true {
            switch pattern.first {
            case UInt8(ascii: "*"):
                pattern = pattern.dropFirst()
                retry = (name, pattern)
                continue
            case let expected? where !name.isEmpty && (expected == UInt8(ascii: "?") || expected == name.first):
                name = name.dropFirst()
                pattern = pattern.dropFirst()
                continue
            case nil where name.isEmpty:
                return true
            default:
                guard let last = retry, !last.name.isEmpty else { return false }
                retry = (last.name.dropFirst(), last.pattern)
                name = last.name.dropFirst()
                pattern = last.pattern
            }
        }
    }
}
