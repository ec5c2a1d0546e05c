/// Makes foreign text (names, device names, messages of a cloud) safe for one line of a terminal or a log.
///
/// Characters that end a line, move the cursor, start a terminal sequence or change the writing direction are replaced
/// by ASCII escapes. All other text stays unchanged.
package enum PlainText {
    /// The same text on one line.
    package static func escaped(_ text: String) -> String {
        guard text.unicodeScalars.contains(where: isUnsafe) else { return text }
        return text.unicodeScalars.reduce(into: "") { result, scalar in
            guard isUnsafe(scalar) else { return result.unicodeScalars.append(scalar) }
            result += scalar.escaped(asASCII: true)
        }
    }

    /// The same for text of several lines, for example a help page that quotes an argument: line feeds stay.
    package static func escapedLines(_ text: String) -> String {
        text.unicodeScalars.split(separator: "\n", omittingEmptySubsequences: false)
            .map { escaped(String($0)) }.joined(separator: "\n")
    }

    /// The same for one line that contains the given terminal sequences, for example colours: those stay.
    package static func escaped(_ text: String, keeping sequences: [String]) -> String {
        guard text.unicodeScalars.contains(where: isUnsafe) else { return text }
        var result = "", rest = text.unicodeScalars[...], start = rest.startIndex
        while let first = rest.first {
            if first == "\u{1B}", let kept = sequences.first(where: { rest.starts(with: $0.unicodeScalars) }) {
                result += escaped(String(text.unicodeScalars[start..<rest.startIndex])) + kept
                rest = rest.dropFirst(kept.unicodeScalars.count)
                start = rest.startIndex
            } else {
                rest = rest.dropFirst()
            }
        }
        return result + escaped(String(text.unicodeScalars[start...]))
    }

    /// The same for JSON on one line. The JSON keeps its meaning: such characters occur only in its strings.
    package static func escapedJSON(_ json: String) -> String {
        guard json.unicodeScalars.contains(where: isUnsafe) else { return json }
        return json.unicodeScalars.reduce(into: "") { result, scalar in
            guard isUnsafe(scalar) else { return result.unicodeScalars.append(scalar) }
            let digits = String(scalar.value, radix: 16)
            result += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
        }
    }

    private static func isUnsafe(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        // Control characters: C0, DEL and C1.
        case 0..<0x20, 0x7F..<0xA0: true
        // Marks, embeddings, overrides and isolates of the writing direction.
        case 0x061C, 0x200E, 0x200F, 0x202A...0x202E, 0x2066...0x2069: true
        // Line and paragraph separators.
        case 0x2028, 0x2029: true
        default: false
        }
    }
}
