import Testing
import UbiquityCore

@Suite struct NameTests {
    @Test func namesAreBytes() throws {
        let composed = try ItemName("caf\u{e9}"), decomposed = try ItemName("cafe\u{301}")
        #expect(composed != decomposed)
        #expect(Set([composed, decomposed]).count == 2)
    }

    @Test func invalidNamesAreRefused() {
        #expect(throws: ItemName.Invalid.empty) { try ItemName("") }
        #expect(throws: ItemName.Invalid.tooLong) { try ItemName(String(repeating: "a", count: 256)) }
        #expect(throws: ItemName.Invalid.notUTF8) { try ItemName([0x61, 0xff]) }
        for reserved in [".", "..", "a/b", "a\0b"] {
            #expect(throws: ItemName.Invalid.reserved) { try ItemName(reserved) }
        }
        #expect(throws: ItemName.Invalid.notUTF8) { try ItemName([0x61, 0xc3]) }
        for name in ["...", ".a", "..a", "a..", "\u{7f}", "é"] { #expect(throws: Never.self) { try ItemName(name) } }
    }

    @Test(arguments: [
        ("report.txt", "report 2.txt"), ("a.tar.gz", "a.tar 2.gz"), (".profile", ".profile 2"), ("name", "name 2"),
        ("x.", "x 2."),
    ])
    func numberedNamesKeepTheExtension(_ name: String, _ second: String) throws {
        #expect(try ItemName(name).numbered(2).description == second)
    }

    @Test(arguments: [("notes~", "notes 2~"), ("~", " 2~"), ("#a#", "#a 2#"), ("xä", "x 2ä")])
    func numberedNamesKeepTheEnd(_ name: String, _ second: String) throws {
        #expect(try ItemName(name).numberedBeforeItsEnd(2).description == second)
        let long = try ItemName(String(repeating: "ä", count: 127) + "~").numberedBeforeItsEnd(3)
        #expect(long.bytes.count <= Limits.maximumNameLength && long.description.hasSuffix("ä 3~"))
    }

    @Test(arguments: [
        "tmpa1b2c3d4", "tmp.Xy12Zw", ".tmpAbC123", "report.txt.tmp", "index.lock", "a.new", "sedA1b2C3", "x.PART",
    ])
    func temporaryNamesAreRecognized(_ name: String) throws { #expect(try ItemName(name).isMadeUp) }

    @Test(arguments: ["tmp", "template", "notes", "sedation", "sediments", "new", "report.txt", ".lock", "a.news"])
    func ordinaryNamesAreNotTemporary(_ name: String) throws { #expect(try !ItemName(name).isMadeUp) }

    @Test(arguments: [
        ("f.txt.new", ["f.txt"]), (".f.txt.aB3xYz", ["f.txt.aB3xYz", "f.txt"]), ("f.txt1732", ["f.txt"]),
        ("f.txt-2.bak", ["f.txt-2", "f.txt"]), ("f.txt", []), ("README.md", []), ("a", []), (".", []), ("~.~", []),
        ("#f.txt#", ["f.txt#", "f.txt"]), ("a.b.c.d.e.f.g", ["a.b.c.d.e.f", "a.b.c.d.e", "a.b.c.d", "a.b.c"]),
    ])
    func documentsOfATemporaryName(_ name: String, _ documents: [String]) {
        #expect(ItemName(stored: Array(name.utf8)).possibleDocuments.map(\.description) == documents)
    }

    @Test func longSecondNameFitsAndStaysUTF8() throws {
        let name = try ItemName(String(repeating: "ä", count: 125) + ".txt")
        let second = name.numbered(12)
        #expect(second.bytes.count <= Limits.maximumNameLength)
        #expect(String(validating: second.bytes, as: UTF8.self)?.hasSuffix("ä 12.txt") == true)
        let onlySuffix = try ItemName("a." + String(repeating: "b", count: 253)).numbered(3)
        #expect(onlySuffix.bytes.count <= Limits.maximumNameLength)
    }
}
