import Testing
import UbiquityControl

@Suite struct PlainTextTests {
    private static let ranges: [ClosedRange<UInt32>] = [
        0...0x1F, 0x7F...0x9F, 0x61C...0x61C, 0x200E...0x200F, 0x2028...0x2029, 0x202A...0x202E, 0x2066...0x2069,
    ]
    private static var unsafe: [Unicode.Scalar] { ranges.flatMap { $0.compactMap { Unicode.Scalar($0) } } }

    @Test func unsafeScalarsAreWrittenInASCII() {
        for scalar in Self.unsafe {
            let escaped = PlainText.escaped("a\(Character(scalar))b")
            #expect(escaped.utf8.allSatisfy { (0x20..<0x7F).contains($0) }, "U+\(String(scalar.value, radix: 16))")
            #expect(escaped.hasPrefix("a\\") && escaped.hasSuffix("b"))
        }
        // A carriage return and a line feed are one character to Swift.
        #expect(PlainText.escaped("a\r\nb") == "a\\r\\nb")
    }

    @Test func otherTextStaysAsItIs() {
        for text in ["", "Zoë ✓ 日本 עברית.txt", "back\\slash", "👩\u{200D}💻"] { #expect(PlainText.escaped(text) == text) }
    }

    @Test func onlyTheKeptSequencesReachTheTerminal() {
        let red = "\u{1B}[31m", end = "\u{1B}[0m"
        let text = "\(red)a\u{1B}]0;title\u{7}\r\n\(end)\u{1B}[2J"
        #expect(
            PlainText.escaped(text, keeping: [red, end]) == "\(red)a\\u{1B}]0;title\\u{07}\\r\\n\(end)\\u{1B}[2J")
    }

    @Test func linesOfAPageStay() {
        #expect(PlainText.escapedLines("a\nb\u{1B}c\n") == "a\nb\\u{1B}c\n")
    }

    @Test func escapedJSONIsTheSameJSON() throws {
        let texts = ["a\u{202E}b\u{85}\u{7F}", "\u{2028}\u{1B}[2J\r\n", "ä \u{1F600} \\ \" /"]
        let json = PlainText.escapedJSON(String(decoding: try ControlCodec.encode(texts), as: UTF8.self))
        #expect(try ControlCodec.decode([String].self, from: json.utf8) == texts)
        #expect(PlainText.escaped(json) == json && json.contains("\\u202e") && json.contains("\\u007f"))
    }
}
