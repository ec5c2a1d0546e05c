import UbiquitySystem
import UbiquityTestSupport

/// Simulated worlds, on threads of their own: each blocks the one that it runs on.
enum Worlds {
    private static let threads = BlockingPool(name: "simulated-worlds", threads: 4)

    static func run(
        seed: UInt64, _ options: Simulation.Options, _ scenario: @escaping @Sendable (Simulation) async throws -> Void
    ) async throws {
        try await threads.run { _ = try Simulation.run(seed: seed, options, scenario) }
    }
}

/// Tests whose worlds differ in devices and their settings only.
protocol WorldTests {
    static var seed: UInt64 { get }
}

extension WorldTests {
    func run(
        _ devices: [String] = ["a", "b"], _ settings: [String: SimulatedDevice.Settings] = [:],
        _ scenario: @escaping @Sendable (Simulation) async throws -> Void
    ) async throws {
        try await Worlds.run(seed: Self.seed, Simulation.Options(devices: devices, settings: settings), scenario)
    }
}
