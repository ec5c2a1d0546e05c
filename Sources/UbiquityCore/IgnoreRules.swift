/// What an ignore file says: lines of gitignore syntax, of which the last that matches a path decides.
package struct IgnoreRules: Sendable, Hashable {
    private let patterns: [IgnorePattern]
    /// The lines, by which two lists can be compared.
    package let text: [UInt8]
    /// Whether some line looks at more of a path than its last name.
    package let needsPath: Bool

    /// The name of ignore files in a container's folders.
    package static let fileName = ItemName(stored: Array(".ubiquityignore".utf8))
    /// Bytes of an ignore file that are read; one that is longer is nobody's handwork.
    package static let maximumLength = 256 * 1024

    /// - Parameter text: of a file; a byte order mark and "\r\n" do no harm.
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

    /// Whether the path is ignored; nil if no line is about it. A folder above it is not looked at.
    /// - Parameter path: the names from the rules' folder down to the item.
    package func decision(on path: ArraySlice<ItemName>, isDirectory: Bool) -> Bool? {
        patterns.last { $0.matches(path, isDirectory: isDirectory) }.map { !$0.isNegated }
    }

    /// Whether a path is ignored by rules of several folders: those of a deeper folder come before those of one above,
    /// and nothing below an ignored folder can be taken back, as in git. Nil if no line is about the path.
    /// - Parameters:
    ///   - path: the names from the top folder down to the item.
    ///   - levels: the rules, and how many folders lie between the top one and theirs (0 for the top folder), the
    ///     first ones weaker than the ones after.
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
    /// Names that programs make for a moment beside documents, if nothing else is configured.
    package static let standardLines = temporaryNamesOfRsync + [
        // vim: swap files (from .swp backwards), the file by which it tries whether it may write, undo files.
        "*.swp", "*.swo", "*.swx", ".*.sw[a-p]", "4913",
        // Backups of vim, emacs, nano and many more, and vim's ".name.un~".
        "*~",
        // emacs: locks, automatic saves.
        ".#*", "\\#*#",
        // GLib's half-written files; locks and half-written files of LibreOffice; owner files of Office; Kate.
        ".goutputstream-*", ".~lock.*#", "lu[0-9]*.tmp", "~$*", ".*.kate-swp",
        // What file systems make of a file that is deleted while it is open.
        ".fuse_hidden*", ".nfs????????????*",
    ]

    /// rsync writes ".NAME.XXXXXX", six letters and digits. As ".NAME.backup" is no such thing, at least one must be a
    /// capital and not all: of mkstemp(3)'s names that is 96 in 100, and the others are renamed before they go up.
    private static let temporaryNamesOfRsync: [String] = {
        let any = "[0-9A-Za-z]", capital = "[A-Z]"
        let oneCapital = (0..<6).map { place in
            ".?*." + (0..<6).map { $0 == place ? capital : any }.joined()
        }
        return oneCapital + ["!.?*." + String(repeating: capital, count: 6)]
    }()

    package static let standard = IgnoreRules(standardLines)

    /// A name with this end never leaves the device, whatever ignore files say.
    package static let localSuffix = Array(".nosync".utf8)
}
