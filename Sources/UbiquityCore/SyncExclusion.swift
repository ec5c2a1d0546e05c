/// Which names never leave the device: folders kept local by their name, and what editors drop beside documents.
///
/// The rule looks at one name; an item below an excluded folder is excluded as well.
package struct SyncExclusion: Sendable, Hashable {
    /// Shell patterns with "*" and "?" over the whole name.
    package var patterns: [String] { didSet { bytes = patterns.map { Array($0.utf8) } } }
    /// The patterns' bytes: every creation and every rename asks about a name.
    private var bytes: [[UInt8]]

    /// Editors' swap, backup, probe and lock files (`design.md` section 4), and `.nosync` folders.
    package static let standard = SyncExclusion(patterns: [
        "*.nosync", "*.swp", "*.swo", "*.swx", "4913", "*~", ".goutputstream-*", ".~lock.*#", ".#*", "~$*",
        ".fuse_hidden*",
        ".nfs????????????*",
    ])

    package init(patterns: [String]) {
        self.patterns = patterns
        bytes = patterns.map { Array($0.utf8) }
    }

    package func excludes(_ name: ItemName) -> Bool { bytes.contains { Self.matches(name.bytes, $0) } }

    /// Whether the name matches the pattern. Each "*" is tried at its shortest first and lengthened on a mismatch after
    /// it; only the last one ever needs lengthening, so the cost is at most name times pattern.
    private static func matches(_ name: [UInt8], _ pattern: [UInt8]) -> Bool {
        var inName = 0, inPattern = 0
        // Where to go on when the last "*" takes one more byte.
        var retryName = 0, retryPattern: Int?
        while true {
            if inPattern < pattern.count, pattern[inPattern] == UInt8(ascii: "*") {
                inPattern += 1
                (retryName, retryPattern) = (inName, inPattern)
            } else if inPattern < pattern.count, inName < name.count,
                pattern[inPattern] == UInt8(ascii: "?") || pattern[inPattern] == name[inName]
            {
                inName += 1
                inPattern += 1
            } else if inPattern == pattern.count, inName == name.count {
                return true
            } else {
                guard let afterStar = retryPattern, retryName < name.count else { return false }
                retryName += 1
                (inName, inPattern) = (retryName, afterStar)
            }
        }
    }
}
