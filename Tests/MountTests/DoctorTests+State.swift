import Foundation
import Testing
import UbiquityControl

/// A state folder after a kill of its daemon, and wrong things in the place of its files.
extension DoctorTests {
    /// Files that a killed daemon was about to remove, or had just made, are no damage: the next mount removes them.
    @Test func leftoversOfAKillAreNoDamage() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("for n in 1 2 3 4; do head -c 50005 /dev/urandom > f$n; done; echo x > ../outside")
            try await world.settle(a)
            try await a.shell("rm f1; mv f2 f3; head -c 60006 /dev/urandom > f4; sync f4; echo other > new; sync new")
            let ready = "\(world.folder)/ready"
            let held = try a.start("exec 3> held; head -c 3000 /dev/urandom >&3; rm held; touch '\(ready)'; exec sleep 60")
            try await a.waitUntil("test -e '\(ready)'")
            try await a.kill()
            held.signal(SIGKILL)
            let contents = "find '\(a.containerState)/content' -type f -size +0 | wc -l"
            let left = try #require(Int(try await world.shell(contents)))
            #expect(left > 3, "the daemon had removed all before it was killed")
            for options in [["--check"], ["--check"], [], ["--check"]] {
                let outcome = try await world.attempt(
                    [World.program, "doctor", "--state", a.state, "--json"] + options)
                #expect(outcome.status == 0 && !outcome.out.contains("\"kind\""), "\(options): \(outcome)")
            }
            try await a.mount()
            try await world.settle(a)
            #expect(try await world.shell(contents) == "3")
            try await expectWell(a)
        }
    }

    /// A content that lost its item otherwise is reported even then.
    @Test func contentWithoutItemIsKept() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("head -c 50005 /dev/urandom > f; sync f")
            try await world.settle(a)
            try await a.unmount()
            try await a.mount()
            try await a.kill()
            // The write-ahead log is removed with the last connection.
            try await sql(
                a.containerState + "/index.db",
                "DELETE FROM items WHERE key = (SELECT item FROM entries WHERE name = CAST('f' AS BLOB))", in: world)
            let found = try await examineUnmounted(a)
            #expect(found.found.contains { $0.kind == "content-unused" }, "\(found)")
            #expect(try await world.shell("find '\(a.containerState)/set-aside' -size 50005c | wc -l") == "1")
            try await a.mount()
            try await world.settle(a)
            #expect(try await a.shell("wc -c < f") == "50005")
            try await expectWell(a)
        }
    }

    /// A check does not consume the finding.
    @Test func lostJournalIsReportedUntilRepaired() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await world.settle(a)
            try await a.unmount()
            try await a.mount()
            try await a.ubiquity("offline", "")
            try await a.shell("for n in 1 2 3; do head -c 50005 /dev/urandom > unsent$n; sync unsent$n; done")
            try await a.kill()
            try await world.shell("truncate -s 1000 '\(a.containerState)/index.journal'")
            for _ in 1...2 {
                let found = try await examineUnmounted(a, "--check")
                #expect(found.status == 1 && found.found.first?.kind == "journal-damaged", "\(found)")
            }
            let repaired = try await examineUnmounted(a)
            #expect(repaired.status == 0 && repaired.found.first?.kind == "journal-damaged", "\(repaired)")
            #expect(try await examineUnmounted(a, "--check").found == [])
            try await a.mount()
            let kept = try await world.shell(
                "find '\(a.containerState)/set-aside' '\(a.mountPoint)' -size 50005c | wc -l")
            #expect(kept == "3")
        }
    }

    /// Opening a pipe would block for ever.
    @Test(arguments: [
        ("index.db", "mkfifo"), ("index.db", "mkdir"), ("index.db", "ln -s nowhere/at/all"),
        ("index.journal", "mkfifo"), ("index.journal", "mkdir"), ("index.journal", "ln -s nowhere/at/all"),
    ])
    func nonFilesInTheStateFolderAreSetAside(name: String, plant: String) async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("mkdir d; echo x > d/x")
            try await world.settle(a)
            try await a.unmount()
            let path = "\(a.containerState)/\(name)"
            try await world.shell("rm '\(path)'; \(plant) '\(path)'")
            let mounted = try await a.tryMount([])
            #expect(mounted.status != 0 && mounted.err.contains(name), "\(mounted)")
            let found = try await examineUnmounted(a, "--check")
            #expect(found.status == 1 && found.found.count == 1, "\(found)")
            let repaired = try await examineUnmounted(a)
            #expect(repaired.status == 0 && repaired.found.allSatisfy { $0.outcome == .repaired }, "\(repaired)")
            #expect(try await examineUnmounted(a, "--check").found == [])
            try await a.mount()
            try await world.settle(a)
            #expect(try await a.shell("cat d/x") == "x")
            try await expectWell(a)
        }
    }

    @Test func pipeInTheStateFolderBlocksNobody() async throws {
        try await World.run { world in
            let a = try await world.mounted("a"), b = try await world.mounted("b")
            try await a.shell("head -c 50005 /dev/urandom > f")
            let sum = try await a.shell("sha256sum f")
            try await world.settle(a, b)
            let (chunk, _) = try await chunkFiles(a, "f", "f")
            let content = try await world.shell("find '\(a.containerState)/content' -type f -size 50005c")
            try await world.shell("rm '\(chunk)'; mkfifo '\(chunk)'")
            // The cloud reports that it lacks the content, and gets it again from the device that has it.
            let read = try await b.attempt("timeout 20 cat f > /dev/null")
            #expect(read.status != 0 && read.status != 124, "\(read)")
            let found = try await examine(a)
            #expect(found.found.map(\.kind) == ["chunk-missing"] && found.found.first?.outcome == .repaired, "\(found)")
            #expect(try await b.shell("sha256sum f") == sum)
            try await a.kill()
            try await world.shell("rm '\(content)'; mkfifo '\(content)'")
            try await a.mount()
            let failed = try await a.attempt("timeout 20 cat f > /dev/null")
            #expect(failed.status != 0 && failed.status != 124, "\(failed)")
            #expect(try await examine(a).found.map(\.kind) == ["content-missing"])
            #expect(try await a.shell("sha256sum f") == sum)
            try await a.unmount()
            let lock = "\(a.containerState)/lock"
            try await world.shell("rm '\(lock)'; mkfifo '\(lock)'")
            let refused = try await a.tryMount([])
            #expect(refused.status != 0 && refused.err.contains("lock") && refused.err.contains("move it away"), "\(refused)")
            try await world.shell("rm '\(lock)'")
            try await a.mount()
            try await expectWell(a)
        }
    }

    /// Even if others have made changes meanwhile: none of them notices.
    @Test func impossibleFeedPositionAffectsNoOtherDevice() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("echo 1 > f; echo gone > gone")
            try await world.settle(a, b)
            try await b.ubiquity("offline", "")
            try await b.shell("rm gone")
            try await a.unmount()
            try await sql(a.containerState + "/index.db", "UPDATE meta SET value = 1 << 60 WHERE name = 'revision' ", in: world)
            let c = try await world.mounted("c")
            try await c.shell("echo 2 > f")
            try await world.settle(c)
            for options in [["--check"], []] {
                let found = try await world.attempt([World.program, "doctor", "--state", a.state, "--json"] + options)
                #expect(found.out.contains("its position is beyond the end of the cloud's feed"), "\(found)")
            }
            #expect(try await examineUnmounted(a, "--check").found == [])
            try await a.mount()
            try await b.ubiquity("online", "")
            try await world.settle(b, a, c)
            for device in [a, b, c] { #expect(try await device.shell("cat f; ls") == "2\nf") }
        }
    }

    /// The tables themselves differ from the format.
    @Test(arguments: [
        ("PRAGMA user_version = 5", "declares format 5"), ("PRAGMA user_version = 0", "declares format 0"),
        ("ALTER TABLE items ADD COLUMN more", "column more"), ("DROP INDEX itemsContent", "index itemsContent"),
        ("ALTER TABLE remote DROP COLUMN epoch", "no column epoch"), ("DROP TABLE contents", "contents is missing"),
        ("DROP TABLE folderSums", "folderSums is missing"), ("UPDATE folderSums SET pending = 9", "totals of a folder"),
        ("ALTER TABLE contents DROP COLUMN version", "no column version"), ("DROP TABLE remote", "remote is missing"),
    ])
    func tablesOfAnotherFormatAreFound(damage: String, said: String) async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("mkdir d; echo x > d/x")
            try await world.settle(a)
            try await a.unmount()
            try await sql(a.containerState + "/index.db", damage, in: world)
            let found = try await examineUnmounted(a, "--check")
            #expect(found.status == 1 && found.found.contains { $0.detail.contains(said) }, "\(found)")
            let repaired = try await examineUnmounted(a)
            #expect(repaired.status == 0 && repaired.found.allSatisfy { $0.outcome == .repaired }, "\(repaired)")
            #expect(try await examineUnmounted(a, "--check").found == [])
            try await a.mount()
            try await world.settle(a)
            #expect(try await a.shell("cat d/x") == "x")
            try await expectWell(a)
        }
    }
}
