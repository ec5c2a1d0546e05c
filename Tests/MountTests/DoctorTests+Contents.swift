import Foundation
import Testing
import UbiquityControl

/// The index's knowledge of the contents on this device.
extension DoctorTests {
    @Test func missingManifestsComeFromTheCloud() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            // The large one has more chunks than the index keeps with its record.
            try await a.shell(
                """
                head -c 700001 /dev/urandom > first; head -c 700002 /dev/urandom > second
                head -c 40000003 /dev/urandom > large; echo kept > other; : > empty
                """)
            let sums = try await a.shell("sha256sum *")
            try await world.settle(a, b)
            #expect(try await b.shell("sha256sum *") == sums)
            try await a.unmount()
            #expect(try await examineUnmounted(a, "--check").found == [])
            let content = "(SELECT content FROM items JOIN entries ON item = key WHERE name = CAST('%' AS BLOB))"
            func of(_ name: String) -> String { content.replacingOccurrences(of: "%", with: name) }
            try await sql(
                a.containerState + "/index.db",
                """
                DELETE FROM contents WHERE content IN (\(of("first")), \(of("large")), \(of("empty")));
                DELETE FROM chunks WHERE content = \(of("large"));
                DELETE FROM chunks WHERE content = \(of("second")) AND position = 0
                """, in: world)
            let found = try await examineUnmounted(a, "--check")
            #expect(found.status == 1 && Set(found.found.map(\.kind)) == ["content-unknown"], "\(found)")
            #expect(Set(found.found.map(\.subject)) == ["empty", "first", "large", "second"])
            let repaired = try await examineUnmounted(a)
            #expect(repaired.status == 0 && repaired.found.allSatisfy { $0.outcome == .repaired }, "\(repaired)")
            #expect(try await examineUnmounted(a, "--check").found == [])

            // All of these tables, while mounted.
            try await sql(a.containerState + "/index.db", "DELETE FROM contents; DELETE FROM chunks", in: world)
            try await a.mount()
            try await a.waitUntilIdle()
            #expect(try await examine(a).found.filter { $0.kind == "content-unknown" && $0.outcome == .repaired }.count == 5)
            try await expectWell(a)
            #expect(try await a.shell("sha256sum *") == sums)
        }
    }

    /// Other users must not read or change a backing file.
    @Test func contentsOwnedByOthersGetTheirOwnerBack() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("head -c 700001 /dev/urandom > f; head -c 700002 /dev/urandom > g; head -c 700003 /dev/urandom > h")
            try await world.settle(a)
            try await expectWell(a)
            try await world.shell(
                """
                cd '\(a.containerState)/content'; chmod 000 $(find . -size 700001c); chmod 666 $(find . -size 700002c)
                chown 12345 $(find . -size 700003c)
                """)
            let found = try await examine(a, "--check")
            #expect(Set(found.found.map { "\($0.kind) \($0.subject)" })
                == ["content-rights f", "content-rights g", "content-rights h"], "\(found)")
            let repaired = try await examine(a)
            #expect(repaired.status == 0 && repaired.found.allSatisfy { $0.outcome == .repaired }, "\(repaired)")
            try await expectWell(a)
            let rights = "find '\(a.containerState)/content' -type f -size +600k -printf '%m %U\\n' | sort | uniq -c | tr -s ' '"
            #expect(try await world.shell(rights) == " 3 600 0")
        }
    }

    /// The target of a link in their place belongs to somebody else, and nothing is written there; nobody waits at a
    /// pipe.
    @Test(arguments: ["ln -s '%victim' '%path'", "mkfifo '%path'"])
    func nonFilesAmongContentsAreSetAside(made: String) async throws {
        try await World.run { world in
            let a = try await world.mounted("a"), victim = world.folder + "/victim"
            try await a.shell("head -c 700001 /dev/urandom > f")
            let sum = try await a.shell("sha256sum f")
            try await world.settle(a)
            try await a.unmount()
            let path = try await world.shell("find '\(a.containerState)/content' -type f -size 700001c")
            let make = made.replacing("%victim", with: victim).replacing("%path", with: path)
            _ = try await world.shell("rm '\(path)'; head -c 700001 /dev/zero > '\(victim)'; \(make)")
            let before = try await world.shell("sha256sum '\(victim)'")
            try await a.mount()
            let repaired = try await examine(a)
            #expect(repaired.status == 0 && repaired.found.map(\.kind) == ["content-missing"], "\(repaired)")
            #expect(try await a.shell("sha256sum f") == sum)
            try await a.waitUntilIdle()
            try await expectWell(a)
            #expect(try await world.shell("sha256sum '\(victim)'") == before)
        }
    }

    @Test func folderAmongContentsIsSetAside() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("head -c 700001 /dev/urandom > f")
            let sum = try await a.shell("sha256sum f")
            try await world.settle(a)
            try await a.unmount()
            let path = try await world.shell("find '\(a.containerState)/content' -type f -size 700001c")
            _ = try await world.shell("rm '\(path)'; mkdir '\(path)'; touch '\(path)/in'")
            try await a.mount()
            let repaired = try await examine(a)
            #expect(repaired.status == 0 && repaired.found.map(\.kind) == ["content-missing"], "\(repaired)")
            #expect(try await a.shell("sha256sum f") == sum)
            try await a.waitUntilIdle()
            try await expectWell(a)
            #expect(try await world.shell("ls '\(a.containerState)/set-aside'/*") == "in")
        }
    }

    /// Damage is found even if the list of the content's chunks is lost too.
    @Test func damagedContentWithoutManifestIsDownloadedAgain() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("head -c 700001 /dev/urandom > damaged")
            let sum = try await a.shell("sha256sum damaged")
            try await world.settle(a)
            try await a.unmount()
            let path = try await world.shell("find '\(a.containerState)/content' -type f -size 700001c")
            try await Tools.python("file = open('\(path)', 'r+b')\nfile.seek(300000)\nfile.write(b'damage')", in: world)
            try await sql(a.containerState + "/index.db", "DELETE FROM contents; DELETE FROM chunks", in: world)
            let repaired = try await examineUnmounted(a)
            #expect(repaired.status == 0 && repaired.found.map(\.kind) == ["content-unknown", "content-damaged"], "\(repaired)")
            try await a.mount()
            #expect(try await a.shell("sha256sum damaged") == sum)
            try await expectWell(a)
        }
    }

    /// The report is one object, with or without findings.
    @Test func reportInJSONHasOneShape() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("echo x > x")
            try await world.settle(a)
            let outcome = try await a.ubiquity("doctor", "", options: ["--check", "--json"])
            #expect(outcome.status == 0)
            let report = try ControlCodec.decode(DoctorReport.self, from: outcome.text.utf8)
            #expect(report.findings == [] && report.contents == 1 && report.items == 1 && report.cloudProblem == nil)
            try await a.unmount()
            try await world.shell("rm $(find '\(a.containerState)/content' -type f -size 2c)")
            let other = try await world.attempt([World.program, "doctor", "--check", "--json", "--state", a.state])
            #expect(other.status == 1 && other.out.split(separator: "\n").count == 1, "\(other)")
            #expect(try ControlCodec.decode(DoctorReport.self, from: other.text.utf8).findings.count == 1)
        }
    }
}
