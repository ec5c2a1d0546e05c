import Testing

/// Mounting again after a mount has ended.
@Suite struct RemountTests {
    /// The daemon still writes its index when umount(8) returns.
    @Test func mountRightAfterUmountWaitsForTheEndingDaemon() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            for round in 1...4 {
                try await a.shell("echo \(round) > f; mkdir d\(round)")
                try await world.shell("umount '\(a.mountPoint)'")
                let outcome = try await a.tryMount()
                #expect(outcome.status == 0, "round \(round): \(outcome)")
            }
            #expect(try await a.shell("cat f; ls -d d* | wc -l") == "4\n4")
        }
    }
}
