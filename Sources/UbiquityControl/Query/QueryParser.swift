import UbiquityCore

extension QueryPredicate {
    /// Longest query text in bytes.
    package static let maximumLength = 16_384
    /// Limit for nested parentheses and "not": each takes a call.
    static let maximumDepth = 64

    /// Parses a query's text: `name like "*.txt" and (size > 10M or modified > now-7d) and not conflicts`. An empty
    /// text matches all items. Throws `.invalid` with the error and its position.
    /// - Parameter now: seconds since 1970-01-01 UTC; the value of "now" in the text.
    package init(parsing text: String, now: Double) throws(UbiquityError) {
        guard text.utf8.count <= Self.maximumLength else {
            throw UbiquityError(.invalid, "not a query: longer than \(Self.maximumLength) bytes")
        }
        var parser = QueryParser(tokens: try QueryToken.all(in: text), now: now)
        self = try parser.whole()
    }
}

private struct QueryParser {
    private var tokens: [QueryToken]
    private var next = 0
    private var depth = 0
    private let now: Double

    init(tokens: [QueryToken], now: Double) {
        self.tokens = tokens
        self.now = now
    }

    private var token: QueryToken { tokens[min(next, tokens.count - 1)] }

    private mutating func take() -> QueryToken {
        defer { next += 1 }
        return token
    }

    private mutating func take(_ words: String...) -> Bool {
        let isOne: Bool
        switch token.kind {
        case .sign(let sign): isOne = words.contains(sign)
        case .word: isOne = token.keyword.map(words.contains) ?? false
        default: isOne = false
        }
        if isOne { next += 1 }
        return isOne
    }

    mutating func whole() throws(UbiquityError) -> QueryPredicate {
        if token.kind == .end { return .constant(true) }
        let predicate = try alternatives()
        guard token.kind == .end else {
            throw QueryToken.failure("expected \"and\" or \"or\", not \(token.shown)", at: token.position)
        }
        return predicate
    }

    private mutating func alternatives() throws(UbiquityError) -> QueryPredicate {
        var parts = [try conjunction()]
        while take("or", "||") { parts.append(try conjunction()) }
        return parts.count == 1 ? parts[0] : .any(parts)
    }

    private mutating func conjunction() throws(UbiquityError) -> QueryPredicate {
        var parts = [try negation()]
        while take("and", "&&") { parts.append(try negation()) }
        return parts.count == 1 ? parts[0] : .all(parts)
    }

    private mutating func negation() throws(UbiquityError) -> QueryPredicate {
        depth += 1
        defer { depth -= 1 }
        guard depth <= QueryPredicate.maximumDepth else {
            throw QueryToken.failure("more than \(QueryPredicate.maximumDepth) levels", at: token.position)
        }
        if take("not", "!") { return .not(try negation()) }
        let open = token
        guard take("(") else { return try condition() }
        let predicate = try alternatives()
        guard take(")") else {
            throw QueryToken.failure(
                "expected \")\" for the \"(\" at character \(open.position), not \(token.shown)", at: token.position)
        }
        return predicate
    }

    // MARK: Conditions

    private mutating func condition() throws(UbiquityError) -> QueryPredicate {
        let first = take()
        guard case .word(let word) = first.kind else {
            throw QueryToken.failure("expected a key such as name or size, not \(first.shown)", at: first.position)
        }
        if ["true", "truepredicate"].contains(word.lowercased()) { return .constant(true) }
        if ["false", "falsepredicate"].contains(word.lowercased()) { return .constant(false) }
        guard let key = QueryKey(written: word) else {
            throw QueryToken.failure(
                "no key is named \"\(word)\"", at: first.position,
                remedy: "keys: " + QueryKey.allCases.map(\.rawValue).joined(separator: ", "))
        }
        guard let comparison = try comparisonOperator(of: key) else {
            guard case .flag = key.values else {
                throw QueryToken.failure(
                    "expected a comparison after \"\(word)\", not \(token.shown)", at: token.position,
                    remedy: "write for example \(Self.example(key))")
            }
            return .comparison(QueryComparison(key, .equal, [.flag(true)]))
        }
        var result = QueryComparison(key, comparison, [])
        if case .modifier(let modifier) = token.kind {
            guard modifier == "c" else {
                throw QueryToken.failure("only [c] (ignore case) is supported", at: token.position)
            }
            result.ignoresCase = true
            next += 1
        }
        result.values = comparison == .isIn ? try list(of: key) : try value(of: key, comparison).map { [$0] } ?? []
        return .comparison(result)
    }

