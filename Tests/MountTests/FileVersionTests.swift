import Testing
import UbiquityControl

/// `FileVersion` of the library, as a program uses it.
@Suite struct FileVersionTests {
    /// Two devices and a conflict about `f`: "from b" wins, "from a" loses.
    private func inConflict(_ world: World) async throws -> (Device, Device) {
        let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
        try await a.shell("echo base > f")
        try await world.settle(a, b)
        try await conflict(world, a, b, "from")
        return (a, b)
    }

    private func conflict(_ world: World, _ a: Device, _ b: Device, _ text: String) async throws {
        try await world.meet(a, "echo \(text) a > f", b, "echo \(text) b > f")
        for device in [a, b] { try await device.waitFor("conflict-count", "1", of: "f") }
    }

    @Test("PN-11, PN-18: versions are listed as they are now, each says whether it is in conflict; restore and resolve")
    func versions() async throws {
        try await World.run { world in
            let (a, b) = try await inConflict(world)
            let probe = try await LibraryProbe.start(a)
            #expect(try await probe.perform("versions f").dropLast() == [
                "version current f b true true true from b", "version conflict f a false true true from a",
                "version earlier f a true true true base", "nonlocal 2",
            ])
            try await probe.perform("restore f kept")
            #expect(try await a.shell("cat kept f") == "from a\nfrom b")
            // A restored version stays in conflict until somebody resolves the conflict.
            #expect(try await probe.perform("versions f").contains { $0.hasPrefix("version conflict") })
            #expect(try await probe.perform("resolve f").first == "resolved true")
            try await world.settle(a, b)
            try await b.waitFor("conflict-count", "0", of: "f")
            #expect(try await !probe.perform("versions f").contains { $0.hasPrefix("version conflict") })

            try await conflict(world, a, b, "again")
            let before = try await probe.perform("versions f")
            #expect(before.contains { $0.hasPrefix("version conflict") })
            try await b.ubiquity("resolve", "f")
            try await world.settle(b, a)
            #expect(try await !probe.perform("versions f").contains { $0.hasPrefix("version conflict") })
            try await probe.perform("clear f")
            try await world.settle(a, b)
            // Conflicts are resolved; earlier versions stay.
            #expect(try await b.shell("cat .versions/f/*").contains("base"))
            #expect(try await a.shell("cat f") == "again b")
        }
    }

    @Test("LK-18: listing versions is a read of their file, resolving them a write")
    func claims() async throws {
        try await World.run { world in
            let (a, _) = try await inConflict(world)
            try await a.shell("mkfifo ../go")
            let holder = try a.start("'\(World.program)' coordinate write f -- sh -c 'echo in; read -r line < ../go'")
            try await world.eventually("it is claimed") { holder.outputSoFar == "in\n" }
            #expect(try await a.attempt("rm .versions/f/*conflict*").err.contains("busy"))
            #expect(try await a.attempt("setfattr -n user.ubiquity.resolved -v 1 .versions/f/*conflict*").err.contains("busy"))
            let reader = try a.start("cat .versions/f/*conflict*")
            let probe = try await LibraryProbe.start(a)
            try await probe.begin("versions f")
            try await world.eventually("two readers wait") {
                try await a.status().coordination?.claims.filter { $0.state == "waiting" }.count == 2
            }
            try await world.shell("echo > '\(world.folder)/go'")
            #expect(try await reader.finish(within: 60).text == "from a")
            try await probe.waitUntilHeard("ok versions f")
            try await a.shell("rm .versions/f/*conflict*")
            try await a.waitFor("conflict-count", "0", of: "f")
        }
    }
}
