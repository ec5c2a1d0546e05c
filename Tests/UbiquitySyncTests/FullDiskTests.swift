import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityTestSupport
@testable import UbiquitySync

/// A content arrives on a full disk: its reader waits for a moment if an eviction is possible, and otherwise fails.
@Suite struct FullDiskTests: WorldTests {
    static let seed: UInt64 = 11

    /// Device b has a content, evictable if `isEvictable`, and reads another one. The disk is full during that
    /// download, for `time`.
    private func read(_ world: Simulation, isEvictable: Bool, full time: Duration) async throws -> [UInt8] {
        try await world.a.create("old", Array(repeating: 1, count: 300_000))
        try await world.a.create("new", Array(repeating: 2, count: 300_000))
        try await world.settle()
        if isEvictable { _ = try await world.b.read("old") }
        try await world.settle()
        var slow = NetworkConditions.perfect
        slow.delay = .seconds(2)...(.seconds(2))
        world.b.link.setConditions(slow)
        async let bytes = world.b.read("new")
        try await world.sleep(.seconds(1))
        world.b.disk.setFull(true)
        try await world.sleep(.seconds(1) + time)
        world.b.disk.setFull(false)
        world.b.link.setConditions(.perfect)
        return try await bytes
    }

    @Test func readerWaitsForEvictedSpace() async throws {
        try await run { world in
            let bytes = try await read(world, isEvictable: true, full: .milliseconds(800))
            #expect(bytes == Array(repeating: 2, count: 300_000))
        }
    }

    /// After some seconds, or at once if nothing can be evicted.
    @Test(arguments: [(true, 30.0), (false, 0.8)]) func readerGetsTheError(isEvictable: Bool, time: Double) async throws {
        try await run { world in
            do {
                _ = try await read(world, isEvictable: isEvictable, full: .seconds(time))
                Issue.record("it was read")
            } catch let error as UbiquityError { #expect(error.code == .noSpace) }
            let bytes = try await world.b.read("new")
            #expect(bytes == Array(repeating: 2, count: 300_000))
        }
    }
}
