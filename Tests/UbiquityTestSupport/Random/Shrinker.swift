internal import UbiquityCore

/// Searches for the shortest list of steps with which a plan still fails.
package struct Shrinker {
    /// The largest number of runs.
    private static let maximumRuns = 400

    private let fault: PlantedFault?
    private var runs = 0
    /// The failure of the shortest plan so far.
    package private(set) var failure: SimulationFailure
    package private(set) var plan: Plan

    package init(_ plan: Plan, _ failure: SimulationFailure, fault: PlantedFault?) {
        self.plan = plan
        self.failure = failure
        self.fault = fault
    }

    /// Omits parts of the list, large ones first, as long as the remaining steps fail.
    package mutating func shrink() {
        leaveOutRounds()
        leaveOutDevices()
        var size = max(1, plan.steps.count / 2)
        while runs < Self.maximumRuns, !plan.steps.isEmpty {
            let before = plan.steps.count
            leaveOutParts(of: size)
            if size == 1, plan.steps.count == before { return }
            size = max(1, min(size / 2, plan.steps.count / 2))
        }
    }

    private mutating func leaveOutRounds() {
        for round in stride(from: plan.rounds - 1, through: 0, by: -1) {
            attempt(plan.steps.filter { $0.round != round })
        }
    }

    private mutating func leaveOutDevices() {
        for device in stride(from: plan.devices - 1, through: 0, by: -1) {
            attempt(plan.steps.filter { $0.device != device })
        }
    }

    private mutating func leaveOutParts(of size: Int) {
        var start = 0
        while start < plan.steps.count, runs < Self.maximumRuns {
            var steps = plan.steps
            steps.removeSubrange(start..<min(start + size, steps.count))
            if !attempt(steps) { start += size }
        }
    }

    /// - Returns: whether the plan fails with these steps too; then they become the plan.
    @discardableResult
    private mutating func attempt(_ steps: [Step]) -> Bool {
        guard steps.count < plan.steps.count, runs < Self.maximumRuns else { return false }
        runs += 1
        let shorter = plan.with(steps)
        do { try PlanRun(shorter, fault: fault).run() } catch let found as SimulationFailure {
            plan = shorter
            failure = found
            return true
        } catch {}
        return false
    }
}
