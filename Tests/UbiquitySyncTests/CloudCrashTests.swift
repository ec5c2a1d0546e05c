import Testing
import UbiquityCore
import UbiquityTestSupport

/// The real cloud on a disk that loses unsynced data. The seed decides about the survivors.
@Suite struct CloudCrashTests {
    private func run(_ seed: UInt64, _ scenario: @escaping @Sendable (Simulation) async throws -> Void) async throws {
        try await Worlds.run(seed: seed, Simulation.Options(hasCloudOnDisk: true)) { world in
            try await scenario(world)
            try await world.heal()
            try await world.settle()
            try await world.check()
        }
    }

    /// Also if the power failed soon after its creation, with only synced data on the disk.
    @Test(arguments: 1...8 as ClosedRange<UInt64>) func acknowledgedCommitIsDurable(seed: UInt64) async throws {
        try await run(seed) { world in
            try await world.a.create("small", [1, 2])
            try await world.a.create("large", world.random.bytes(300_000))
            try await world.settle()
            world.cloud.crash(afterWrites: 1, powerLoss: true, downFor: .seconds(1))
            try await world.a.edit("small") { _ in [3] }
            try await world.sleep(.seconds(5))
            try await world.settle()
            #expect(try await world.b.read("small") == [3])
            #expect(try await world.b.read("large").count == 300_000)
        }
    }

    /// A crash at each of the writes of a commit with a large content.
    @Test(arguments: 1...40) func interruptedCommitIsAtomic(write: Int) async throws {
        try await run(UInt64(write)) { world in
            try await world.a.create("f", [1])
            try await world.settle()
            world.cloud.crash(afterWrites: write, powerLoss: write % 3 > 0, downFor: .seconds(2))
            try await world.a.create("large", world.random.bytes(300_000))
            try await world.sleep(.seconds(10))
        }
    }
}
