import Testing
import UbiquityControl

/// Restorations from the trash.
@Suite struct TrashTests {
    private func restored(_ outcome: Command.Outcome) throws -> TrashRestoreReport {
        try #require(outcome.status == 0, "\(outcome)")
        return try ControlCodec.decode(TrashRestoreReport.self, from: outcome.text.utf8)
    }

    /// Its folder is restored with it, and the answer to the restoration does not mention that.
    @Test func itemRestoredWithItsFolderHasAPath() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkdir -p Documents/d/e; echo 1 > Documents/d/e/one.txt; echo 2 > Documents/d/e/two.txt")
            try await world.settle(a, b)
            try await a.shell("rm -r Documents/d")
            try await world.settle(a, b)
            let report = try restored(
                await world.ubiquity("trash", "restore", "--json", b.mountPoint + "/Documents/d/e/one.txt"))
            #expect(report == TrashRestoreReport(path: "Documents/d/e/one.txt", items: 1))
            try await world.settle(b, a)
            #expect(try await a.shell("cat Documents/d/e/*") == "1")

            let other = try restored(
                await world.ubiquity(
                    "trash", "restore", "--json", "--to", b.mountPoint + "/Documents/other.txt",
                    b.mountPoint + "/Documents/d/e/two.txt"))
            #expect(other == TrashRestoreReport(path: "Documents/other.txt", items: 1))
            try await world.settle(b, a)
            #expect(try await a.shell("cat Documents/other.txt") == "2")
        }
    }

    /// An operation that programs may not do in a mount is refused to its commands too.
    @Test func readOnlyMountRefusesCommandsToo() async throws {
        try await World.run { world in
            let a = try await world.mounted("a"), b = try world.device("b")
            try await a.shell("echo 1 > f; echo x > gone")
            try await world.settle(a)
            try await a.shell("echo 2 > f; rm gone")
            try await world.settle(a)
            try await b.mount(["-o", "ro"])
            try await world.settle(b)
            let version = try await b.shell("ls .versions/f")
            for command in [
                ["restore", "\(b.mountPoint)/f", version], ["restore", "\(b.mountPoint)/f", version, "--to", "\(b.mountPoint)/g"],
                ["resolve", "\(b.mountPoint)/f"], ["trash", "restore", "\(b.mountPoint)/gone"],
            ] {
                let refused = try await world.attempt([World.program] + command)
                #expect(refused.status == 1 && refused.err.contains("read-only"), "\(command): \(refused)")
            }
            #expect(try await b.shell("ls; cat f") == "f\n2")
        }
    }

    /// For an existing folder only the entries that were deleted in it can be restored.
    @Test func existingFolderIsNotRestoredElsewhere() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("mkdir d; echo 1 > d/one; echo 2 > d/two")
            try await world.settle(a)
            try await a.shell("rm d/one")
            try await world.settle(a)
            let refused = try await world.ubiquity(
                "trash", "restore", "--to", a.mountPoint + "/new", a.mountPoint + "/d")
            #expect(refused.status == 1 && refused.err.contains("was not deleted, only items in it"), "\(refused)")
            #expect(try restored(await world.ubiquity("trash", "restore", "--json", a.mountPoint + "/d")).items == 1)
            try await world.settle(a)
            #expect(try await a.shell("cat d/*") == "1\n2")
        }
    }
}
