import Testing
import UbiquitySync
import UbiquityTestSupport

/// Users who do anything at all on several devices, and what a network does to that: in the end everybody has the same
/// and nothing that was closed is lost.
@Suite struct RandomTests {
    /// A good network, all at once: only the order of things is random.
    @Test(arguments: Seeds.all) func together(seed: UInt64) async throws {
        try await Worlds.run(seed: seed, devices: ["a", "b"]) { world in
            try await Self.act(world, rounds: 2, actions: 25, pause: .milliseconds(1)...(.milliseconds(300)))
        }
    }

    /// Everything that can go wrong, with clocks that differ.
    @Test(arguments: Seeds.all) func storm(seed: UInt64) async throws {
        let settings: [String: SimulatedDevice.Settings] = [
            "b": .init(policy: .eager, skew: .seconds(-300)), "c": .init(skew: .seconds(86_400)),
            "d": .init(skew: .seconds(2), cacheLimit: 100_000),
        ]
        let names = Array(["a", "b", "c", "d"].prefix(2 + Int(seed % 3)))
        try await Worlds.run(seed: seed, devices: names, settings: settings) { world in
            try await Self.act(
                world, rounds: 2, actions: 30, pause: .milliseconds(1)...(.seconds(4)), weather: 8)
        }
    }

    /// Devices that work long without a network, and then meet.
    @Test(arguments: Seeds.all) func reunion(seed: UInt64) async throws {
        try await Worlds.run(seed: seed, devices: ["a", "b", "c"]) { world in
            try await Self.act(world, rounds: 1, actions: 12, pause: .milliseconds(1)...(.seconds(1)))
            for _ in 0..<3 {
                for device in world.devices { device.link.setAway(true) }
                try await Self.users(world, actions: 10, pause: .milliseconds(1)...(.seconds(30)))
                try await Self.finish(world)
            }
        }
    }

    private static func act(
        _ world: Simulation, rounds: Int, actions: Int, pause: ClosedRange<Duration>, weather: Int = 0
    ) async throws {
        for _ in 0..<rounds {
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await users(world, actions: actions, pause: pause) }
                if weather > 0 {
                    group.addTask { try await Self.forgetDeletions(world, weather) }
                }
                for device in world.devices where weather > 0 {
                    group.addTask {
                        try await Weather(device).change(weather, pause: .milliseconds(10)...(.seconds(15)))
                    }
                }
                try await group.waitForAll()
            }
            try await finish(world)
        }
    }

    /// The cloud forgets deletions now and then, so that devices that were away read the snapshot.
    private static func forgetDeletions(_ world: Simulation, _ times: Int) async throws {
        for _ in 0..<times / 3 {
            try await world.sleep(world.random.duration(.seconds(1)...(.seconds(60))))
            // Long enough that nobody reads a snapshot all that time.
            world.cloud.purge(olderThan: .seconds(60))
        }
    }

    private static func users(_ world: Simulation, actions: Int, pause: ClosedRange<Duration>) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for device in world.devices {
                group.addTask { try await RandomUser(device).act(actions, pause: pause) }
            }
            try await group.waitForAll()
        }
    }

    private static func finish(_ world: Simulation) async throws {
        try world.heal()
        try await world.settle()
        try await world.check()
    }
}
