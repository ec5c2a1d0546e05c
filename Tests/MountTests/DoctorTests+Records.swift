import Testing
import UbiquityControl

/// Single wrong fields, and a cloud that has lost its data.
extension DoctorTests {
    private static func key(_ name: String) -> String {
        "(SELECT item FROM entries WHERE name = CAST('\(name)' AS BLOB))"
    }

    /// One row must not make a folder, or the doctor, fail.
    @Test func unreadableFieldsAreRepaired() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("for n in 1 2 3 4 5; do echo text $n > f$n; done; setfattr -n user.x -v 1 f1")
            try await world.settle(a)
            try await a.unmount()
            func id(_ name: String) -> String { "id = (SELECT id FROM items WHERE key = \(Self.key(name)))" }
            try await sql(
                a.containerState + "/index.db",
                """
                UPDATE items SET xattrs = x'ff00ff' WHERE key = \(Self.key("f1"));
                UPDATE remote SET manifest = x'00' WHERE \(id("f2"));
                UPDATE remote SET xattrs = x'00' WHERE \(id("f3"));
                UPDATE contents SET manifest = x'00' WHERE content = (SELECT content FROM items WHERE key = \(Self.key("f4")));
                UPDATE items SET localXattrs = x'01' WHERE key = \(Self.key("f5"))
                """, in: world)
            let found = try await examineUnmounted(a, "--check")
            let expected: Set = [
                "item-damaged f1", "record-damaged f2", "record-damaged f3", "content-unknown f4", "item-damaged f5",
            ]
            #expect(found.status == 1 && Set(found.found.map { "\($0.kind) \($0.subject)" }) == expected, "\(found)")
            // Only that one field is missing.
            try await a.mount()
            #expect(try await a.shell("cat *; ls | wc -l; getfattr --only-values -n user.x f1")
                == "text 1\ntext 2\ntext 3\ntext 4\ntext 5\n5\n1")
            try await a.unmount()
            let repaired = try await examineUnmounted(a)
            #expect(repaired.status == 0 && repaired.found.allSatisfy { $0.outcome == .repaired }, "\(repaired)")
            #expect(try await examineUnmounted(a, "--check").found == [])
            try await a.mount()
            #expect(try await a.shell("cat * | wc -l; getfattr --only-values -n user.x f1") == "5\n1")
            try await world.settle(a)
            try await expectWell(a)
        }
    }

    @Test func kindsFollowTheCloud() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("mkdir d e; echo x > d/x; echo text > f; echo gone > g; ln -s to l")
            try await world.settle(a)
            try await a.ubiquity("evict", "g")
            try await a.unmount()
            try await sql(
                a.containerState + "/index.db",
                """
                UPDATE items SET kind = 2 WHERE key IN (\(Self.key("f")), \(Self.key("g")), \(Self.key("l")));
                UPDATE items SET kind = 1 WHERE key IN (\(Self.key("d")), \(Self.key("e")))
                """, in: world)
            #expect(try await examineUnmounted(a, "--check").status == 1)
            let repaired = try await examineUnmounted(a)
            #expect(repaired.status == 0 && repaired.found.allSatisfy { $0.outcome == .repaired }, "\(repaired)")
            #expect(try await examineUnmounted(a, "--check").found == [])
            try await a.mount()
            #expect(try await a.shell("cat d/x f g; readlink l; ls e | wc -l; stat -c %F d e f g l | sort | uniq -c | tr -s ' '")
                == "x\ntext\ngone\nto\n0\n 2 directory\n 2 regular file\n 1 symbolic link")
            try await world.settle(a)
            try await expectWell(a)
        }
    }

    /// The index's counters are gone.
    @Test func lostIndexCountersAreRepairedOnce() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("mkdir d; for n in $(seq 30); do echo $n > d/f$n; done")
            try await world.settle(a)
            try await a.unmount()
            try await sql(a.containerState + "/index.db", "DELETE FROM meta", in: world)
            #expect(try await examineUnmounted(a).status == 0)
            #expect(try await examineUnmounted(a, "--check").found == [])
            try await a.mount()
            // No number is given twice.
            try await a.shell("for n in $(seq 40); do echo new $n > d/g$n; done")
            #expect(try await a.shell("cat d/f* | sort -n | tail -1; ls d | wc -l; cat d/g* | wc -l") == "30\n70\n40")
            try await world.settle(a)
            try await expectWell(a)
        }
    }

    @Test func lostCloudDatabaseIsFound() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("mkdir d; echo x > d/x; echo y > y")
            try await world.settle(a)
            try await a.unmount()
            if world.cloudProcess != nil { try await world.killCloud() }
            try await world.shell("rm '\(world.cloudData)'/metadata.db*")
            for _ in 0..<2 {
                let found = try await examineUnmounted(a, "--check")
                #expect(found.status == 1 && found.found.allSatisfy { $0.kind == "record-unknown" })
                #expect(Set(found.found.map(\.subject)) == ["d", "x", "y"], "\(found)")
            }
            let repaired = try await examineUnmounted(a)
            #expect(repaired.status == 0, "\(repaired)")
            #expect(repaired.found.allSatisfy { $0.remark?.contains("next mount") == true }, "\(repaired)")
            try await a.mount()
            try await world.settle(a)
            try await expectWell(a)
            let b = try await world.mounted("b")
            try await world.settle(a, b)
            #expect(try await b.shell("cat d/x y") == "x\ny")
        }
    }
}
