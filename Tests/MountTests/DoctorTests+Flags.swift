import Testing
import UbiquityControl

/// Wrong marks in the index: above all those that would keep an edit on one device.
extension DoctorTests {
    private static func row(_ name: String) -> String {
        "WHERE key = (SELECT item FROM entries WHERE name = CAST('\(name)' AS BLOB))"
    }

    /// The next mount itself finds missing texts of rules and wrong counters.
    private static func isSilent(_ damage: String) -> Bool {
        damage.contains("ignore/") || damage.contains("'numbers'")
    }

    private static let unknownID = "x'07070707070707070707070707070707'"

    @Test(arguments: [
        // The mark "excluded": on an edited file, an unedited one, a new one, a folder, and names of a file.
        "UPDATE items SET flags = flags | 4 \(row("edited"))",
        "UPDATE items SET flags = flags | 4, dirty = 0 \(row("edited"))",
        "UPDATE items SET flags = flags | 4 \(row("f"))",
        "UPDATE items SET flags = flags | 4 \(row("new"))",
        "UPDATE items SET flags = flags | 4, dirty = 0 \(row("new"))",
        "UPDATE items SET flags = flags | 4 \(row("d"))",
        "UPDATE items SET flags = flags | 4 \(row("g"))",
        "UPDATE items SET flags = flags | 4 \(row("hard"))",
        "UPDATE items SET flags = flags | 4",
        // Nothing says that the edit must be uploaded.
        "UPDATE items SET dirty = 0 \(row("edited"))",
        // The mark "deleted elsewhere, and still needed here".
        "UPDATE items SET flags = flags | 32 \(row("f"))",
        "UPDATE items SET flags = flags | 32 \(row("edited"))",
        "UPDATE items SET flags = flags | 32 \(row("d"))",
        // The mark "not yet worth a version"; and a mark without a meaning.
        "UPDATE items SET flags = flags | 128 \(row("edited"))",
        "UPDATE items SET flags = flags | 1 << 20 \(row("f"))",
        // Excluded items are not synced.
        "UPDATE items SET flags = flags & ~4 \(row("a.local"))",
        "UPDATE items SET flags = flags & ~4 \(row("build.local"))",
        "UPDATE items SET flags = flags & ~4 \(row("inner"))",
        "UPDATE items SET flags = flags & ~4 \(row("std.local~"))",
        "UPDATE items SET flags = flags & ~4 \(row("n.local~"))",
        "DELETE FROM entries WHERE name = CAST('d' AS BLOB)",
        "UPDATE items SET flags = flags & ~4",
        // The rules are lost, or their file has lost its place for a moment.
        "DELETE FROM meta WHERE name LIKE 'ignore/%' ", "UPDATE items SET key = -1 \(row(".ubiquityignore"))",
        // Invalid and impossible numbers.
        "UPDATE items SET ino = -1 \(row("f"))", "UPDATE items SET ino = 'text' \(row("d"))",
        "UPDATE items SET id = randomblob(16) WHERE key = 1", "UPDATE items SET dirty = x'0102' \(row("edited"))",
        "UPDATE items SET dirtyOrder = 1 << 62 \(row("new"))", "UPDATE items SET key = 1 << 62 \(row("f"))",
        // Names without a target.
        "UPDATE items SET link = \(unknownID) \(row("hard"))", "UPDATE items SET link = NULL \(row("hard"))",
        "UPDATE items SET link = (SELECT id FROM items \(row("d"))) \(row("hard"))",
        "UPDATE items SET link = (SELECT id FROM items \(row("a.local"))) \(row("hard"))",
        "UPDATE items SET id = \(unknownID) \(row("g"))",
        "UPDATE items SET id = x'00' \(row("g")); UPDATE remote SET kind = 77 WHERE name = CAST('g' AS BLOB)",
        // Damage that only the repair of another one reveals.
        "UPDATE items SET version = 'text' \(row("f"))", "UPDATE items SET dirty = -1 \(row("f"))",
        "UPDATE items SET dirty = -1 \(row("new"))", "UPDATE items SET dirty = -1 \(row("d"))",
        "UPDATE items SET dirtyBase = -1 \(row("edited"))", "UPDATE meta SET value = -1 WHERE name = 'incarnation' ",
        "UPDATE items SET dirty = 0 WHERE dirty & 64", "UPDATE items SET version = NULL \(row("f"))",
        "UPDATE meta SET value = -1 WHERE name = 'revision' ", "UPDATE items SET kind = 1 \(row("nd"))",
        "UPDATE items SET content = 7777 \(row("nd"))", "UPDATE items SET kind = 1 \(row("empty"))",
        "UPDATE meta SET value = 1 << 61 WHERE name = 'numbers' ",
        "UPDATE meta SET value = 1 << 60 WHERE name = 'revision' ",
        // A link to a link does not make a folder of it.
        "UPDATE entries SET parent = (SELECT key FROM items \(row("link"))) WHERE name = CAST('d' AS BLOB)",
        "UPDATE items SET content = NULL \(row("new"))", "UPDATE items SET content = -1 \(row("new"))",
        "UPDATE items SET content = (SELECT content FROM items \(row("f"))) \(row("new"))",
        "UPDATE entries SET item = 1 << 50 WHERE name = CAST('f' AS BLOB)",
        "UPDATE entries SET parent = 1 << 50 WHERE name = CAST('d' AS BLOB)",
    ])
    func wrongMarksAreFound(damage: String) async throws { try await findWrongMarks(damage, isKilled: false) }

