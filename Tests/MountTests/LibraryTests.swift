import Testing

/// The library in programs: the example notes program and others.
@Suite struct LibraryTests {
    private var notes: String { World.program.split(separator: "/").dropLast().map { "/\($0)" }.joined() + "/notes" }

    @Test("PN-02, PN-05, RT-06: a library program saves on request, and gets notifications")
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
            try await hears("added")
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

    @Test("the example: packages with previews, late conflict resolution, an unmount and a remount")
    func notesExample() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkfifo ../typed; echo first > plan")
            try await world.settle(a, b)
            func edit(_ note: String) throws -> Command { try a.start("exec '\(notes)' edit \(note) <> ../typed") }
            func type(_ line: String) async throws { try await world.shell("echo '\(line)' > '\(world.folder)/typed'") }
            func hears(_ line: String, _ editor: Command) async throws {
                try await world.eventually("the notes program says '\(line)': \(editor.outputSoFar)") {
                    editor.outputSoFar.split(separator: "\n").contains { $0.hasPrefix(line) }
                }
            }
            let trip = try edit("trip.textbundle")
            try await hears("open", trip)
            try await type("To the lake")
            try await hears("added", trip)
            #expect(try await a.shell("cat trip.textbundle/text.md") == "To the lake")
            trip.signal(9)
            try await world.settle(a, b)
            #expect(try await b.shell("'\(notes)' list .") == "  plan: first\n  trip.textbundle: To the lake")

            let plan = try edit("plan")
            try await hears("open", plan)
            try await type("mine")
            try await hears("added", plan)
            try await b.shell("echo theirs > plan")
            try await hears("in conflict", plan)
            try await world.settle(a, b)
            #expect(try await b.shell("'\(notes)' list .").hasPrefix("! plan: "))
            try await type(":merge")
            try await hears("conflict resolved", plan)
            try await world.settle(a, b)
            #expect(try await Set(b.shell("'\(notes)' show plan").split(separator: "\n")) == ["first", "mine", "theirs"])
            #expect(try await b.attribute("conflict-count", of: "plan") == "0")

            try await mergePackage(world, a, b)

            try await a.kill()
            try await hears("away", plan)
            try await type("typed meanwhile")
            try await a.mount()
            try await a.waitUntil("grep -q 'typed meanwhile' plan")
            try await hears("ready", plan)
        }
    }

    /// Both devices add to one package concurrently; ':merge' adds the lines of the losing state.
    private func mergePackage(_ world: World, _ a: Device, _ b: Device) async throws {
        try await b.shell("cat trip.textbundle/*")
        try await world.meet(a, "echo 'by a' >> trip.textbundle/text.md", b, "echo 'by b' >> trip.textbundle/text.md")
        try await b.waitFor("conflict-count", "1", of: "trip.textbundle")
        let editor = try b.start("(echo :merge; exec sleep 1000) | exec '\(notes)' edit trip.textbundle")
        try await world.eventually("it is resolved: \(editor.outputSoFar)") {
            editor.outputSoFar.contains("conflict resolved")
        }
        try await world.settle(a, b)
        let lines = try await a.shell("cat trip.textbundle/text.md").split(separator: "\n")
        #expect(Set(lines) == ["To the lake", "by a", "by b"])
        #expect(try await a.attribute("conflict-count", of: "trip.textbundle") == "0")
        editor.signal(9)
    }
}
