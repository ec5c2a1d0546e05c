import Testing
import UbiquityTestSupport

/// Worlds drawn from seeds: in the end all devices have the same tree and nothing is lost. `scripts/simulate` runs
/// more.
@Suite struct RandomTests {
    @Test(arguments: Seeds.all) func seed(_ seed: UInt64) async throws {
        _ = try await Worlds.run { try PlanRun(Plan(seed: seed)).run() }
    }

    /// A fault that is seen in one profile only is planted in worlds of that profile.
    @Test(arguments: PlantedFault.allCases) func plantedFaultsAreFound(_ fault: PlantedFault) async throws {
        let found = try await Worlds.run { () -> UInt64? in
            for seed in 1...Seeds.faultLimit {
                let plan = Plan(seed: seed, kind: fault.profile)
                do { try PlanRun(plan, fault: fault).run() } catch is SimulationFailure { return seed }
            }
            return nil
        }
        #expect(found != nil)
    }
}
