import Glibc
import UbiquitySystem
import UbiquityTestSupport

/// The seeds of a run: those of every test run, a given number of them, or a single one.
enum Seeds {
    /// The number of seeds in an ordinary test run.
    private static let usual: UInt64 = 20
    /// Limit of seeds in which a planted fault must be found.
    static let faultLimit: UInt64 = 1000

    /// - `UBIQUITY_SEED=n`: this one only. `UBIQUITY_SEEDS=n`: so many, from `UBIQUITY_FIRST_SEED` (1) on.
    static var all: [UInt64] {
        if let one = number("UBIQUITY_SEED") { return [one] }
        let first = number("UBIQUITY_FIRST_SEED") ?? 1
        return Array(first..<first + max(1, number("UBIQUITY_SEEDS") ?? usual))
    }

    private static func number(_ name: String) -> UInt64? {
        guard let value = getenv(name) else { return nil }
        return UInt64(String(cString: value))
    }
}

/// Threads that simulated worlds may block: one world at a time runs on each.
enum Worlds {
    private static let threads = BlockingPool(name: "simulation", threads: 2)

    /// Runs a world on a thread of its own.
    static func run<T: Sendable>(_ world: @escaping @Sendable () throws -> T) async throws -> T {
        try await threads.run(world)
    }
}
