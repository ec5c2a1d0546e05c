import Testing
import UbiquityTestSupport

/// A seed stands for one run: everyone who runs it sees the same failure.
@Suite struct DeterminismTests {
    @Test(arguments: 1...5 as ClosedRange<UInt64>) func sameSeedGivesTheSameTrace(seed: UInt64) async throws {
        let first = try await Worlds.run { try PlanRun(Plan(seed: seed)).run() }
        let second = try await Worlds.run { try PlanRun(Plan(seed: seed)).run() }
        #expect(first == second)
        let other = try await Worlds.run { try PlanRun(Plan(seed: seed + 10)).run() }
        #expect(first != other)
    }
}
