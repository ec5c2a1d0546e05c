internal import UbiquityCore

/// A piece of HTML. Interpolated text is escaped, unless it is HTML itself.
struct HTML: ExpressibleByStringInterpolation, Sendable {
    let text: String

    init(stringLiteral text: String) { self.text = text }
    init(stringInterpolation: StringInterpolation) { text = stringInterpolation.text }
    private init(text: String) { self.text = text }

    struct StringInterpolation: StringInterpolationProtocol {
        fileprivate var text = ""
        init(literalCapacity: Int, interpolationCount: Int) { text.reserveCapacity(literalCapacity * 2) }

        mutating func appendLiteral(_ literal: String) { text += literal }
        mutating func appendInterpolation(_ value: String) { text += HTML.escaped(value) }
        mutating func appendInterpolation(_ value: some BinaryInteger) { text += "\(value)" }
        mutating func appendInterpolation(_ part: HTML) { text += part.text }
        mutating func appendInterpolation(_ part: HTML?) { text += part?.text ?? "" }
        mutating func appendInterpolation(_ parts: [HTML]) { for part in parts { text += part.text } }
    }

    /// Safe as text and within the quotes of an attribute.
    private static func escaped(_ text: String) -> String {
        var text = text
        let isPlain = text.withUTF8 { bytes in
            bytes.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "&"), UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "\""), UInt8(ascii: "'"):
                    false
                default: (0x20..<0x7F).contains(byte)
                }
            }
        }
        return isPlain ? text : escapedScalars(text)
    }

    private static func escapedScalars(_ text: String) -> String {
        var result = ""
        result.reserveCapacity(text.utf8.count)
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": result += "&amp;"
            case "<": result += "&lt;"
            case ">": result += "&gt;"
            case "\"": result += "&quot;"
            case "'": result += "&#39;"
            case "\n", "\t": result.unicodeScalars.append(scalar)
            // Control characters are invisible, and some are not allowed in HTML. Marks of direction could make a name
            // look like another one.
            case _ where scalar.properties.generalCategory == .control, "\u{202A}"..."\u{202E}",
                "\u{2066}"..."\u{2069}":
                result += "\u{FFFD}"
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }

    static let empty: HTML = ""

    /// - Parameter address: a path of this server, percent-encoded.
    static func link(_ address: String, _ text: String) -> HTML { "<a href=\"\(address)\">\(text)</a>" }

    /// A time, which the script shows in the reader's zone.
    static func time(_ time: Timestamp) -> HTML {
        let text = CivilTime.text(time)
        return "<time datetime=\"\(text)\">\(String(text.prefix(16).map { $0 == "T" ? " " : $0 })) UTC</time>"
    }

    /// A time in seconds since 1970, as messages have it.
    static func time(_ seconds: Double) -> HTML { time(Timestamp(seconds: seconds)) }

    static func size(_ bytes: Int64) -> HTML { "\(ByteSize.text(bytes))" }

    /// A table with a heading for each column.
    static func table(_ caption: String, _ heads: [String], _ rows: [HTML]) -> HTML {
        """
        <div class="wide"><table><caption class="hidden">\(caption)</caption><thead><tr>\
        \(heads.map { "<th scope=\"col\">\($0)</th>" as HTML })</tr></thead><tbody>\(rows)</tbody></table></div>
        """
    }

    static func row(_ cells: HTML...) -> HTML { "<tr>\(cells.map { "<td>\($0)</td>" as HTML })</tr>" }
}
