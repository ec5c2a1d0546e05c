import Logging
import Testing
import UbiquityCore
import UbiquitySystem

@testable import UbiquityDaemon

@Suite struct EmbeddedCloudTests {
    /// A start that fails is not tried again at once, unless a person asks for it.
    @Test func aFailedStartRestsUntilSomebodyAsks() async throws {
        let folder = Path.join(
            ProcessHost.variable("TMPDIR") ?? "/tmp", "ubiquity-embedded-\(UInt64.random(in: 0...UInt64.max))")
        try FileSystem.makeDirectories(folder)
        defer { try? FileSystem.removeTree(folder) }
        let obstacle = Path.join(folder, "obstacle")
        try SmallFile.publish([], at: obstacle)
        let cloud = EmbeddedCloud(
            data: Path.join(obstacle, "data"), pool: BlockingPool(name: "test", threads: 1),
            timekeeper: StoppedTime(), logger: Logger(label: "test"))
        let first = await #expect(throws: UbiquityError.self) { _ = try await cloud.ensureRunning() }
        #expect(first?.code == .offline)

        // Another obstacle shows whether it was tried anew.
        try FileSystem.unlink(obstacle)
        try FileSystem.symlink(obstacle, at: obstacle)
        let second = await #expect(throws: UbiquityError.self) { _ = try await cloud.ensureRunning() }
        #expect(second == first)
        cloud.forgetFailures()
        let third = await #expect(throws: UbiquityError.self) { _ = try await cloud.ensureRunning() }
        #expect(third != first)
    }
}

/// Time that does not pass.
private struct StoppedTime: Timekeeper {
    func now() -> Timestamp { Timestamp(nanoseconds: 0) }
    func uptime() -> Duration { .seconds(1) }
    func sleep(for duration: Duration) async throws {}
}
