extension QueryPredicate: CustomStringConvertible {
    /// The text that parses to this predicate.
    package var description: String {
        switch self {
        case .constant(let isTrue): isTrue ? "true" : "false"
        case .comparison(let comparison): comparison.description
        case .not(let predicate): "not (\(predicate))"
        case .all(let parts): Self.joined(parts, "and", none: "true")
        case .any(let parts): Self.joined(parts, "or", none: "false")
        }
    }

    private static func joined(_ parts: [QueryPredicate], _ word: String, none: String) -> String {
        parts.isEmpty ? none : parts.map { "(\($0))" }.joined(separator: " \(word) ")
    }
}

extension QueryComparison: CustomStringConvertible {
    package var description: String {
        let sign = comparison.rawValue + (ignoresCase ? "[c]" : "")
        let texts = values.map(Self.text)
        let value = comparison == .isIn ? "{\(texts.joined(separator: ", "))}" : texts.first ?? "nil"
        return "\(key.rawValue) \(sign) \(value)"
    }

    private static func text(_ value: QueryValue) -> String {
        switch value {
        case .text(let text): quoted(text)
        case .number(let number): number == number.rounded() && abs(number) < 1e15 ? "\(Int64(number))" : "\(number)"
        case .time(let seconds): QueryMoment.text(seconds)
        case .flag(let flag): flag ? "true" : "false"
        }
    }

    private static func quoted(_ text: String) -> String {
        var result = "\""
        for character in text {
            if character == "\"" || character == "\\" { result.append("\\") }
            result.append(character)
        }
        return result + "\""
    }
}
