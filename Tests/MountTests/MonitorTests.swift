import Glibc
import Testing
import UbiquityControl

/// The output of `ubiquity monitor`.
@Suite struct MonitorTests {
    private static func events(_ monitor: Command) throws -> [ControlEvent] {
        var lines = monitor.outputSoFar.split(separator: "\n", omittingEmptySubsequences: false)
        // The last line may still be incomplete.
        lines.removeLast()
        return try lines.map { try ControlCodec.decode(ControlEvent.self, from: $0.utf8) }
    }

    private func monitor(_ world: World, _ device: Device) async throws -> Command {
        let monitor = try world.start([World.program, "monitor", "--json", device.mountPoint])
        try await world.eventually("it listens") { try Self.events(monitor).first?.kind == .listening }
        return monitor
    }

    @Test func monitorPrintsEventsAsTheyHappen() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await world.settle(a, b)
            let monitors = try [a, b].map { try world.start([World.program, "monitor", "--json", $0.mountPoint]) }
            for monitor in monitors {
                try await world.eventually("it listens") { try Self.events(monitor).first?.kind == .listening }
            }
            try await a.shell("head -c 300000 /dev/urandom > f; mkdir d")
            try await world.settle(a, b)
            try await b.shell("cat f > /dev/null; mv f d/g")
            try await world.settle(a, b)
            try await b.ubiquity("evict", "d/g")
            try await world.eventually("a prints its upload and the move") {
                let told = try Self.events(monitors[0])
                return told.contains { $0.kind == .uploadDone && $0.path == "f" }
                    && told.contains { $0.kind == .itemMoved && $0.path == "d/g" }
            }
            try await world.eventually("b prints the new file, its download and eviction") {
                let told = try Self.events(monitors[1])
                return told.contains { $0.kind == .itemAdded && $0.path == "f" }
                    && told.contains { $0.kind == .downloadDone } && told.contains { $0.kind == .evicted }
            }
            try await a.unmount()
            #expect(try await monitors[0].finish().status == 0)
            monitors[1].signal(SIGINT)
            try await monitors[1].finish()
        }
    }

    @Test func deletionsOnHoldAreAnEvent() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await b.shell("mkdir d; for n in $(seq 120); do echo $n > d/$n; done")
            try await world.settle(a, b)
            let monitor = try await monitor(world, a)
            try await a.shell("rm -r d")
            try await world.eventually("it prints the deletions on hold", within: 60) {
                try Self.events(monitor).contains {
                    $0.kind == .deletionsHeld && $0.error?.contains("'ubiquity deletions confirm' uploads them") == true
                }
            }
            monitor.signal(SIGINT)
            try await monitor.finish()
        }
    }

    @Test("presenters get questions, and slow ones are skipped")
    func coordination() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("echo old > f; echo text > g; echo text > h")
            try await a.waitUntilIdle()
            let monitor = try await monitor(world, a)
            func tells(_ kind: ControlEvent.Kind, _ holds: (ControlEvent) -> Bool) async throws {
                try await world.eventually("it prints \(kind): \(monitor.outputSoFar)") {
                    try Self.events(monitor).contains { $0.kind == kind && $0.client == "editor" && holds($0) }
                }
            }
            _ = try await Editor.start(a, "f", unsaved: "new text")
            #expect(try await a.shell("cat f") == "new text")
            try await tells(.asked) { $0.path == "f" && $0.steps == ["relinquish-to-reader", "save-changes"] }
            try await tells(.answered) { $0.path == "f" && $0.error == nil }
            try await tells(.reacquired) { $0.path == "f" }
            _ = try await Editor.start(a, "g", .refusing)
            #expect(try await a.attempt("cat g").status != 0)
            try await tells(.answered) { $0.path == "g" && $0.error == "not now" }
            _ = try await Editor.start(a, "h", .silent)
            #expect(try await a.shell("cat h") == "text")
            try await tells(.passedOver) { $0.path == "h" }
            let order = try Self.events(monitor).filter { $0.path == "f" && $0.client != nil }.map(\.kind)
            #expect(order == [.asked, .answered, .reacquired])
        }
    }

    @Test("gained, lost and resolved versions are reported")
    func versions() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("echo base > f; echo base > g")
            try await world.settle(a, b)
            try await world.meet(a, "echo loses > f", b, "echo wins > f")
            try await b.waitFor("conflict-count", "1", of: "f")
            let monitor = try await monitor(world, b)
            func tells(_ kind: ControlEvent.Kind, _ path: String, isConflict: Bool) async throws {
                try await world.eventually("it prints \(kind) of \(path): \(monitor.outputSoFar)") {
                    try Self.events(monitor).contains {
                        $0.kind == kind && $0.path == path && $0.isConflict == isConflict
                    }
                }
            }
            try await a.ubiquity("resolve", "f")
            try await tells(.versionResolved, "f", isConflict: true)
            try await world.meet(a, "echo loses > g", b, "echo wins > g")
            try await tells(.versionGained, "g", isConflict: true)
            try await b.shell("echo more >> f")
            try await b.waitUntilIdle()
            try await tells(.versionGained, "f", isConflict: false)
        }
    }
}
