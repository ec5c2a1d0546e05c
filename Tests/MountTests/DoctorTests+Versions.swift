import Testing
import UbiquityControl

/// Damage beside the tree: fields of items, versions, and the cloud's knowledge of them.
extension DoctorTests {
    @Test func fieldsOfItemsFollowTheCloud() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("for n in 1 2 3 4 5 6; do echo text $n > f$n; done; setfattr -n user.x -v 1 f3; ln -s to l")
            try await world.settle(a, b)
            try await b.shell("cat f1 f2 f3 f4 f5 > /dev/null")
            let listing = "stat -c '%n %s %f %y' * | sort; getfattr -d f3; cat f* | sha256sum"
            let expected = try await a.shell(listing)
            try await b.unmount()
            func row(_ name: String) -> String {
                "WHERE key = (SELECT item FROM entries WHERE name = CAST('\(name)' AS BLOB))"
            }
            try await sql(
                b.containerState + "/index.db",
                """
                UPDATE items SET mode = 0 \(row("f1")); UPDATE items SET size = 3 \(row("f2"));
                UPDATE items SET xattrs = NULL \(row("f3")); UPDATE items SET modified = 5 \(row("f4"));
                UPDATE items SET version = x'00000000000000000000000000000007' \(row("f5"));
                UPDATE items SET size = 9 \(row("f6"))
                """, in: world)
            try await b.mount()
            try await b.waitUntilIdle()
            let found = try await examine(b, "--check").found
            // The totals of the folder differ from those of the changed items, too.
            let items = found.filter { $0.subject != "index.db" }
            #expect(items.allSatisfy { $0.kind == "item-differs" })
            #expect(Set(items.map(\.subject)) == ["f1", "f2", "f3", "f4", "f5", "f6"], "\(found)")
            let repaired = try await examine(b)
            #expect(repaired.status == 0 && repaired.found.allSatisfy { $0.outcome == .repaired }, "\(repaired)")
            try await world.settle(b, a)
            try await expectWell(b)
            #expect(try await b.shell(listing) == expected)
            #expect(try await a.shell(listing) == expected)
        }
    }

    @Test func conflictsFollowTheCloud() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("echo base > f; echo base > g")
            try await world.settle(a, b)
            try await world.meet(a, "echo loses > f; echo loses > g", b, "echo wins > f; echo wins > g")
            try await a.waitFor("conflict-count", "1", of: "f")
            try await a.waitFor("conflict-count", "1", of: "g")
            try await a.unmount()
            let ofG = "item = (SELECT id FROM remote WHERE name = CAST('g' AS BLOB))"
            try await sql(
                a.containerState + "/index.db",
                "DELETE FROM conflicts WHERE NOT \(ofG); UPDATE conflicts SET size = 1 WHERE \(ofG)", in: world)
            try await a.mount()
            try await a.waitUntilIdle()
            let found = try await examine(a)
            #expect(found.status == 0 && Set(found.found.map { "\($0.kind) \($0.subject)" }) == ["record-differs f", "record-differs g"])
            try await a.waitFor("conflict-count", "1", of: "f")
            #expect(try await a.shell("cat .versions/?/*conflict*") == "loses\nloses")
            try await expectWell(a)
        }
    }

    /// A program that truncated the file still has the earlier content open.
    @Test func restoreOverAnOpenFileIsNoDamage() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("echo one > f")
            try await world.settle(a)
            try await a.shell("echo two > f")
            try await world.settle(a)
            try await a.shell("exec 3> f; mv .versions/f/* f; '\(World.program)' doctor . --check")
            #expect(try await a.shell("cat f") == "one")
            try await world.settle(a)
            try await expectWell(a)
        }
    }

    @Test func lostChunksOfVersionsAreFound() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            func random(_ name: String) -> String { "head -c 900000 /dev/urandom > \(name)" }
            try await a.shell("\(random("f")); \(random("g")); \(random("h"))")
            try await world.settle(a, b)
            let (g, h) = try await chunkFiles(a, "g", "h")
            // No other copy of g's earlier version exists now. Another file on this device has the content of h's.
            try await a.shell("mv h other; \(random("g")); echo newer > h")
            try await world.settle(a, b)
            try await world.meet(a, random("f"), b, random("f"))
            let loser = "\(world.folder)/loser"
            try await a.shell("cp .versions/f/*conflict* '\(loser)'; cp '\(loser)' loser; sync loser")
            let (f, _) = try await chunkFiles(a, "loser", "g")
            try await a.shell("rm loser")
            try await world.settle(a, b)
            try await Tools.python("for path in ['\(f)', '\(g)', '\(h)']: os.unlink(path)", in: world)
            let found = try await examine(b).found
            #expect(Set(found.map { "\($0.kind) \($0.subject.prefix(9))" })
                == ["chunk-missing f, versio", "chunk-missing g, versio", "chunk-missing other"], "\(found)")
            #expect(found.allSatisfy { $0.outcome == .unrepaired }, "\(found)")
            let repaired = try await examine(a).found
            #expect(repaired.filter { $0.outcome == .repaired }.map(\.subject) == ["other"], "\(repaired)")
            #expect(try await examine(a, "--check", "--quick").found.map { $0.subject.prefix(1) } == ["f"])
        }
    }

    @Test func versionLostAtTheCloudIsSentAgain() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("echo content > f; touch -d 2020-02-02 f; echo old > e")
            try await world.settle(a, b)
            try await sql(
                world.cloudData + "/metadata.db",
                "DELETE FROM versions WHERE savedName IN (CAST('f' AS BLOB), CAST('e' AS BLOB))", in: world)
            // Everything else continues, also for a device that reads the cloud for the first time, and edits work as
            // before.
            let c = try await world.mounted("c")
            try await a.shell("echo other > g; echo newer > e; chmod 600 f")
            try await world.settle(a, b, c)
            for device in [b, c] {
                #expect(try await device.shell("cat g e; stat -c %s f") == "other\nnewer\n8")
                #expect(try await device.attempt("cat f").err.contains("Input/output error"))
                let found = try await examine(device)
                #expect(found.status == 1 && found.found.allSatisfy { $0.outcome == .unrepaired })
                #expect(found.found.map { "\($0.kind) \($0.subject)" } == ["version-missing f"], "\(found)")
            }
            let repaired = try await examine(a)
            #expect(repaired.status == 0 && repaired.found.map(\.kind) == ["version-missing"], "\(repaired)")
            try await world.settle(a, b, c)
            for device in [a, b, c] {
                #expect(try await device.shell("cat f; stat -c %.10y f") == "content\n2020-02-02")
                try await expectWell(device)
            }
        }
    }
}
