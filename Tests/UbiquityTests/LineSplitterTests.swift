import Testing
import Ubiquity
import UbiquityCore

@Suite struct LineSplitterTests {
    private func lines(_ parts: [String]) throws -> [String] {
        var splitter = LineSplitter()
        return try parts.flatMap { try splitter.lines(adding: $0.utf8) }.map { String(decoding: $0, as: UTF8.self) }
    }

    @Test func linesAreIndependentOfTheParts() throws {
        let whole = "a\nbc\r\n\nlast"
        #expect(try lines([whole]) == ["a", "bc", ""])
        #expect(try lines(whole.map(String.init)) == ["a", "bc", ""])
        #expect(try lines([whole, "\n"]) == ["a", "bc", "", "last"])
    }

    @Test func endlessLineIsRefused() {
        var splitter = LineSplitter()
        #expect(throws: UbiquityError.self) {
            for _ in 0..<5 { _ = try splitter.lines(adding: [UInt8](repeating: 65, count: 1 << 20)) }
        }
    }
}