    /// Leftovers of a killed daemon are no damage then.
    @Test(arguments: [
        "UPDATE items SET content = NULL \(row("new"))", "UPDATE items SET content = -1 \(row("new"))",
        "UPDATE items SET content = (SELECT content FROM items \(row("f"))) \(row("new"))",
        "UPDATE items SET kind = 3 \(row("new"))", "UPDATE items SET content = NULL \(row("edited"))",
        "UPDATE items SET content = NULL \(row("over"))", "UPDATE items SET content = -1 \(row("over"))",
    ])
    func wrongMarksAreFoundAfterAKill(damage: String) async throws { try await findWrongMarks(damage, isKilled: true) }

    private func findWrongMarks(_ damage: String, isKilled: Bool) async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell(
                """
                echo '*.local' > .ubiquityignore; echo f > f; echo base > edited; mkdir d; echo x > d/x; echo g > g; echo was > over
                ln g hard; echo local > a.local; mkdir build.local; echo inner > build.local/inner
                echo in > d/in.local; mkdir std.local~; echo i > std.local~/i; echo two > 'n.local~'; ln 'n.local~' name
                """)
            try await world.settle(a)
            try await a.ubiquity("offline", "")
            try await a.shell(
                """
                echo more >> edited; echo new > new; sync edited new; echo gone > gone; rm gone
                mkdir nd empty; echo n > nd/n; ln -s to link; echo saved > t; sync t; mv t over
                """)
            let list = "find . ! -path '*.local*' | sort; cat f edited d/x g hard new name over $(ls nd/n); readlink link; stat -c %h g"
            let local = "cat a.local build.local/inner d/in.local std.local~/i n.local~"
            let before = try await a.shell(list)
            if isKilled { try await a.kill() } else { try await a.unmount() }
            let healthy = try await examineUnmounted(a, "--check")
            #expect(healthy.found == [], "\(healthy)")
            try await sql(a.containerState + "/index.db", damage, in: world)
            let found = try await examineUnmounted(a, "--check")
            #expect(found.status == 1 && !found.found.isEmpty || Self.isSilent(damage), "\(found)")
            let repaired = try await examineUnmounted(a)
            #expect(repaired.status == 0 && repaired.found.allSatisfy { $0.outcome == .repaired }, "\(repaired)")
            #expect(try await examineUnmounted(a, "--check").found == [])
            try await a.mount()
            try await world.settle(a)
            #expect(try await a.shell(list) == before)
            #expect(try await a.shell(local) == "local\ninner\nin\ni\ntwo")
            let b = try await world.mounted("b")
            try await b.waitUntilIdle()
            #expect(try await b.shell(list) == before)
            #expect(try await b.shell("find . -name '*.local*' | grep -c . || true") == "0")
            // From then on they are in sync.
            try await a.shell("echo again >> f; echo again >> edited; echo again > d/y; echo again >> hard")
            try await world.settle(a, b)
            #expect(try await b.shell("tail -qn1 f edited d/y g | sort | uniq -c | tr -s ' '") == " 4 again")
            try await expectWell(a)
        }
    }
}
