/// The HTML of a page. Interpolated text is escaped, unless it is HTML itself.
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
        mutating func appendInterpolation(_ parts: [HTML]) { for part in parts { text += part.text } }
    }

    /// Safe as text and within the quotes of an attribute.
    private static func escaped(_ text: String) -> String {
        var result = ""
        result.reserveCapacity(text.utf8.count)
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": result += "&amp;"
            case "<": result += "&lt;"
            case ">": result += "&gt;"
            case "\"": result += "&quot;"
            case "'": result += "&#39;"
            // Control characters are invisible, and some are not allowed in HTML.
            case _ where scalar.properties.generalCategory == .control: result += "\u{FFFD}"
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }

    static let empty: HTML = ""

    static func table(_ heads: [String], _ rows: [HTML]) -> HTML {
        "<table><tr>\(heads.map { "<th>\($0)</th>" as HTML })</tr>\(rows)</table>"
    }

    static func row(_ cells: HTML...) -> HTML { "<tr>\(cells.map { "<td>\($0)</td>" as HTML })</tr>" }

    /// - Parameter address: a path of this server, percent-encoded.
    static func link(_ address: String, _ text: String) -> HTML { "<a href=\"\(address)\">\(text)</a>" }

    /// A whole page.
    static func page(_ title: String, _ body: HTML) -> HTML {
        """
        <!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
        <meta name="referrer" content="no-referrer">
        <title>\(title)</title><style>
        body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:75em;padding:0 1em}
        table{border-collapse:collapse;margin:.5em 0 1.5em}td,th{padding:.2em 1em .2em 0;text-align:left;
        border-bottom:1px solid #8884;vertical-align:top}td{overflow-wrap:anywhere}@media(prefers-color-scheme:dark)
        {body{background:#181818;color:#ddd}a{color:#8bf}}</style>
        <h1>\(title)</h1>
        \(body)</html>

        """
    }
}
