import Foundation
import Testing
import UbiquityControl

/// `ubiquity doctor`: each kind of damage is planted, found, and repaired if another copy exists.
@Suite struct DoctorTests {
    func examine(_ device: Device, _ options: String...) async throws -> (status: Int32, found: [DoctorFinding]) {
        let outcome = try await device.ubiquity("doctor", "", options: ["--json"] + options)
        return try (outcome.status, Self.findings(outcome))
    }

    func examineUnmounted(
        _ device: Device, _ options: String...
    ) async throws -> (status: Int32, found: [DoctorFinding]) {
        let outcome = try await device.world.attempt(
            [World.program, "doctor", "--state", device.state, "--json"] + options)
        return try (outcome.status, Self.findings(outcome))
    }

    private static func findings(_ outcome: Command.Outcome) throws -> [DoctorFinding] {
        // Otherwise a failure would not show why the cloud was not asked, or why nothing was found.
        if outcome.status > 1 || outcome.status == 1 && outcome.out.isEmpty { Issue.record("\(outcome)") }
        return try ControlCodec.decode(DoctorReport.self, from: outcome.text.utf8).findings
    }

    /// Expects that every kind of check finds nothing.
    func expectWell(_ device: Device, _ location: SourceLocation = #_sourceLocation) async throws {
        let (status, found) = try await examine(device, "--check")
        #expect(status == 0 && found.isEmpty, "\(found)", sourceLocation: location)
    }

    /// The backing file of a file, which is the only one of its size.
    private func content(_ device: Device, size: Int) async throws -> String {
        let path = try await device.world.shell("find '\(device.containerState)/content' -type f -size \(size)c")
        try #require(!path.isEmpty && !path.contains("\n"), "content of \(size) bytes: \(path)")
        return path
    }

    func sql(_ database: String, _ script: String, in world: World) async throws {
        try await Tools.python(
            """
            import sqlite3
            database = sqlite3.connect('\(database)', isolation_level=None, timeout=30)
            database.execute('PRAGMA foreign_keys = OFF')
            for statement in '''\(script)'''.split(';'):
                database.execute(statement)
            database.close()
            """, in: world)
    }

