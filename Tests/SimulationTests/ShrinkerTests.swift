import Testing
import UbiquityTestSupport

/// The report of a failing seed: the same each time, and as short as possible.
@Suite struct ShrinkerTests {
    private struct Failing: Sendable {
        var plan: Plan
        var failure: SimulationFailure

        /// Without the name of the world's folder, which is random.
        var told: [String] {
            [failure.reason, failure.trace].map { $0.replacing(/ubiquity-simulation-[0-9a-f]+/, with: "") }
        }
    }

    /// Nil if the plan does not fail.
    private static func run(_ plan: Plan, _ fault: PlantedFault) throws -> Failing? {
        do { try PlanRun(plan, fault: fault).run() } catch let failure as SimulationFailure {
            return Failing(plan: plan, failure: failure)
        }
        return nil
    }

    /// The first seed of a kind of world in which the fault shows.
    private static func firstFailing(_ fault: PlantedFault, _ profile: Profile) throws -> Failing? {
        for seed in 1...Seeds.faultLimit {
            let plan = Plan(seed: seed)
            guard plan.profile == profile else { continue }
            if let found = try run(plan, fault) { return found }
        }
        return nil
    }

    /// The kinds of worlds are those in which the fault shows soon.
    @Test(arguments: [(PlantedFault.conflictRule, Profile.pairs), (.skippedSync, .disks)])
    func failingSeedPrintsTheSameEachTime(_ fault: PlantedFault, _ profile: Profile) async throws {
        let first = try #require(try await Worlds.run { try Self.firstFailing(fault, profile) })
        let again = try await Worlds.run { try Self.run(Plan(seed: first.plan.seed), fault) }
        #expect(again?.told == first.told)
    }

    /// A world with a broken conflict rule needs all its steps.
    @Test func shrunkHistoryHasNoSuperfluousStep() async throws {
        let found = try #require(try await Worlds.run { try Self.firstFailing(.skippedSync, .disks) })
        let shrunk = try await Worlds.run { () -> Failing in
            var shrinker = Shrinker(found.plan, found.failure, fault: .skippedSync)
            shrinker.shrink()
            return Failing(plan: shrinker.plan, failure: shrinker.failure)
        }
        let steps = shrunk.plan.steps
        #expect(!steps.isEmpty && steps.count < found.plan.steps.count)
        let again = try await Worlds.run { try Self.run(shrunk.plan, .skippedSync) }
        #expect(again?.told == shrunk.told)
        let needless = try await Worlds.run { () -> [Int] in
            try steps.indices.filter { place in
                var fewer = steps
                fewer.remove(at: place)
                return try Self.run(shrunk.plan.with(fewer), .skippedSync) != nil
            }
        }
        #expect(needless.isEmpty, "of \(steps.count) steps")
    }
}
