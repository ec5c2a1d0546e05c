import Testing
import UbiquityTestSupport

/// A seed stands for one run: whoever has it sees the same failure.
@Suite struct DeterminismTests {
    @Test(arguments: [3, 4] as [UInt64]) func theSameSeedIsTheSameRun(seed: UInt64) async throws {
        let first = try await Self.run(seed)
        let second = try await Self.run(seed)
        #expect(first == second)
        let other = try await Self.run(seed + 10)
        #expect(first != other)
    }

    private static func run(_ seed: UInt64) async throws -> UInt64 {
        try await Worlds.run(seed: seed, devices: ["a", "b"]) { world in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for device in world.devices {
                    group.addTask { try await RandomUser(device).act(20, pause: .milliseconds(1)...(.seconds(2))) }
                    group.addTask { try await Weather(device).change(4, pause: .milliseconds(10)...(.seconds(10))) }
                }
                try await group.waitForAll()
            }
        }
    }
}
