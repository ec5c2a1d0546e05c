import Logging
import Testing
@testable import UbiquityDaemon

@Suite struct LogLineTests {
    /// A name, a device or a message of a cloud that looks like the beginning of a log line.
    @Test func hostileTextForgesNoLine() {
        let hostile = "a\r\n2026-01-01T00:00:00Z error ubiquity: forged\u{1B}[2J\u{85}\u{2028}\u{202E}"
        let text = LineLogHandler.text(hostile, ["item": "\(hostile)", "reason": ["\(hostile)"]])
        let hasNewline = text.contains { $0.isNewline }
        #expect(!hasNewline)
        let isPlain = text.unicodeScalars.allSatisfy { (0x20..<0x7F).contains($0.value) }
        #expect(isPlain)
    }
}
