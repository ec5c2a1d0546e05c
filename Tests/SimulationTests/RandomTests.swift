import Testing
import UbiquityTestSupport

/// Worlds drawn from seeds: in the end all devices have the same tree and nothing is lost. `scripts/simulate` runs
/// more.
@Suite struct RandomTests {
    @Test(arguments: Seeds.all) func seed(_ seed: UInt64) async throws {
        _ = try await Worlds.run { try PlanRun(Plan(seed: seed)).run() }
    }

    /// A fault put in on purpose is found.
    @Test(arguments: PlantedFault.allCases.filter { $0.profile == nil }) func plantedFaultsAreFound(_ fault: PlantedFault) async throws {
        let found = try await Worlds.run { () -> UInt64? in
            for seed in 1...Seeds.faultLimit where fault.profile.map({ Plan(seed: seed).profile == $0 }) ?? true {
                do { try PlanRun(Plan(seed: seed), fault: fault).run() } catch is SimulationFailure { return seed }
            }
            return nil
        }
        #expect(found != nil)
    }
}
