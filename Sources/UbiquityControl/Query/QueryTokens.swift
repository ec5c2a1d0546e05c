import UbiquityCore

/// A token of a query's text.
struct QueryToken: Hashable {
    enum Kind: Hashable {
        /// Without quotes: a key, an operator, or a value.
        case word(String)
        case string(String)
        /// An operator of symbols, a parenthesis, a brace or a comma.
        case sign(String)
        /// The text between "[" and "]".
        case modifier(String)
        case end
    }

    var kind: Kind
    /// The position of its first character, from 1.
    var position: Int

    /// For a message.
    var shown: String {
        switch kind {
        case .word(let text), .sign(let text): "\"\(text)\""
        case .string(let text): "the text \"\(text)\""
        case .modifier(let text): "\"[\(text)]\""
        case .end: "the end"
        }
    }

    /// The word in lower case; nil for anything else.
    var keyword: String? {
        guard case .word(let text) = kind else { return nil }
        return text.lowercased()
    }

    /// Longest first, so that "<=" is not taken for "<".
    private static let signs = ["==", "!=", "<>", "<=", ">=", "&&", "||", "=", "<", ">", "!", "(", ")", "{", "}", ","]
    /// Characters that end a word.
    private static let marks = Set("=!<>&|(){},[]\"' \t\r\n")

    /// Throws `.invalid` for an unterminated quote or "[", and for unknown symbols.
    static func all(in text: String) throws(UbiquityError) -> [QueryToken] {
        let characters = Array(text)
        var tokens = [QueryToken](), next = 0
        while next < characters.count {
            let start = next
            let first = characters[next]
            if first == " " || first == "\t" || first.isNewline {
                next += 1
                continue
            }
            let kind: Kind
            if first == "\"" || first == "'" {
                kind = .string(try quoted(characters, &next))
            } else if first == "[" {
                guard let end = characters[next...].firstIndex(of: "]") else {
                    throw failure("\"[\" has no \"]\"", at: start + 1)
                }
                kind = .modifier(String(characters[next + 1..<end]).lowercased())
                next = end + 1
            } else if let sign = signs.first(where: { characters[next...].starts(with: Array($0)) }) {
                kind = .sign(sign)
                next += sign.count
            } else {
                let word = characters[next...].prefix { !marks.contains($0) }
                guard !word.isEmpty else { throw failure("\"\(first)\" is not expected here", at: start + 1) }
                kind = .word(String(word))
                next += word.count
            }
            tokens.append(QueryToken(kind: kind, position: start + 1))
        }
        return tokens + [QueryToken(kind: .end, position: characters.count + 1)]
    }

    /// A text in quotes; in it a backslash escapes the next character.
    private static func quoted(_ characters: [Character], _ next: inout Int) throws(UbiquityError) -> String {
        let start = next, quote = characters[next]
        var text = ""
        next += 1
        while next < characters.count, characters[next] != quote {
            if characters[next] == "\\", next + 1 < characters.count { next += 1 }
            text.append(characters[next])
            next += 1
        }
        guard next < characters.count else { throw failure("the quoted text has no closing quote", at: start + 1) }
        next += 1
        return text
    }

    static func failure(_ message: String, at position: Int, remedy: String = "") -> UbiquityError {
        UbiquityError(.invalid, "not a query: \(message) (at character \(position))", remedy: remedy)
    }
}
