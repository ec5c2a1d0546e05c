import Testing
@testable import UbiquityCore

/// Names that other systems cannot hold are found, and stay allowed. AW-12, XA-03.
@Suite struct PortableNameTests {
    private func problems(_ names: String...) throws -> [String: [PortableNames.Problem]] {
        let found = PortableNames.problems(among: try names.map { try ItemName($0) })
        return Dictionary(uniqueKeysWithValues: found.map { ($0.name.description, $0.problems) })
    }

    @Test func portableNamesHaveNoProblems() throws {
        let found = try problems("report.txt", "Console", "com", "com10", "é.txt", ".profile", "a b", "ß")
        #expect(found.isEmpty, "\(found)")
    }

    @Test func namesThatWindowsCannotHoldAreFound() throws {
        let found = try problems("CON", "aux.txt", "Lpt1 .log", "a:b", "what?*?", "dot.", "space ", "a\u{1}b")
        #expect(found["CON"] == [.reserved] && found["aux.txt"] == [.reserved] && found["Lpt1 .log"] == [.reserved])
        #expect(found["a:b"] == [.characters(":")] && found["what?*?"] == [.characters("?*")])
        #expect(found["dot."] == [.trailingDot] && found["space "] == [.trailingSpace])
        #expect(found["a\u{1}b"] == [.controlCharacters])
    }

    @Test func namesThatDifferInCaseOrAccentsAreTwins() throws {
        let composed = "caf\u{e9}", decomposed = "cafe\u{301}"
        let found = PortableNames.problems(
            among: try ["Notes", "notes", "other", composed, decomposed].map { try ItemName($0) })
        #expect(found.count == 4)
        let notes = found.first { $0.name.bytes == Array("Notes".utf8) }
        #expect(notes?.problems == [.twins(["notes"])])
        let accents = found.first { $0.name.bytes == Array(composed.utf8) }
        #expect(accents?.problems == [.twins([decomposed])])
    }

    @Test func namesLongerThanUTF16AllowsAreFound() throws {
        // The longest name of Linux has 255 bytes, so it never has more UTF-16 units.
        #expect(try problems(String(repeating: "x", count: 255)).isEmpty)
    }
}
