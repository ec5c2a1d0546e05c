import Testing
import UbiquityControl

/// The retention of invisible versions at a cloud, by the options of `serve`.
@Suite struct RetentionTests {
    /// Starts the cloud that devices share with these options.
    private func serve(_ options: String..., in world: World) async throws -> Command {
        let cloud = try world.start([World.program, "serve", "--embedded", "--data", world.cloudData] + options)
        try await world.eventually("it listens") { cloud.outputSoFar.contains("listening on ") }
        return cloud
    }

    private func kinds(_ device: Device, _ path: String) async throws -> [VersionReport.Kind] {
        let outcome = try await device.ubiquity("versions", path, options: ["--json"])
        if outcome.text.isEmpty { return [] }
        return try ControlCodec.decode(VersionsReport.self, from: outcome.text.utf8).versions.map(\.kind)
    }

    @Test(arguments: [0, 1, 2]) func keepVersionsLimitsEarlierVersions(count: Int) async throws {
        try await World.run { world in
            _ = try await serve("--keep-versions", "\(count)", in: world)
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            for text in 1...4 {
                try await a.shell("echo \(text) > f.txt; echo \(text) > g.txt")
                try await world.settle(a, b)
            }
            for device in [a, b] {
                let kept = (4 - count..<4).map(String.init).joined(separator: "\n")
                // Their names give the order of those that were not made in one second.
                let found = try await device.shell("cat .versions/f.txt/* 2> /dev/null | sort")
                #expect(found == kept)
                #expect(try await kinds(device, "g.txt").filter { $0 == .history }.count == count)
                #expect(try await device.shell("cat f.txt g.txt") == "4\n4")
            }
        }
    }

    /// Also for the embedded cloud of a mount.
    @Test func configurationSetsRetention() async throws {
        try await World.run { world in
            try await world.shell(
                "mkdir -p \"$HOME/.config/ubiquity\"; echo 'keep-versions = 1' > \"$HOME/.config/ubiquity/config\"")
            let a = try await world.mounted("a")
            for text in 1...4 {
                try await a.shell("echo \(text) > f.txt")
                try await world.settle(a)
            }
            #expect(try await kinds(a, "f.txt") == [.current, .history])
            #expect(try await a.shell("cat f.txt .versions/f.txt/*") == "4\n3")
        }
    }

    /// With a retention of zero the cloud forgets all of them, but neither existing items nor unresolved conflicts.
    @Test func keepDaysLimitsEarlierVersions() async throws {
        try await World.run { world in
            let first = try await serve("--keep", "1", in: world)
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("echo 1 > f.txt; echo 1 > gone.txt; echo 1 > c.txt")
            try await world.settle(a, b)
            try await a.shell("echo 2 > f.txt; rm gone.txt")
            try await b.shell("cat c.txt")
            try await world.meet(a, "echo a > c.txt", b, "echo b > c.txt")
            #expect(try await kinds(a, "f.txt") == [.current, .history])
            #expect(try await a.ubiquity("trash", "", options: ["list"]).out.contains("gone.txt"))
            for device in [a, b] { try await device.ubiquity("offline", "") }
            first.signal(15)
            #expect(try await first.finish().status == 0)
            _ = try await serve("--keep", "0", in: world)
            for device in [a, b] { try await device.ubiquity("online", "") }
            try await world.settle(a, b)
            for device in [a, b] {
                try await world.eventually("earlier versions are forgotten") {
                    try await !kinds(device, "f.txt").contains(.history)
                }
                let trash = try await device.ubiquity("trash", "", options: ["list"])
                #expect(!trash.out.contains("gone.txt"), "\(trash)")
                #expect(try await device.shell("cat f.txt c.txt") == "2\nb")
                #expect(try await kinds(device, "c.txt").filter { $0 == .conflict }.count == 1)
            }
        }
    }
}
