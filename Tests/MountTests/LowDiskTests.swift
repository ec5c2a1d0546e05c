import Testing

/// A mount whose disk has less free than the floor.
@Suite struct LowDiskTests {
    @Test func mountBelowTheFloorServesReadsAndReportsLackOfSpace() async throws {
        try await World.run { world in
            let a = try await world.mounted("a"), b = try world.device("b")
            try await a.shell(
                "echo '*.o' > .ubiquityignore; echo small > small; head -c 300000 /dev/urandom | tee large > pinned")
            try await a.waitUntilIdle()
            // The largest possible floor: one byte less than the disk.
            let size = try await world.shell("df -B1 --output=size '\(world.folder)' | tail -n 1 | tr -d ' '")
            let floor = try #require(Int64(size)) - 1
            let mounted = try await b.tryMount(["--disk-floor", "\(floor)"])
            #expect(mounted.err.contains("--disk-floor keeps"), "\(mounted)")
            try await b.waitFor("downloading-status", "current", of: ".ubiquityignore")
            try await b.waitUntilIdle()
            try await b.shell("echo object > x.o")
            #expect(try await b.attribute("is-excluded-from-sync", of: "x.o") == "1")
            for name in ["small", "large"] {
                let downloaded = try await b.ubiquity("download", name)
                #expect(downloaded.status == 0, "\(downloaded)")
            }
            let pinned = try await b.ubiquity("pin", "pinned")
            #expect(pinned.status == 1 && pinned.err.contains("pinned, but its content is not downloaded"), "\(pinned)")
            for condition in ["--idle", "--downloaded"] {
                let waited = try await b.ubiquity("wait", "pinned", options: [condition, "--timeout", "60"])
                #expect(waited.status == 1 && waited.err.contains("the disk has no space"), "\(waited)")
                #expect(waited.err.contains("--disk-floor keeps"), "\(waited)")
            }
            #expect(try await b.ubiquity("status").out.contains("--disk-floor keeps"))
            try await b.ubiquity("unpin", "pinned")
            try await b.waitUntilIdle()
            try await b.shell("cmp pinned large")
        }
    }
}