    /// Versions that were read, and files that were just removed, are no lost contents.
    @Test func unmountedDeviceHasNoFindings() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            for number in 1...3 {
                try await a.shell("echo \(number) > f; echo \(number) > gone")
                try await world.settle(a)
            }
            try await a.shell("cat .versions/f/* > /dev/null; rm gone")
            try await world.settle(a)
            try await a.shell("echo 4 > f")
            try await world.settle(a)
            try await a.unmount()
            let (status, found) = try await examineUnmounted(a, "--check")
            #expect(status == 0 && found.isEmpty, "\(found)")
        }
    }

    @Test func contentsComeBackFromTheCloud() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell(
                """
                head -c 700001 /dev/urandom > damaged; head -c 30002 /dev/urandom > missing
                head -c 400003 /dev/urandom > short; echo kept > other
                """)
            let sums = try await a.shell("sha256sum *")
            try await world.settle(a)
            try await expectWell(a)
            let missing = try await content(a, size: 30002), short = try await content(a, size: 400003)
            let damaged = try await content(a, size: 700001)
            // Damages the middle of a page cache that nobody has open.
            try await Tools.python(
                """
                os.unlink('\(missing)')
                os.truncate('\(short)', 1000)
                with open('\(damaged)', 'r+b') as file:
                    file.seek(300000)
                    file.write(b'this is not what was written')
                """, in: world)
            let found = try await examine(a, "--check")
            #expect(found.status == 1)
            let kinds = Dictionary(uniqueKeysWithValues: found.found.map { ($0.subject, $0.kind) })
            #expect(kinds == ["damaged": "content-damaged", "missing": "content-missing", "short": "content-size"])
            #expect(found.found.allSatisfy { $0.outcome == .found })
            let repaired = try await examine(a)
            #expect(repaired.status == 0 && repaired.found.count == 3 && repaired.found.allSatisfy { $0.outcome == .repaired })
            try await a.waitUntil("test \"$(sha256sum *)\" = '\(sums)'")
            try await world.settle(a)
            try await expectWell(a)
            // The damaged bytes were kept.
            let aside = try await world.shell("grep -l 'this is not what' '\(a.containerState)'/set-aside/* | wc -l")
            #expect(aside == "1")
        }
    }

    @Test func onlyCopyIsNeverRemoved() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await world.settle(a)
            try await a.ubiquity("offline", "")
            try await a.shell("head -c 50005 /dev/urandom > new; head -c 60006 /dev/urandom > gone; sync new gone")
            let new = try await content(a, size: 50005), gone = try await content(a, size: 60006)
            try await Tools.python("os.truncate('\(new)', 40000)\nos.unlink('\(gone)')", in: world)
            try await world.shell(
                "cp '\(new)' '\(a.containerState)/content/0dd/77777'; touch -d '1 hour ago' '\(a.containerState)/content/0dd/77777'")
            let found = try await examine(a)
            #expect(found.status == 1)
            let outcomes = Dictionary(uniqueKeysWithValues: found.found.map { ($0.kind, $0.outcome) })
            #expect(outcomes["content-size"] == .repaired && outcomes["content-missing"] == .unrepaired)
            #expect(try await a.shell("wc -c < new") == "40000")
            // Only contents without an item for a while are removed: this one is new.
            #expect(outcomes["content-unused"] == .repaired)
            #expect(try await world.shell("wc -c < '\(a.containerState)'/set-aside/content-77777") == "40000")
            // Without a cloud the report says only that the cloud could not be asked.
            try await a.ubiquity("online", "")
        }
    }

    @Test func chunksLostAtTheCloudAreUploadedAgain() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell(
                "head -c 900000 /dev/urandom > large; head -c 900000 /dev/urandom > lost; printf %2000s small > small")
            try await world.settle(a, b)
            let (large, lost) = try await chunkFiles(a, "large", "lost")
            try await Tools.python(
                """
                with open('\(large)', 'r+b') as file:
                    file.seek(1000)
                    file.write(b'damage')
                os.unlink('\(lost)')
                """, in: world)
            try await sql(
                world.cloudData + "/metadata.db",
                "UPDATE smallChunks SET bytes = zeroblob(length(bytes)) WHERE length(bytes) = 2000", in: world)
            let found = try await examine(a, "--check")
            #expect(found.status == 1)
            #expect(Set(found.found.map { "\($0.kind) \($0.subject)" })
                == ["chunk-damaged large", "chunk-missing lost", "chunk-damaged small"])
            // A device without a copy can do nothing.
            let there = try await examine(b)
            #expect(there.status == 1 && there.found.allSatisfy { $0.outcome == .unrepaired })
            let repaired = try await examine(a)
            #expect(repaired.status == 0 && repaired.found.count == 3)
            try await expectWell(a)
            // Also for a cloud that starts from nothing: the content that was sent again is the only copy after an
            // eviction.
            try await world.killCloud()
            try await expectWell(a)
            for name in ["large", "lost", "small"] { try await b.shell("cmp \(name) '\(a.mountPoint)/\(name)'") }
        }
    }

    /// The cloud's files that hold the beginnings of two files.
    func chunkFiles(_ device: Device, _ first: String, _ second: String) async throws -> (String, String) {
        let found = try await Tools.python(
            """
            for name in ['\(first)', '\(second)']:
                start = open('\(device.mountPoint)/' + name, 'rb').read(60000)
                for folder, _, files in os.walk('\(device.world.cloudData)/chunks'):
                    for file in files:
                        if open(os.path.join(folder, file), 'rb').read(60000) == start:
                            print(os.path.join(folder, file))
            """, in: device.world)
        let paths = found.split(separator: "\n").map(String.init)
        try #require(paths.count == 2, "\(found)")
        return (paths[0], paths[1])
    }

    @Test func recordsAndTreeFollowTheCloud() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("mkdir d; for n in 1 2 3 4 5; do echo $n > f$n; done; echo x > d/x")
            try await world.settle(a)
            try await a.unmount()
            // f1: the record is gone; f2: it differs; f3: not in the tree; f4: elsewhere in the tree; f5: unknown there.
            try await sql(
                a.containerState + "/index.db",
                """
                DELETE FROM remote WHERE name = CAST('f1' AS BLOB);
                UPDATE remote SET mode = 7 WHERE name = CAST('f2' AS BLOB);
                DELETE FROM items WHERE key = (SELECT item FROM entries WHERE name = CAST('f3' AS BLOB));
                DELETE FROM entries WHERE name = CAST('f3' AS BLOB);
                UPDATE entries SET name = CAST('g4' AS BLOB) WHERE name = CAST('f4' AS BLOB);
                UPDATE remote SET id = x'00000000000000000000000000000007' WHERE name = CAST('f5' AS BLOB);
                """, in: world)
            try await a.mount()
            try await a.waitUntilIdle()
            let found = try await examine(a, "--check")
            #expect(found.status == 1)
            let kinds = Set(found.found.map(\.kind))
            #expect(kinds.isSuperset(of: ["record-missing", "record-differs", "item-missing", "item-differs", "record-unknown"]))
            #expect(try await examine(a).status == 0)
            try await world.settle(a)
            try await expectWell(a)
            #expect(try await a.shell("cat f1 f2 f3 f4 f5 d/x; ls | wc -l") == "1\n2\n3\n4\n5\nx\n6")
        }
    }

    /// With such a record the device would ignore all news of the item.
    @Test func recordAheadOfTheCloudIsReadAgain() async throws {
        try await World.run { world in
            let a = try await world.mounted("a"), b = try await world.mounted("b")
            try await a.shell("echo 1 > f; echo 1 > g")
            try await world.settle(a, b)
            try await a.unmount()
            try await sql(
                a.containerState + "/index.db",
                "UPDATE remote SET revision = revision + 1024 WHERE name = CAST('f' AS BLOB);", in: world)
            try await a.mount()
            try await b.shell("echo 22 > f; echo 22 > g")
            try await world.settle(a, b)
            #expect(try await a.shell("cat f g") == "1\n22")
            let found = try await examine(a, "--check")
            #expect(found.found.map(\.kind) == ["record-differs"])
            #expect(try await examine(a).status == 0)
            try await world.settle(a, b)
            try await expectWell(a)
            #expect(try await a.shell("cat f g") == "22\n22")
        }
    }

    @Test func indexIsRepairedWithoutAMount() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("mkdir d e; echo x > d/x; echo y > e/y; echo z > z; echo t > t")
            try await world.settle(a)
            let refused = try await world.attempt([World.program, "doctor", "--state", a.state])
            #expect(refused.status == 1 && refused.err.contains("mounted by process"), "\(refused)")
            try await a.unmount()
            #expect(try await examineUnmounted(a, "--check").status == 0)
            // An entry without item, an item without entry, a circle of folders, a flag that is wrong.
            try await sql(
                a.containerState + "/index.db",
                """
                INSERT INTO entries VALUES (1, CAST('ghost' AS BLOB), 999999, 0);
                DELETE FROM entries WHERE name = CAST('z' AS BLOB);
                UPDATE entries SET parent = (SELECT item FROM entries WHERE name = CAST('e' AS BLOB))
                    WHERE name = CAST('d' AS BLOB);
                UPDATE entries SET parent = (SELECT item FROM entries WHERE name = CAST('d' AS BLOB))
                    WHERE name = CAST('e' AS BLOB);
                UPDATE items SET contentState = 0 WHERE key = (SELECT item FROM entries WHERE name = CAST('t' AS BLOB))
                """, in: world)
            let found = try await examineUnmounted(a, "--check")
            #expect(found.status == 1 && found.found.contains { $0.kind == "index-inconsistent" })
            #expect(found.found.contains { $0.kind == "item-stray" })
            #expect(try await examineUnmounted(a).status == 0)
            #expect(try await examineUnmounted(a, "--check").found == [])
            try await a.mount()
            #expect(try await a.shell("cat d/x e/y z t; ls | wc -l") == "x\ny\nz\nt\n4")
            try await world.settle(a)
            try await expectWell(a)
        }
    }

    /// One unreadable row: the doctor repairs it, and so must not fail at it.
    @Test(arguments: [
        "UPDATE items SET id = x'00' WHERE key = \(key("f"))", "UPDATE items SET id = x'00' WHERE key = \(key("d"))",
        "UPDATE items SET kind = 77 WHERE key IN (\(key("f")), \(key("d")), \(key("l")))",
        "UPDATE items SET contentState = 77 WHERE key IN (\(key("f")), \(key("new")), \(key("d")))",
        "UPDATE items SET id = 'text' WHERE key = \(key("new")); UPDATE items SET id = 7 WHERE key = \(key("x"))",
        "UPDATE remote SET kind = 77 WHERE name IN (CAST('f' AS BLOB), CAST('d' AS BLOB))",
        "UPDATE remote SET id = x'01' WHERE name = CAST('f' AS BLOB)",
        "UPDATE items SET id = x'00' WHERE key = \(key("f")); UPDATE remote SET id = x'01' WHERE name = CAST('f' AS BLOB)",
        "UPDATE remote SET parent = 7 WHERE name = CAST('x' AS BLOB)",
        "UPDATE items SET flags = 0 WHERE key = \(key("g"))",
        // A mark of deletion is no deletion, and a text is no name.
        "UPDATE items SET dirty = dirty | 64 WHERE key IN (\(key("f")), \(key("d")), \(key("new")))",
        "UPDATE items SET dirty = 1 << 40 WHERE key = \(key("f"))",
        "UPDATE entries SET name = 'new' WHERE name = CAST('new' AS BLOB)",
        "UPDATE entries SET name = 'zzz' WHERE name = CAST('f' AS BLOB); UPDATE remote SET name = 'd' WHERE name = CAST('d' AS BLOB)",
    ])
    func rowsThatCannotBeReadAreMadeAnew(damage: String) async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("head -c 300000 /dev/urandom > f; mkdir d; echo x > d/x; ln -s f l; echo g > g; ln g hard")
            try await world.settle(a)
            try await a.ubiquity("offline", "")
            try await a.shell("echo new > new; sync new")
            let list = "sha256sum f d/x new; readlink l; find . | sort"
            let before = try await a.shell(list)
            try await a.unmount()
            try await sql(a.containerState + "/index.db", damage, in: world)
            let found = try await examineUnmounted(a, "--check")
            #expect(found.status == 1 && found.found.contains { $0.kind == "index-inconsistent" }, "\(found)")
            let repaired = try await examineUnmounted(a)
            #expect(repaired.status == 0 && repaired.found.allSatisfy { $0.outcome == .repaired }, "\(repaired)")
            let after = try await examineUnmounted(a, "--check")
            #expect(after.found == [])
            try await a.mount()
            try await world.settle(a)
            #expect(try await a.shell(list) == before)
            let b = try await world.mounted("b")
            try await b.waitUntilIdle()
            #expect(try await b.shell(list) == before)
            try await expectWell(a)
        }
    }

    private static func key(_ name: String) -> String {
        "(SELECT item FROM entries WHERE name = CAST('\(name)' AS BLOB))"
    }

    @Test func damagedDatabaseIsSetAside() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("mkdir d; for n in $(seq 300); do echo $n > d/f$n; done; echo x > x")
            try await world.settle(a)
            try await a.ubiquity("offline", "")
            try await a.shell("head -c 50005 /dev/urandom > unsent; sync unsent")
            try await a.unmount()
            try await Tools.python(
                """
                path = '\(a.containerState)/index.db'
                with open(path, 'r+b') as file:
                    file.seek(8192)
                    file.write(os.urandom(os.path.getsize(path) - 8192))
                """, in: world)
            #expect(try await examineUnmounted(a, "--check").found.first?.kind == "index-damaged")
            let refused = try await a.tryMount()
            #expect(refused.status == 1 && refused.err.contains("ubiquity doctor"), "\(refused)")
            let found = try await examineUnmounted(a)
            #expect(found.status == 0 && found.found.contains { $0.kind == "index-damaged" && $0.outcome == .repaired })
            try await a.mount()
            #expect(try await a.shell("cat d/f7 x; ls d | wc -l") == "7\nx\n300")
            // Contents that were not uploaded are kept.
            let kept = "find '\(a.containerState)/set-aside' -type f -size 50005c | wc -l"
            #expect(try await world.shell(kept) == "1")
        }
    }

    /// The contents must survive the loss of the index.
    @Test func contentsOfALostIndexAreSetAside() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await world.settle(a)
            try await a.ubiquity("offline", "")
            try await a.shell("head -c 50005 /dev/urandom > unsent; sync unsent")
            try await a.unmount()
            try await world.shell("rm '\(a.containerState)'/index.*")
            try await a.mount()
            let kept = "find '\(a.containerState)/set-aside' -type f -size 50005c | wc -l"
            #expect(try await world.shell(kept) == "1")
        }
    }

    /// The daemon was killed, and the journal, which alone had the last changes, is gone. Nothing knows these files any
    /// more. Their contents are kept, and the next mount reports them.
    @Test(arguments: ["rm '%'", "truncate -s 1000 '%'", "head -c 3000 /dev/urandom | dd of='%' conv=notrunc"])
    func contentsOfALostJournalAreSetAside(damage: String) async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("echo there > there")
            try await world.settle(a)
            try await a.unmount()
            try await a.mount()
            try await a.ubiquity("offline", "")
            try await a.shell("for n in 1 2 3; do head -c 50005 /dev/urandom > unsent$n; sync unsent$n; done")
            try await a.kill()
            try await world.shell(damage.replacing("%", with: "\(a.containerState)/index.journal"))
            let found = try await examineUnmounted(a, "--check", "--quick")
            #expect(found.status == 1 && found.found.contains { $0.kind == "journal-damaged" }, "\(found)")
            let mounted = try await a.tryMount([])
            #expect(mounted.status == 0 && mounted.err.contains("set-aside, and may never have been uploaded"), "\(mounted)")
            let kept = "find '\(a.containerState)/set-aside' -type f -size 50005c | wc -l; ls '\(a.mountPoint)' | grep -c unsent"
            let counts = try await world.shell("\(kept) || true").split(separator: "\n").compactMap { Int($0) }
            #expect(counts.reduce(0, +) == 3, "\(counts)")
            #expect(try await a.shell("cat there") == "there")
            try await world.settle(a)
            try await expectWell(a)
        }
    }

    /// Only the database is gone; the journal beside it has no use without it.
    @Test func missingDatabaseIsFound() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("mkdir d; echo x > d/x")
            try await world.settle(a)
            try await a.unmount()
            try await world.shell("rm '\(a.containerState)'/index.db*")
            let found = try await examineUnmounted(a, "--check")
            #expect(found.status == 1 && found.found.map(\.kind) == ["index-damaged"], "\(found)")
            #expect(try await world.shell("ls '\(a.containerState)' | grep -c 'index.db' || true") == "0")
            let repaired = try await examineUnmounted(a)
            #expect(repaired.found.first?.kind == "index-damaged" && repaired.found.allSatisfy { $0.outcome == .repaired })
            #expect(try await examineUnmounted(a, "--check").found == [])
            // Also without the doctor in between: the mount reports where the contents are.
            try await a.mount()
            try await a.shell("cat d/x > y")
            try await world.settle(a)
            try await a.unmount()
            try await world.shell("rm '\(a.containerState)'/index.db*")
            let mounted = try await a.tryMount([])
            #expect(mounted.status == 0 && mounted.err.contains("set-aside, and may never have been uploaded"), "\(mounted)")
            try await a.waitUntil("test \"$(cat d/x)\" = x")
            try await world.settle(a)
            try await expectWell(a)
        }
    }

    /// A content is repaired once, even if nothing can be downloaded at that time.
    @Test func contentOfAnotherSizeIsSetAsideOnce() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("head -c 400003 /dev/urandom > short; head -c 500005 /dev/urandom > long")
            let sums = try await a.shell("sha256sum *")
            try await world.settle(a)
            let short = try await content(a, size: 400003), long = try await content(a, size: 500005)
            try await a.unmount()
            try await Tools.python("os.truncate('\(short)', 70000)\nos.truncate('\(long)', 900000)", in: world)
            let found = try await examineUnmounted(a)
            #expect(found.found.map(\.kind) == ["content-size", "content-size"], "\(found)")
            #expect(try await examineUnmounted(a).found == [])
            #expect(try await world.shell("ls '\(a.containerState)/set-aside' | wc -l") == "2")
            try await a.mount()
            #expect(try await a.shell("sha256sum *") == sums)
            try await world.settle(a)
            try await expectWell(a)
        }
    }

    /// A foreign file among the contents.
    @Test func foreignFilesAmongTheContentsAreSetAside() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("echo x > x")
            try await world.settle(a)
            let folder = "\(a.containerState)/content"
            try await world.shell("cd '\(folder)' && echo one > 000/stray && echo two > two && cp 000/stray 001/5 && mkdir empty")
            let found = try await examine(a, "--check")
            #expect(found.found.map(\.kind) == ["content-unused", "content-unused", "content-unused"], "\(found)")
            #expect(Set(found.found.map(\.subject)) == ["content/000/stray", "content/001/5", "content/two"])
            #expect(try await examine(a).found.allSatisfy { $0.outcome == .repaired })
            #expect(try await world.shell("cat '\(a.containerState)'/set-aside/* | sort") == "one\none\ntwo")
            try await expectWell(a)
        }
    }

    /// A link in the place of a folder of contents is reported once, and its target is not touched.
    @Test func linkAmongTheContentsIsSetAside() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("echo x > x")
            try await world.settle(a)
            try await a.unmount()
            let plant = """
                cd '\(world.folder)'; mkdir -p theirs; echo theirs > theirs/5
                cd '\(a.containerState)/content'; rmdir 003; ln -s '\(world.folder)/theirs' 003
                """
            try await world.shell(plant)
            let found = try await examineUnmounted(a)
            #expect(found.found.map(\.subject) == ["content/003"] && found.found.allSatisfy { $0.outcome == .repaired }, "\(found)")
            #expect(try await examineUnmounted(a, "--check").found == [])
            try await world.shell(plant)
            try await a.mount()
            try await expectWell(a)
            #expect(try await a.shell("cat x '\(world.folder)/theirs/5'; ls '\(world.folder)/theirs'") == "x\ntheirs\n5")
        }
    }

    @Test func damagedJournalIsFound() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await world.settle(a)
            try await a.ubiquity("offline", "")
            try await a.shell("echo settled > first; sync first; mkdir one two three")
            try await Tools.python(Self.damageJournal(of: a), in: world)
            let found = try await examine(a)
            // A large read commits the journal's changes: then the journal is unused, and its damage is no damage.
            #expect(found.found.allSatisfy { $0.kind == "journal-damaged" && $0.outcome == .repaired })
            try await a.killAndMount()
            #expect(try await a.shell("ls -d one two three first | wc -l") == "4")
            try await a.ubiquity("offline", "")
            try await a.shell("sync first; mkdir four five six")
            try await a.kill()
            try await Tools.python(Self.damageJournal(of: a), in: world)
            let unmounted = try await examineUnmounted(a, "--check")
            #expect(unmounted.found.contains { $0.kind == "journal-damaged" })
            try await a.mount()
            #expect(try await a.shell("ls -d one two three first | wc -l") == "4")
        }
    }

    /// Changes a byte of the first record's payload.
    private static func damageJournal(of device: Device) -> String {
        """
        with open('\(device.containerState)/index.journal', 'r+b') as file:
            file.seek(60)
            byte = file.read(1)[0]
            file.seek(60)
            file.write(bytes([byte ^ 1]))
        """
    }
}
