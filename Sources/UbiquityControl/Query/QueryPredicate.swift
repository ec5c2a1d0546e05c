/// The condition of a query.
package indirect enum QueryPredicate: Hashable, Sendable {
    case constant(Bool)
    case comparison(QueryComparison)
    case not(QueryPredicate)
    case all([QueryPredicate])
    case any([QueryPredicate])

    /// Whether the condition holds. Values that are not needed are not looked up.
    /// - Parameter value: returns an item's value; nil if it has none.
    package func holds(_ value: (QueryKey) throws -> QueryValue?) rethrows -> Bool {
        switch self {
        case .constant(let isTrue): isTrue
        case .comparison(let comparison): comparison.holds(for: try value(comparison.key))
        case .not(let predicate): try !predicate.holds(value)
        case .all(let parts): try parts.allSatisfy { try $0.holds(value) }
        case .any(let parts): try parts.contains { try $0.holds(value) }
        }
    }

    /// The conjunction, flattened: a chain of many conditions is no deeper than one of two.
    package func and(_ other: QueryPredicate) -> QueryPredicate {
        func parts(_ predicate: QueryPredicate) -> [QueryPredicate] {
            if case .all(let parts) = predicate { parts } else { [predicate] }
        }
        return .all(parts(self) + parts(other))
    }

    /// The disjunction, flattened.
    package func or(_ other: QueryPredicate) -> QueryPredicate {
        func parts(_ predicate: QueryPredicate) -> [QueryPredicate] {
            if case .any(let parts) = predicate { parts } else { [predicate] }
        }
        return .any(parts(self) + parts(other))
    }

    /// The same condition, with the values that a listing has evaluated first.
    package var cheapFirst: QueryPredicate {
        switch self {
        case .constant, .comparison: self
        case .not(let predicate): .not(predicate.cheapFirst)
        case .all(let parts): .all(Self.sorted(parts))
        case .any(let parts): .any(Self.sorted(parts))
        }
    }

    private static func sorted(_ parts: [QueryPredicate]) -> [QueryPredicate] {
        let parts = parts.map(\.cheapFirst)
        return parts.filter(\.isOfListing) + parts.filter { !$0.isOfListing }
    }

    private var isOfListing: Bool {
        switch self {
        case .constant: true
        case .comparison(let comparison): comparison.key.isOfListing
        case .not(let predicate): predicate.isOfListing
        case .all(let parts), .any(let parts): parts.allSatisfy(\.isOfListing)
        }
    }
}

/// One comparison of an item's value.
package struct QueryComparison: Hashable, Sendable {
    package enum Operator: String, CaseIterable, Hashable, Sendable {
        case equal = "=="
        case notEqual = "!="
        case less = "<"
        case lessOrEqual = "<="
        case greater = ">"
        case greaterOrEqual = ">="
        /// "*" is any characters, "?" is one.
        case like
        case contains
        case beginsWith = "beginswith"
        case endsWith = "endswith"
        /// One of several values.
        case isIn = "in"
        /// The path is that folder, or in it.
        case within
    }

    package var key: QueryKey
    package var comparison: Operator
    /// Whether upper and lower case are equal.
    package var ignoresCase: Bool
    /// One value, or several for `isIn`. Empty for a comparison with "nil".
    package var values: [QueryValue]

    package init(_ key: QueryKey, _ comparison: Operator, _ values: [QueryValue], ignoresCase: Bool = false) {
        self.key = key
        self.comparison = comparison
        self.values = values
        self.ignoresCase = ignoresCase
    }

    /// A missing value equals only "nil".
    func holds(for value: QueryValue?) -> Bool {
        guard comparison != .isIn else { return values.contains { matches(value, .equal, $0) } }
        return matches(value, comparison, values.first)
    }

    private func matches(_ value: QueryValue?, _ comparison: Operator, _ wanted: QueryValue?) -> Bool {
        guard let value, let wanted else {
            return comparison == .notEqual ? value != wanted : comparison == .equal && value == wanted
        }
        switch (value, wanted) {
        case (.text(let value), .text(let wanted)):
            return ignoresCase ? Self.compare(value.lowercased(), comparison, wanted.lowercased())
                : Self.compare(value, comparison, wanted)
        case (.number(let value), .number(let wanted)), (.time(let value), .time(let wanted)):
            return Self.compare(value, comparison, wanted)
        case (.flag(let value), .flag(let wanted)):
            return comparison == .equal ? value == wanted : comparison == .notEqual && value != wanted
        default: return false
        }
    }

    private static func compare(_ value: Double, _ comparison: Operator, _ wanted: Double) -> Bool {
        switch comparison {
        case .equal: value == wanted
        case .notEqual: value != wanted
        case .less: value < wanted
        case .lessOrEqual: value <= wanted
        case .greater: value > wanted
        case .greaterOrEqual: value >= wanted
        default: false
        }
    }

    /// Byte by byte: two names that look the same but differ in bytes are different names.
    private static func compare(_ value: String, _ comparison: Operator, _ wanted: String) -> Bool {
        let (value, wanted) = (Array(value.utf8), Array(wanted.utf8))
        return switch comparison {
        case .equal: value == wanted
        case .notEqual: value != wanted
        case .like: Wildcards.match(value, wanted)
        case .contains: contains(value, wanted)
        case .beginsWith: value.starts(with: wanted)
        case .endsWith: value.reversed().starts(with: wanted.reversed())
        case .within: isWithin(value, wanted)
        default: false
        }
    }

    private static func contains(_ value: [UInt8], _ wanted: [UInt8]) -> Bool {
        guard let first = wanted.first else { return true }
        guard value.count >= wanted.count else { return false }
        return (0...value.count - wanted.count).contains { start in
            value[start] == first && value[start...].starts(with: wanted)
        }
    }

    private static func isWithin(_ path: [UInt8], _ folder: [UInt8]) -> Bool {
        guard !folder.isEmpty else { return true }
        return path.starts(with: folder) && (path.count == folder.count || path[folder.count] == UInt8(ascii: "/"))
    }
}

/// Patterns of `like`.
enum Wildcards {
    /// Whether the pattern matches the whole text. The number of steps is at most proportional to text times pattern.
    static func match(_ text: [UInt8], _ pattern: [UInt8]) -> Bool {
        var (position, wanted) = (0, 0)
        // Where to continue if the part after the last "*" does not match: the "*" takes one byte more.
        var retry: (position: Int, wanted: Int)?
        while position < text.count {
            if wanted < pattern.count, pattern[wanted] == UInt8(ascii: "*") {
                wanted += 1
                retry = (position, wanted)
            } else if wanted < pattern.count, pattern[wanted] == UInt8(ascii: "?") {
                position = next(position, text)
                wanted += 1
            } else if wanted < pattern.count, pattern[wanted] == text[position] {
                position += 1
                wanted += 1
            } else if let last = retry {
                position = next(last.position, text)
                wanted = last.wanted
                retry = (position, wanted)
            } else {
                return false
            }
        }
        return pattern[wanted...].allSatisfy { $0 == UInt8(ascii: "*") }
    }

    /// The position after the character (of one to four bytes) at a position.
    private static func next(_ position: Int, _ text: [UInt8]) -> Int {
        var next = position + 1
        while next < text.count, text[next] & 0xC0 == 0x80 { next += 1 }
        return next
    }
}
