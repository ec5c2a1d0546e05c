import Testing
import UbiquityControl

/// Resolutions by a merge command, the trash or another file.
extension VersionTests {
    /// Nothing, one side, or the other: the losing content is kept in any case.
    @Test func mergeCommandMayWriteEitherSideOrNothing() async throws {
        try await World.run { world in
            try await world.shell(
                """
                cd "$HOME"; mkdir -p .config/ubiquity
                cat > .config/ubiquity/config <<'END'
                merge.none = true
                merge.ours = sh -c 'cp "$2" "$4"' merge
                merge.theirs = sh -c 'cp "$3" "$4"' merge
                END
                """)
            let (a, b) = (try await world.mounted("laptop"), try await world.mounted("desk"))
            let files = "f.none f.ours f.theirs"
            try await a.shell("for f in \(files); do echo base > $f; done")
            try await world.settle(a, b)
            try await world.meet(a, "for f in \(files); do echo a > $f; done", b, "for f in \(files); do echo b > $f; done")
            try await a.waitFor("conflict-count", "0", of: "f.ours")
            try await a.waitFor("conflict-count", "0", of: "f.theirs")
            try await world.eventually("the reason is shown") {
                try await a.ubiquity("versions", "f.none").out.contains("(not merged: ")
            }
            try await world.settle(a, b)
            for device in [a, b] {
                try await device.waitUntil("test \"$(cat \(files))\" = 'b\nb\na'")
                for (name, count) in [("f.none", "1"), ("f.ours", "0"), ("f.theirs", "0")] {
                    #expect(try await device.attribute("conflict-count", of: name) == count, "\(name) on \(device.name)")
                }
                #expect(try await device.shell("cat .versions/f.none/*conflict* .versions/f.theirs/*desk*") == "a\nb")
                let listed = try await device.ubiquity("versions", "f.ours", options: ["--json"]).text
                let versions = try ControlCodec.decode(VersionsReport.self, from: listed.utf8).versions
                let resolved = try #require(versions.first { $0.kind == .resolved }).id
                try await device.shell("'\(World.program)' restore f.ours \(resolved) --to '\(device.name)'")
                #expect(try await device.shell("cat '\(device.name)'") == "a")
            }
        }
    }

