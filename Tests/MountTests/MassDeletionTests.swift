import Testing

/// A deletion by mistake on one device does not empty the others.
@Suite(.serialized) struct MassDeletionTests {
    private static let make = "mkdir -p d/e; for n in $(seq 80); do echo $n > d/$n; echo $n > d/e/$n; done; echo x > keep"

    @Test func massDeletionIsHeldAndUndone() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            // Another device made them: a device may delete its own fresh files without a question.
            try await b.shell(Self.make)
            try await world.settle(a, b)
            let listing = try await b.shell("find . | sort")
            // Offline, so that all deletions are made before the first upload.
            try await a.ubiquity("offline", "")
            try await a.shell("rm -r d; echo goes > on")
            try await a.ubiquity("online", "")
            let waited = try await a.ubiquity("wait", "", options: ["--uploaded", "--timeout", "60"])
            #expect(waited.status == 1)
            #expect(waited.err.contains("162 deletions are on hold"), "\(waited)")
            // The message has their names, and not all of them.
            #expect(waited.err.contains("/80 (deleted)") || waited.err.contains("d/1 (deleted)"), "\(waited)")
            #expect(waited.err.split(separator: "\n").count < 30)
            #expect(try await a.ubiquity("status").out.contains("162 deletions"))
            let stayed = try await a.ubiquity("unmount", "", options: ["--wait-uploaded"])
            #expect(stayed.status == 1 && stayed.err.contains("162 deletions are on hold"), "\(stayed)")
            // All other changes continue.
            try await b.waitUntil("test -e on")
            #expect(try await b.shell("find . | sort | grep -v on") == listing)
            let unmounted = try await a.unmount()
            #expect(unmounted.err.contains("kept here: 162 deletions are on hold"), "\(unmounted)")
            try await a.mount()
            // Also after a crash.
            try await a.kill()
            try await a.mount()
            #expect(try await a.ubiquity("wait", "", options: ["--uploaded", "--timeout", "60"]).err.contains("are on hold"))
            #expect(try await a.ubiquity("deletions", "", options: ["undo"]).out.contains("162 items"))
            try await world.settle(a, b)
            #expect(try await a.shell("find . | sort | grep -v on") == listing)
            #expect(try await a.shell("cat d/e/80") == "80")
        }
    }

    @Test func heldDeletionsAreConfirmed() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await b.shell(Self.make)
            try await world.settle(a, b)
            try await a.shell("rm -r d/*; echo new > keep")
            #expect(try await a.ubiquity("wait", "", options: ["--uploaded", "--timeout", "60"]).status == 1)
            let waited = try await a.ubiquity("wait", "d", options: ["--uploaded", "--timeout", "60"])
            #expect(waited.status == 1 && waited.err.contains("161 deletions are on hold"), "\(waited)")
            #expect(try await a.ubiquity("wait", "keep", options: ["--uploaded", "--timeout", "60"]).status == 0)
            #expect(try await b.shell("find d | wc -l") != "1")
            #expect(try await a.ubiquity("deletions", "", options: ["confirm"]).out.contains("deletions confirmed"))
            try await world.settle(a, b)
            try await b.waitUntil("test -z \"$(ls -A d)\"")
            #expect(try await !world.ubiquity("status", "--state", a.state).out.contains("deletions"))
        }
    }

    @Test func ownFreshTreeIsDeletedWithoutQuestion() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell(Self.make)
            try await world.settle(a, b)
            try await a.shell("rm -r d")
            try await world.settle(a, b)
            try await b.waitUntil("test \"$(ls -A)\" = keep")
        }
    }

    @Test func allowMassDeleteSkipsTheHold() async throws {
        try await World.run { world in
            let a = try world.device("a")
            try await a.mount(["--allow-mass-delete"])
            let b = try await world.mounted("b")
            try await b.shell(Self.make)
            try await world.settle(a, b)
            try await a.shell("rm -r d")
            try await world.settle(a, b)
            try await b.waitUntil("test \"$(ls -A)\" = keep")
        }
    }
}
