import Testing

/// Folders that are one document, on two devices.
@Suite struct PackageTests {
    /// How the package looks on a device: a letter for each member that has one, all the same in a whole state.
    private static let letters = "cat *.pages/* 2>/dev/null | fold -w1 | sort -u | tr -d '\\n'"

    @Test func aPackageIsSeenInOneState() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            let save = { (letter: String) in
                "mkdir -p d.pages; for n in $(seq 12); do head -c 200000 /dev/zero | tr '\\0' \(letter) > d.pages/$n; done"
            }
            try await a.shell(save("x"))
            try await world.settle(a, b)
            #expect(try await b.shell("ls d.pages | wc -l; \(Self.letters)") == "12\nx")
            #expect(try await b.attribute("is-package", of: "d.pages") == "1")
            #expect(try await b.attribute("downloading-status", of: "d.pages") == "current")
            // Reads all the time while the other device saves.
            let (seenFile, end) = ("\(world.folder)/seen", "\(world.folder)/end")
            let watching = try b.start("until [ -e '\(end)' ]; do \(Self.letters); echo; done > '\(seenFile)'")
            func isSeen(_ letters: String) async throws -> Bool {
                try await world.attempt(["grep", "-qx", letters, seenFile]).status == 0
            }
            try await world.eventually("the old state is seen") { try await isSeen("x") }
            try await a.shell(save("y") + "; rm d.pages/12; echo -n y > d.pages/new")
            try await world.settle(a, b)
            try await world.eventually("the new state is seen") { try await isSeen("y") }
            try await world.shell(": > '\(end)'")
            _ = try await watching.finish()
            #expect(try await b.shell("ls d.pages | wc -l; \(Self.letters)") == "12\ny")
            let seen = try await world.shell("sort -u '\(seenFile)' | grep -v '^$' | tr '\\n' ' '")
            // One pass over the files may begin before the exchange and end after it.
            #expect(["x xy y ", "x y "].contains(seen), "\(seen)")
            #expect(try await world.shell("grep -c '^xy$' '\(seenFile)' || :") <= "1")
        }
    }

    @Test func aMarkMakesAFolderAPackage() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkdir d; setfattr -n user.ubiquity.package -v 1 d; echo 1 > d/1; cp -a d e")
            try await world.settle(a, b)
            for path in ["d", "e"] {
                #expect(try await b.attribute("is-package", of: path) == "1")
                #expect(try await a.attribute("is-uploaded", of: path) == "1")
            }
            try await a.ubiquity("offline", "")
            try await a.shell("echo 2 > d/2")
            #expect(try await a.attribute("is-uploaded", of: "d") == "0")
            try await b.shell("setfattr -x user.ubiquity.package e")
            #expect(try await b.attribute("is-package", of: "e") == "0")
        }
    }
}