    /// Nil if there is none.
    private mutating func comparisonOperator(of key: QueryKey) throws(UbiquityError) -> QueryComparison.Operator? {
        let found: QueryComparison.Operator?
        switch token.kind {
        case .sign("="): found = .equal
        case .sign("<>"): found = .notEqual
        case .sign(let sign): found = QueryComparison.Operator(rawValue: sign)
        case .word: found = token.keyword.flatMap(QueryComparison.Operator.init)
        default: found = nil
        }
        guard let found else { return nil }
        guard Self.operators(of: key.values).contains(found) else {
            throw QueryToken.failure(
                "\"\(found.rawValue)\" cannot be used with \(key.rawValue)", at: token.position,
                remedy: "write for example \(Self.example(key))")
        }
        next += 1
        return found
    }

    private static func operators(of values: QueryKey.Values) -> [QueryComparison.Operator] {
        switch values {
        case .text: [.equal, .notEqual, .like, .contains, .beginsWith, .endsWith, .isIn]
        case .path: [.equal, .notEqual, .like, .contains, .beginsWith, .endsWith, .isIn, .within]
        case .size, .number, .time: [.equal, .notEqual, .less, .lessOrEqual, .greater, .greaterOrEqual, .isIn]
        case .flag: [.equal, .notEqual]
        case .status: [.equal, .notEqual, .isIn]
        }
    }

    private static func example(_ key: QueryKey) -> String {
        switch key.values {
        case .text where key == .kind: "kind == file, directory, symlink or special; packages are is-package"
        case .text: "\(key.rawValue) like \"*.txt\""
        case .path: "path within Documents"
        case .size: "size > 10M"
        case .number: "\(key.rawValue) > 0"
        case .time: "\(key.rawValue) > 2026-11-20, or > now-7d"
        case .flag: "\(key.rawValue), or not \(key.rawValue)"
        case .status: "\(key.rawValue) == not-downloaded, downloaded or current"
        }
    }

    // MARK: Values

    private mutating func list(of key: QueryKey) throws(UbiquityError) -> [QueryValue] {
        guard take("{") || take("(") else {
            throw QueryToken.failure("expected values in braces, {a, b}, not \(token.shown)", at: token.position)
        }
        var values = [QueryValue]()
        repeat {
            if let value = try value(of: key, .isIn) { values.append(value) }
        } while take(",")
        guard take("}") || take(")") else {
            throw QueryToken.failure("expected \",\" or \"}\", not \(token.shown)", at: token.position)
        }
        return values
    }

    /// Nil for "nil", which only "==" and "!=" accept.
    private mutating func value(
        of key: QueryKey, _ comparison: QueryComparison.Operator
    ) throws(UbiquityError) -> QueryValue? {
        let found = take()
        let text: String
        switch found.kind {
        case .string(let string): text = string
        case .word(let word):
            if word.lowercased() == "nil", [.equal, .notEqual].contains(comparison) { return nil }
            text = word
        default:
            throw QueryToken.failure(
                "expected a value after \"\(key.rawValue) \(comparison.rawValue)\", not \(found.shown)",
                at: found.position, remedy: "write for example \(Self.example(key))")
        }
        guard let value = value(of: key, text, comparison) else {
            throw QueryToken.failure(
                "\"\(text)\" is not a value of \(key.rawValue)", at: found.position,
                remedy: "write for example \(Self.example(key))")
        }
        return value
    }

    private func value(of key: QueryKey, _ text: String, _ comparison: QueryComparison.Operator) -> QueryValue? {
        switch key.values {
        case .text:
            guard key == .kind, [.equal, .notEqual, .isIn].contains(comparison) else { return .text(text) }
            return Self.kinds.contains(text.lowercased()) ? .text(text.lowercased()) : nil
        case .path:
            // A slash in front or at the end does not change the folder.
            guard comparison == .within || comparison == .equal else { return .text(text) }
            return .text(text.split(separator: "/").joined(separator: "/"))
        case .size: return Self.number(text) ?? (try? ByteSize.parse(text)).map { .number(Double($0)) }
        case .number: return Self.number(text)
        case .time: return QueryMoment.seconds(text, now: now).map(QueryValue.time)
        case .flag:
            let words = ["true": true, "yes": true, "1": true, "false": false, "no": false, "0": false]
            return words[text.lowercased()].map(QueryValue.flag)
        case .status: return Self.status(text)
        }
    }

    private static let kinds = ["file", "directory", "symlink", "special"]

    private static func number(_ text: String) -> QueryValue? {
        Double(text).flatMap { $0.isFinite ? .number($0) : nil }
    }

    private static func status(_ text: String) -> QueryValue? {
        let original = "NSMetadataUbiquitousItemDownloadingStatus"
        let words = ["NotDownloaded": "not-downloaded", "Downloaded": "downloaded", "Current": "current"]
        let word = text.hasPrefix(original) ? words[String(text.dropFirst(original.count))] : text
        return word.flatMap(ItemReport.DownloadingStatus.init).map { .text($0.rawValue) }
    }
}
