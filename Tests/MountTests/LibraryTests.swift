import Testing

/// The library, as a program sees it: the example notes program and others beside it.
@Suite struct LibraryTests {
    private var notes: String { World.program.split(separator: "/").dropLast().map { "/\($0)" }.joined() + "/notes" }

    @Test("PN-02, PN-05, RT-06: a program made with the library saves when it is asked, and hears what happens")
    func notesProgram() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("echo title > note")
            try await world.settle(a, b)
            let editor = try a.start("(echo draft; exec sleep 1000) | exec '\(notes)' edit note")
            func hears(_ line: String) async throws {
                try await world.eventually("the notes program says '\(line)': \(editor.outputSoFar)") {
                    editor.outputSoFar.split(separator: "\n").contains { $0 == line }
                }
            }
            try await hears("noted")
            #expect(try await a.shell("cat note") == "title\ndraft")
            try await hears("saved")
            try await world.settle(a, b)
            try await b.shell("echo from b >> note")
            try await hears("changed: from b")
            #expect(try await a.shell("'\(notes)' show note") == "title\ndraft\nfrom b")
            try await b.shell("mv note moved")
            try await hears("moved to moved")
            try await b.shell("rm moved")
            try await hears("deleted")
        }
    }
}
