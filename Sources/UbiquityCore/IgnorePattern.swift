/// One line of an ignore file: a pattern of paths, and whether it ignores or includes them.
///
/// Syntax and corner cases are those of gitignore(5), as git 2.39 implements them (`git check-ignore`). Bytes are
/// compared; "*" and "?" do not match "/"; "**" matches folders only as a whole part of the path.
struct IgnorePattern: Sendable, Hashable {
    /// A part of the pattern between slashes.
    private enum Part: Sendable, Hashable {
        case name([NameToken])
        /// "**": any number of folders; at the end, everything below.
        case anything
    }

    /// The line begins with "!": matching paths are not ignored.
    let isNegated: Bool
    /// The line ends with "/": only folders match.
    private let isForDirectories: Bool
    /// The pattern has no "/" except at the end: it is compared with the last name of a path, at any depth.
    let isForNames: Bool
    private let parts: [Part]

    /// Nil for a line that matches nothing: empty, a comment, or malformed.
    init?(line: [UInt8]) {
        var text = Self.withoutTrailingSpaces(line)
        guard let first = text.first, first != UInt8(ascii: "#") else { return nil }
        isNegated = first == UInt8(ascii: "!")
        if isNegated { text.removeFirst() }
        isForDirectories = text.last == Self.slash
        if isForDirectories { text.removeLast() }
        isForNames = !text.contains(Self.slash)
        if text.first == Self.slash { text.removeFirst() }
        guard !text.isEmpty, let parts = Self.parts(of: text[...], splitting: !isForNames) else { return nil }
        self.parts = parts
    }

    private static let slash = UInt8(ascii: "/")
    private static let backslash = UInt8(ascii: "\\")
    private static let star = UInt8(ascii: "*")

    /// Trailing spaces are ignored unless a backslash precedes them.
    private static func withoutTrailingSpaces(_ line: [UInt8]) -> [UInt8] {
        var end = 0, index = 0
        while index < line.count {
            if line[index] == backslash { index += 1 } else if line[index] == UInt8(ascii: " ") {
                index += 1
                continue
            }
            index += 1
            end = min(index, line.count)
        }
        return Array(line[..<end])
    }

    private static func parts(of text: ArraySlice<UInt8>, splitting: Bool) -> [Part]? {
        var rest = text
        var parts = [Part](), tokens = [NameToken](), begin = rest.startIndex
        func part(to end: Int) -> Part {
            splitting && end - begin >= 2 && text[begin..<end].allSatisfy { $0 == star } ? .anything : .name(tokens)
        }
        while let byte = rest.first {
            if byte == slash {
                parts.append(part(to: rest.startIndex))
                rest.removeFirst()
                (tokens, begin) = ([], rest.startIndex)
            } else {
                guard let token = NameToken(from: &rest) else { return nil }
                // Consecutive stars count as one.
                if token != .anyBytes || tokens.last != .anyBytes { tokens.append(token) }
            }
        }
        parts.append(part(to: rest.startIndex))
        return parts
    }

    // MARK: Matching

    /// - Parameter path: The names from the ignore file's folder down to the item, at least one.
    func matches(_ path: ArraySlice<ItemName>, isDirectory: Bool) -> Bool {
        guard let name = path.last, isDirectory || !isForDirectories else { return false }
        guard !isForNames else { return matches(name) }
        return matches(path)
    }

    private func matches(_ name: ItemName) -> Bool {
        guard case .name(let tokens) = parts[0] else { return true }
        return NameToken.match(tokens, name.bytes)
    }

    /// Each "**" is tried at its shortest first and extended after a mismatch. Only the last one ever needs extending:
    /// the part after an earlier one has matched, and a later match leaves less for the rest.
    private func matches(_ path: ArraySlice<ItemName>) -> Bool {
        var inPath = path.startIndex, inParts = 0
        var retryPath = inPath, retryPart: Int?
        while true {
            if inParts < parts.count, parts[inParts] == .anything {
                // At the end it matches everything below, which must be at least one name.
                guard inParts + 1 < parts.count else { return inPath < path.endIndex }
                inParts += 1
                (retryPath, retryPart) = (inPath, inParts)
            } else if inParts < parts.count, inPath < path.endIndex, case .name(let tokens) = parts[inParts],
                NameToken.match(tokens, path[inPath].bytes)
            {
                inPath += 1
                inParts += 1
            } else if inParts == parts.count, inPath == path.endIndex {
                return true
            } else {
                guard let afterAnything = retryPart, retryPath < path.endIndex else { return false }
                retryPath += 1
                (inPath, inParts) = (retryPath, afterAnything)
            }
        }
    }
}

/// A token of a pattern for one name.
enum NameToken: Sendable, Hashable {
    case byte(UInt8)
    case anyByte
    case anyBytes
    case oneOf(ByteSet)

    /// Parses the next token of a pattern; nil if the pattern is malformed and matches nothing.
    init?(from text: inout ArraySlice<UInt8>) {
        guard let byte = text.popFirst() else { return nil }
        switch byte {
        case UInt8(ascii: "*"): self = .anyBytes
        case UInt8(ascii: "?"): self = .anyByte
        case UInt8(ascii: "["):
            guard let set = ByteSet(from: &text) else { return nil }
            self = .oneOf(set)
        case UInt8(ascii: "\\"):
            guard let escaped = text.popFirst() else { return nil }
            self = .byte(escaped)
        default: self = .byte(byte)
        }
    }

    private func matches(_ byte: UInt8) -> Bool {
        switch self {
        case .byte(let wanted): wanted == byte
        case .anyByte: true
        case .oneOf(let set): set.contains(byte)
        case .anyBytes: false
        }
    }

    /// Returns whether a whole name matches. Each star is tried at its shortest first and extended after a mismatch.
    /// Only the last one ever needs extending, so the cost is at most name length times pattern length.
    static func match(_ tokens: [NameToken], _ name: [UInt8]) -> Bool {
        var inName = 0, inTokens = 0
        var retryName = 0, retryToken: Int?
        while true {
            if inTokens < tokens.count, tokens[inTokens] == .anyBytes {
                inTokens += 1
                (retryName, retryToken) = (inName, inTokens)
            } else if inTokens < tokens.count, inName < name.count, tokens[inTokens].matches(name[inName]) {
                inName += 1
                inTokens += 1
            } else if inTokens == tokens.count, inName == name.count {
                return true
            } else {
                guard let afterStar = retryToken, retryName < name.count else { return false }
                retryName += 1
                (inName, inTokens) = (retryName, afterStar)
            }
        }
    }
}
