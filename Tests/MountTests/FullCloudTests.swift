import Glibc
import Testing
import UbiquityControl

/// The disk of the cloud is full.
@Suite(.serialized) struct FullCloudTests {
    @Test func fullCloudAcceptsDeletionsAndSmallChanges() async throws {
        try await World.run { world in
            try await world.shell("mkdir '\(world.cloudData)'; mount -t tmpfs -o mode=700,size=40m tmpfs '\(world.cloudData)'")
            world.noteMounted(world.cloudData)
            let a = try await world.mounted("a")
            try await a.shell("head -c 10000000 /dev/urandom > f")
            try await a.waitUntilIdle()
            try await a.shell("head -c 40000000 /dev/urandom > large; mkdir d; mv f d/g")
            // A change that needs no space is uploaded meanwhile.
            try await a.waitFor("uploading-error-code", "noSpace", of: "large", within: 60)
            try await world.eventually("the error is shown") {
                try await a.ubiquity("status").out.contains("the cloud's disk is full")
            }
            try await a.wait("--uploaded", "d", within: 60)
            try await a.shell("rm large")
            try await a.wait("--uploaded", within: 60)
            #expect(try await a.status().pending.isEmpty)
        }
    }

    /// The cloud does not know the file, and its attributes say why.
    @Test func newFileBeyondTheSpaceShowsItsError() async throws {
        try await World.run { world in
            let cloud = try world.start(
                [World.program, "serve", "--embedded", "--data", world.cloudData, "--quota", "1M"])
            try await world.eventually("it listens") { cloud.outputSoFar.contains("listening on ") }
            let a = try await world.mounted("a")
            try await a.shell("head -c 3000000 /dev/urandom > large; echo 1 > small")
            try await a.waitFor("uploading-error-code", "quotaExceeded", of: "large", within: 60)
            try await a.waitFor("is-uploaded", "1", of: "small", within: 60)
        }
    }
}
