/// A set of bytes, as "[a-z]" in a pattern describes it.
struct ByteSet: Sendable, Hashable {
    private var words: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)

    static func == (left: Self, right: Self) -> Bool { left.words == right.words }

    func hash(into hasher: inout Hasher) {
        hasher.combine(words.0)
        hasher.combine(words.1)
        hasher.combine(words.2)
        hasher.combine(words.3)
    }

    func contains(_ byte: UInt8) -> Bool {
        let word =
            switch byte >> 6 {
            case 0: words.0
            case 1: words.1
            case 2: words.2
            default: words.3
            }
        return word & 1 << UInt64(byte & 63) != 0
    }

    private mutating func insert(_ byte: UInt8) {
        let bit: UInt64 = 1 << UInt64(byte & 63)
        switch byte >> 6 {
        case 0: words.0 |= bit
        case 1: words.1 |= bit
        case 2: words.2 |= bit
        default: words.3 |= bit
        }
    }

    private mutating func invert() { words = (~words.0, ~words.1, ~words.2, ~words.3) }

    // MARK: Parsing a pattern

    private static let closing = UInt8(ascii: "]")
    private static let colon = UInt8(ascii: ":")

    /// Parses the part of a pattern after "[", up to and including "]". Nil if "]" is missing or a class is unknown.
    init?(from text: inout ArraySlice<UInt8>) {
        let isNegated = text.first == UInt8(ascii: "!") || text.first == UInt8(ascii: "^")
        if isNegated { text.removeFirst() }
        // The start of a range, if the last member can be one. A "]" at the beginning is an ordinary member.
        var rangeStart: UInt8?
        var isFirst = true
        while true {
            guard let byte = text.popFirst() else { return nil }
            if byte == Self.closing, !isFirst { break }
            isFirst = false
            if byte == UInt8(ascii: "-"), let start = rangeStart, let next = text.first, next != Self.closing {
                guard let end = Self.member(from: &text) else { return nil }
                if start <= end { for value in start...end { insert(value) } }
                rangeStart = nil
            } else if byte == UInt8(ascii: "["), text.first == Self.colon, let name = try? Self.className(&text) {
                guard let members = Self.classes[name] else { return nil }
                for value in UInt8.min...UInt8.max where members(value) { insert(value) }
                rangeStart = nil
            } else {
                var member = byte
                if byte == UInt8(ascii: "\\") {
                    guard let escaped = text.popFirst() else { return nil }
                    member = escaped
                }
                insert(member)
                rangeStart = member
            }
        }
        if isNegated { invert() }
    }

    private static func member(from text: inout ArraySlice<UInt8>) -> UInt8? {
        guard let byte = text.popFirst() else { return nil }
        return byte == UInt8(ascii: "\\") ? text.popFirst() : byte
    }

    private struct NoClass: Error {}

    /// Parses the name in "[:name:]" after its "[". Throws if it is not such a name; then "[" is a member.
    private static func className(_ text: inout ArraySlice<UInt8>) throws -> String {
        guard let end = text.firstIndex(of: closing), end - text.startIndex >= 2, text[end - 1] == colon else {
            throw NoClass()
        }
        let name = text[(text.startIndex + 1)..<(end - 1)]
        text = text[(end + 1)...]
        return String(decoding: name, as: UTF8.self)
    }

    private static let classes: [String: @Sendable (UInt8) -> Bool] = [
        "alnum": { isLetter($0) || isDigit($0) }, "alpha": isLetter, "blank": { $0 == 32 || $0 == 9 },
        "cntrl": { $0 < 32 || $0 == 127 }, "digit": isDigit, "graph": { $0 > 32 && $0 < 127 },
        "lower": { (97...122).contains($0) }, "print": { $0 >= 32 && $0 < 127 },
        "punct": { $0 > 32 && $0 < 127 && !isLetter($0) && !isDigit($0) },
        "space": { $0 == 32 || (9...13).contains($0) }, "upper": { (65...90).contains($0) },
        "xdigit": { isDigit($0) || (65...70).contains($0) || (97...102).contains($0) },
    ]

    private static func isLetter(_ byte: UInt8) -> Bool { (65...90).contains(byte) || (97...122).contains(byte) }
    private static func isDigit(_ byte: UInt8) -> Bool { (48...57).contains(byte) }
}
