/// The rules of an ignore file: lines of gitignore syntax. The last line that matches a path decides.
package struct IgnoreRules: Sendable, Hashable {
    private let patterns: [IgnorePattern]
    /// The lines as text, for comparing two lists.
    package let text: [UInt8]
    /// Whether a line compares more of a path than its last name.
    package let needsPath: Bool

    /// The name of ignore files in a container's folders.
    package static let fileName = ItemName(stored: Array(".ubiquityignore".utf8))
    /// Maximum bytes read of an ignore file. A longer one was not written by hand.
    package static let maximumLength = 256 * 1024

    /// - Parameter text: The file's bytes; a byte order mark and "\r\n" are accepted.
    package init(text: [UInt8]) {
        let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
        let text = text.starts(with: mark) ? text[mark.count...] : text[...]
        self.init(
            lines: text.split(separator: UInt8(ascii: "\n")).map { line in
                Array(line.last == UInt8(ascii: "\r") ? line.dropLast() : line)
            })
    }

    package init(_ lines: [String]) { self.init(lines: lines.map { Array($0.utf8) }) }

    private init(lines: [[UInt8]]) {
        patterns = lines.compactMap(IgnorePattern.init(line:))
        text = Array(lines.joined(separator: [UInt8(ascii: "\n")]))
        needsPath = patterns.contains { !$0.isForNames }
    }

    package var isEmpty: Bool { patterns.isEmpty }

    /// Returns whether the path is ignored; nil if no line matches. Folders above it are not checked.
    ///
    /// - Parameter path: The names from the rules' folder down to the item.
    package func decision(on path: ArraySlice<ItemName>, isDirectory: Bool) -> Bool? {
        patterns.last { $0.matches(path, isDirectory: isDirectory) }.map { !$0.isNegated }
    }

    /// Returns whether a path is ignored by the rules of several folders; nil if no line matches. As in git, rules of a
    /// deeper folder take precedence, and nothing below an ignored folder can be included again.
    ///
    /// - Parameters:
    ///   - path: The names from the top folder down to the item.
    ///   - levels: Rules, each with its folder's depth (0 for the top folder), weakest first.
    package static func decision(
        on path: [ItemName], isDirectory: Bool, by levels: [(depth: Int, rules: IgnoreRules)]
    ) -> Bool? {
        var decision: Bool?
        for length in path.indices.map({ $0 + 1 }) {
            decision = levels.reversed().lazy.compactMap { level -> Bool? in
                guard level.depth < length else { return nil }
                return level.rules.decision(
                    on: path[level.depth..<length], isDirectory: length < path.count || isDirectory)
            }.first
            if decision == true { return true }
        }
        return decision
    }
}

extension IgnoreRules {
    /// The default rules: names of temporary files that programs make beside documents.
    package static let standardLines = temporaryNamesOfRsync + [
        // vim: swap files (from .swp backwards), the file with which it tests write access, undo files.
        "*.swp", "*.swo", "*.swx", ".*.sw[a-p]", "4913",
        // Backups of vim, emacs, nano and many more, and vim's ".name.un~".
        "*~",
        // emacs: locks, autosaves.
        ".#*", "\\#*#",
        // GLib's half-written files; locks and half-written files of LibreOffice; owner files of Office; Kate.
        ".goutputstream-*", ".~lock.*#", "lu[0-9]*.tmp", "~$*", ".*.kate-swp",
        // Names that file systems give to a file deleted while it is open.
        ".fuse_hidden*", ".nfs????????????*",
    ]

    /// rsync writes ".NAME.XXXXXX", six letters and digits. To exclude names such as ".NAME.backup", at least one must
    /// be a capital, but not all. That covers 96 in 100 of mkstemp(3)'s names; the others are renamed before they are
    /// uploaded.
    private static let temporaryNamesOfRsync: [String] = {
        let any = "[0-9A-Za-z]", capital = "[A-Z]"
        let oneCapital = (0..<6).map { place in
            ".?*." + (0..<6).map { $0 == place ? capital : any }.joined()
        }
        return oneCapital + ["!.?*." + String(repeating: capital, count: 6)]
    }()

    package static let standard = IgnoreRules(standardLines)

    /// An item whose name has this suffix never leaves the device, whatever ignore files say.
    package static let localSuffix = Array(".nosync".utf8)
}
