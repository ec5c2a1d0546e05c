import Testing
import UbiquityControl

/// Single wrong fields in the cloud's database: the devices have the right values.
extension DoctorTests {
    private static func item(_ name: String) -> String { "WHERE name = CAST('\(name)' AS BLOB)" }
    private static func version(_ name: String) -> String {
        "WHERE id = (SELECT version FROM items \(item(name)))"
    }

    @Test(arguments: [
        // Unreadable fields.
        "UPDATE items SET name = 'f' \(item("f"))", "UPDATE items SET kind = 77 \(item("f"))",
        "UPDATE items SET kind = 77 \(item("d"))", "UPDATE items SET stamps = x'00' \(item("f"))",
        "UPDATE items SET parent = 7 \(item("x"))", "UPDATE items SET xattrs = x'01' \(item("f"))",
        "UPDATE items SET revision = 'text' \(item("f"))", "UPDATE items SET size = 'text' \(item("f"))",
        "UPDATE items SET id = 'text' \(item("f"))", "UPDATE items SET mode = 'text' \(item("d"))",
        "UPDATE items SET mode = 65535 \(item("f"))", "UPDATE items SET link = NULL \(item("l"))",
        "UPDATE items SET kind = 6 \(item("d"))", "UPDATE items SET kind = 2 \(item("l"))",
        "UPDATE items SET name = x'' \(item("f"))", "UPDATE items SET name = CAST('d/f' AS BLOB) \(item("f"))",
        "UPDATE items SET revision = 0 \(item("f"))", "UPDATE items SET deleted = 'text' \(item("f"))",
        "UPDATE versions SET role = 77 \(version("f"))",
        "UPDATE versions SET manifest = x'00' \(version("f"))", "UPDATE versions SET item = x'00' \(version("f"))",
        "UPDATE versions SET deviceName = hex(zeroblob(200)) \(version("f"))",
        // Readable fields with wrong values.
        "UPDATE items SET kind = 2 \(item("f"))", "UPDATE items SET kind = 1 \(item("d"))",
        "UPDATE items SET version = NULL \(item("f"))", "UPDATE items SET version = randomblob(16) \(item("f"))",
        "UPDATE items SET version = (SELECT id FROM versions WHERE role = 2) \(item("f"))",
        "UPDATE items SET revision = revision + 1000000 \(item("f"))", "UPDATE items SET revision = 1 \(item("f"))",
        "UPDATE items SET mode = 0 \(item("f"))", "UPDATE items SET modified = 5 \(item("f"))",
        "UPDATE items SET name = CAST('other' AS BLOB) \(item("f"))",
        "UPDATE items SET parent = (SELECT id FROM items \(item("e"))) \(item("x"))",
        "UPDATE items SET xattrs = NULL \(item("f"))", "UPDATE items SET deleted = 5 \(item("f"))",
        "UPDATE items SET deleted = 5 \(item("d"))",
        "UPDATE versions SET manifest = zeroblob(length(manifest)) \(version("f"))",
        "UPDATE versions SET manifest = NULL \(version("f"))", "DELETE FROM versions", "DELETE FROM items \(item("f"))",
        "DELETE FROM items",
    ])
    func whatTheCloudKnowsComesFromADevice(damage: String) async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkdir d e; echo x > d/x; ln -s f l; printf %3000s first > f")
            try await world.settle(a, b)
            try await a.shell("printf %3000s second > f; setfattr -n user.x -v 1 f; chmod 640 f; touch -d 2020-02-02 f")
            try await world.settle(a, b)
            let list = "find . | sort; stat -c '%n %a %s' f d e d/x l; sha256sum f d/x; getfattr --only-values -n user.x f; readlink l"
            let before = try await a.shell(list)
            try await sql(world.cloudData + "/metadata.db", damage, in: world)
            let found = try await examine(a, "--check")
            #expect(found.status == 1 && !found.found.isEmpty, "\(found)")
            let repaired = try await examine(a)
            #expect(repaired.status == 0 && repaired.found.allSatisfy { $0.outcome == .repaired }, "\(repaired)")
            try await world.settle(a, b)
            #expect(try await a.shell(list) == before)
            try await expectWell(a)
            // One device knew it before, one knows nothing yet, and both get the later changes.
            let c = try await world.mounted("c")
            try await a.shell("echo later > later; echo more >> f; echo y > d/y")
            try await world.settle(a, b, c)
            let after = try await a.shell(list)
            for device in [b, c] { #expect(try await device.shell(list) == after) }
            try await expectWell(a)
        }
    }

    /// A device that reads all of the cloud anew keeps the items that the cloud cannot read, also those without a local
    /// content.
    @Test func damagedCloudRowDeletesNoItem() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("head -c 700001 /dev/urandom > f; echo x > x")
            try await world.settle(a, b)
            try await b.shell("cat x > /dev/null")
            try await sql(world.cloudData + "/metadata.db", "UPDATE items SET stamps = x'00' \(Self.item("f"))", in: world)
            // Local changes of them wait meanwhile.
            try await b.shell("mv f g; chmod 600 g")
            try await b.waitUntil("getfattr -n user.ubiquity.uploading-error g")
            for device in [b, a] {
                try await device.unmount()
                try await sql(
                    device.containerState + "/index.db", "UPDATE remote SET kind = 77 \(Self.item("x"))", in: world)
            }
            let found = try await examineUnmounted(b)
            #expect(found.status == 1 && found.found.last?.outcome == .unrepaired, "\(found)")
            let repaired = try await examineUnmounted(a)
            #expect(repaired.status == 0, "\(repaired)")
            try await a.mount()
            try await b.mount()
            try await world.settle(a, b)
            try await a.shell("cmp g '\(b.mountPoint)/g'; stat -c %a g | grep 600; ls | wc -l | grep 2")
            try await expectWell(a)
            try await expectWell(b)
        }
    }

    /// Earlier versions that the cloud cannot read are not listed, and no device can send them: the doctor reports
    /// them.
    @Test func unreadableEarlierVersionsAreFound() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("echo 1 > f; echo 1 > g")
            try await world.settle(a, b)
            for number in 2...3 {
                try await a.shell("echo \(number) > f; echo \(number) > g")
                try await world.settle(a, b)
            }
            try await sql(
                world.cloudData + "/metadata.db",
                "UPDATE versions SET device = x'00' WHERE item = (SELECT id FROM items \(Self.item("f"))) AND role = 2",
                in: world)
            for device in [a, b] {
                let found = try await examine(device)
                #expect(found.status == 1 && found.found.map(\.kind) == ["version-missing"], "\(found)")
                #expect(found.found.map(\.subject) == ["f"] && found.found.map(\.outcome) == [.unrepaired], "\(found)")
                #expect(try await device.shell("cat f .versions/g/* | sort") == "1\n2\n3")
            }
        }
    }

    /// A field that only a creation carries cannot be sent again; the local value stays.
    @Test func linkThatDiffersAtTheCloudStays() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("ln -s to l")
            try await world.settle(a)
            try await sql(world.cloudData + "/metadata.db", "UPDATE items SET link = x'41' \(Self.item("l"))", in: world)
            let found = try await examine(a)
            #expect(found.status == 1 && found.found.map(\.outcome) == [.unrepaired], "\(found)")
            #expect(try await a.shell("readlink l") == "to")
            try await a.shell("cp -P l m && rm l && mv m l")
            try await world.settle(a)
            try await expectWell(a)
        }
    }
}