    /// The other device may be gone, or have no command. It has time to merge; the test advances this device's clock
    /// past that time.
    @Test func winningDeviceMergesForAnAbsentLoser() async throws {
        try await World.run { world in
            try await world.shell(
                """
                cd "$HOME"; mkdir -p .config/ubiquity; echo +0 > clock
                echo 'merge.txt = sh "$HOME/merge"' > .config/ubiquity/config
                echo 'cat "$2" "$3" > "$4"' > merge
                """)
            let (a, b) = (try world.device("a"), try world.device("b"))
            try await a.mount(environment: ["XDG_CONFIG_HOME": world.folder + "/none"])
            try await b.mount(environment: world.shiftedClock([
                "FAKETIME_TIMESTAMP_FILE": world.folder + "/clock", "FAKETIME_NO_CACHE": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "0",
            ]))
            try await a.shell("for f in one.txt two.txt other; do echo base > $f; done")
            try await world.settle(a, b)
            try await b.shell("cat other")
            // `b` has lost the second conflict. When that one is merged, the device has checked the first as well.
            try await world.meet(
                a, "echo a > one.txt; echo a > two.txt", b, "echo b > one.txt; echo b > two.txt; touch -d 2020-01-01 two.txt")
            try await a.waitUntil("test \"$(cat two.txt)\" = 'a\nb'")
            for device in [a, b] { #expect(try await device.attribute("conflict-count", of: "one.txt") == "1") }
            // A remote change triggers another check.
            try await world.shell("cd \"$HOME\"; echo +20s > later; mv later clock")
            try await a.shell("echo news > other")
            for device in [a, b] { try await device.waitUntil("test \"$(cat one.txt)\" = 'b\na'") }
            try await world.settle(a, b)
            for device in [a, b] { #expect(try await device.attribute("conflict-count", of: ".") == "0") }
        }
    }

    /// The trash reports it. Scripts get all of that in JSON.
    @Test func conflictIsRestoredFromTheTrash() async throws {
        try await World.run { world in
            let (a, b) = try await devices(world)
            try await a.shell("echo gone > gone")
            try await conflict(world, a, b, "1")
            try await a.shell("rm gone Documents/report.txt")
            try await world.settle(a, b)
            for device in [a, b] {
                let told = try await device.ubiquity("trash", "", options: ["list"])
                #expect(told.out.contains("Documents/report.txt  (1 conflict version)\n"), "\(told)")
            }
            let listed = try await b.ubiquity("trash", "", options: ["list", "--json"]).out
            let entries = try listed.split(separator: "\n").map { try ControlCodec.decode(TrashEntry.self, from: $0.utf8) }
            #expect(entries.map { "\($0.path) \($0.kind) \($0.size) \($0.conflicts ?? -1)" }.sorted()
                == ["Documents/report.txt file 4 1", "gone file 5 0"])

            let path = a.mountPoint + "/Documents/report.txt"
            let restored = try await world.ubiquity("trash", "restore", "--json", path).text
            #expect(
                try ControlCodec.decode(TrashRestoreReport.self, from: restored.utf8)
                    == TrashRestoreReport(path: "Documents/report.txt", items: 1))
            try await world.settle(a, b)
            for device in [a, b] {
                #expect(try await device.attribute("conflict-count", of: "Documents/report.txt") == "1")
                #expect(try await device.shell("cat Documents/report.txt \(Self.folder)/*conflict*") == "b 1\na 1")
            }

            let resolved = try await world.ubiquity("resolve", "--keep", "both", "--json", path).text
            let report = try ControlCodec.decode(ResolveReport.self, from: resolved.utf8)
            #expect(report.path == path && report.resolved == 1, "\(report)")
            #expect(report.kept == ["Documents/report (laptop).txt"])
            try await world.settle(a, b)
            try await expectResolved(a, b)
            for device in [a, b] { #expect(try await device.shell("cat Documents/*") == "a 1\nb 1") }

            // Under an ignored name the document would exist only here, and the version nowhere.
            try await conflict(world, a, b, "2")
            try await a.shell("echo '*.txt' > Documents/.ubiquityignore")
            let refused = try await world.ubiquity("resolve", "--keep", "both", path)
            #expect(refused.status == 1 && refused.err.contains("an ignore rule excludes this name"), "\(refused)")
            #expect(try await a.attribute("conflict-count", of: "Documents/report.txt") == "1")
            #expect(try await a.shell("cat Documents/*") == "a 1\nb 2")
        }
    }

    /// The target stays the same item: it is not replaced by another one.
    @Test func versionMovedOverAnotherFileBecomesItsNextVersion() async throws {
        try await World.run { world in
            let (a, b) = try await devices(world)
            try await a.shell("mkdir Documents/folder; echo old > Documents/other.txt")
            try await conflict(world, a, b, "1")
            let item = try await b.attribute("item-id", of: "Documents/other.txt")
            try await b.python(
                """
                entries = [name for name in os.listdir('\(Self.folder)') if 'conflict' in name]
                version = '\(Self.folder)/' + entries[0]
                fails('EISDIR', lambda: os.rename(version, 'Documents/folder'))
                os.rename(version, 'Documents/other.txt')
                """)
            try await world.settle(b, a)
            try await expectResolved(a, b)
            for device in [a, b] {
                try await device.waitUntil("test \"$(cat Documents/other.txt)\" = 'a 1'")
                #expect(try await device.attribute("item-id", of: "Documents/other.txt") == item, "\(device.name)")
                #expect(try await device.shell("cat Documents/report.txt Documents/.versions/other.txt/*") == "b 1\nold")
                #expect(try await device.shell("ls Documents") == "folder\nother.txt\nreport.txt")
            }
        }
    }
}
