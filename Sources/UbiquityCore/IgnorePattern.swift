/// One line of an ignore file: which paths it is about, and whether it ignores them or takes them back.
///
/// The syntax and its corner cases are those of gitignore(5), as git 2.39 carries them out (`git check-ignore`): bytes
/// are compared, "*" and "?" do not match "/", "**" stands for folders only as a whole part of the path.
struct IgnorePattern: Sendable, Hashable {
    /// A part of a path between slashes, as the pattern has it.
    private enum Part: Sendable, Hashable {
        case name([NameToken])
        /// "**": any number of folders; at the end, whatever is below.
        case anything
    }

    /// Begins with "!": paths that match are not ignored.
    let isNegated: Bool
    /// Ends with "/": only folders match.
    private let isForDirectories: Bool
    /// No "/" but at the end: the last name of a path decides, at whatever depth.
    let isForNames: Bool
    private let parts: [Part]

    /// Nil for a line that matches nothing: empty, a comment, or damaged.
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

    /// Spaces at the end mean nothing unless a backslash is in front.
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
                // Stars in a row are one.
                if token != .anyBytes || tokens.last != .anyBytes { tokens.append(token) }
            }
        }
        parts.append(part(to: rest.startIndex))
        return parts
    }

    // MARK: Matching

    /// - Parameter path: the names from the ignore file's folder down to the item, at least one.
    func matches(_ path: ArraySlice<ItemName>, isDirectory: Bool) -> Bool {
        guard let name = path.last, isDirectory || !isForDirectories else { return false }
        guard !isForNames else { return matches(name) }
        return matches(path)
    }

    private func matches(_ name: ItemName) -> Bool {
        guard case .name(let tokens) = parts[0] else { return true }
        return NameToken.match(tokens, name.bytes)
    }

    /// Each "**" is tried at its shortest first and lengthened on a mismatch after it. Only the last one ever needs
    /// lengthening: what follows an earlier one has matched, and a later match of that leaves less for the rest.
    private func matches(_ path: ArraySlice<ItemName>) -> Bool {
        var inPath = path.startIndex, inParts = 0
        var retryPath = inPath, retryPart: Int?
        while true {
            if inParts < parts.count, parts[inParts] == .anything {
                // At the end it stands for what is below, which is not nothing.
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

/// A piece of a pattern for one name.
enum NameToken: Sendable, Hashable {
    case byte(UInt8)
    case anyByte
    case anyBytes
    case oneOf(ByteSet)

    /// Takes the next piece off a pattern; nil if the pattern is damaged and matches nothing.
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

    /// Whether a whole name matches. Each star is tried at its shortest first and lengthened on a mismatch after it;
    /// only the last one ever needs lengthening, so the cost is at most name times pattern.
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
