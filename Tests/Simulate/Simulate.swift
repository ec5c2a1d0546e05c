import ArgumentParser
import UbiquityTestSupport

/// Runs simulated worlds, one seed after the other; see `scripts/simulate`.
@main
struct Simulate: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "simulate",
        abstract: "Run simulated worlds of devices and a cloud, each drawn from a seed.")

    @Option(help: "The number of seeds.")
    var seeds: UInt64 = 100

    @Option(help: "The first seed.")
    var first: UInt64 = 1

    @Option(help: "The kind of every world, such as storm, folders or hostile. Otherwise a seed draws it.")
    var profile: Profile?

    @Option(help: "Run only every n-th seed, for several processes.")
    var stride: UInt64 = 1

    @Option(help: "Run only this seed.")
    var seed: UInt64?

    @Option(help: "A fault to plant: \(PlantedFault.allCases.map(\.rawValue).joined(separator: ", ")).")
    var `break`: PlantedFault?

    @Flag(help: "Print the whole trace of the shortest failing world.")
    var trace = false

    @Flag(help: "Do not search for a shorter history.")
    var noShrink = false

    @Flag(help: "Run random claims of programs and apps on an arbiter, instead of devices and a cloud.")
    var claims = false

    @Flag(help: "Run random sets of key-values on devices and two accounts, instead of documents.")
    var keyValues = false

    @Option(help: "A fault of the key-values to plant: \(KeyValueFault.allCases.map(\.rawValue).joined(separator: ", ")).")
    var breakKeyValues: KeyValueFault?

    @Flag(help: "Print each seed with the hash of its trace.")
    var hashes = false

    @Option(help: "Stop after so many failing seeds.")
    var failures = 10

    @Option(help: "The limit in seconds for all seeds.")
    var within = Double.infinity

    func run() throws {
        let clock = ContinuousClock(), start = clock.now
        var seconds: Double { (clock.now - start) / .seconds(1) }
        let begin = seed ?? first, end = begin + (seed == nil ? seeds : 1)
        let all = Array(Swift.stride(from: begin, to: end, by: Int(stride)))
        var count = 0, failed: [UInt64] = []
        for seed in all {
            if seconds > within { break }
            count += 1
            let isGood = try keyValues || breakKeyValues != nil
                ? runKeyValues(seed) : claims ? runClaims(seed) : runWorld(seed)
            if !isGood {
                failed.append(seed)
                if failed.count >= failures || `break` != nil || breakKeyValues != nil { break }
            }
        }
        let isLate = seconds > within
        print("\(count) seeds, \(failed.count) failed\(failed.isEmpty ? "" : " (\(failed))"), \(Int(seconds)) s")
        if isLate { print("FAILED: not all of the \(all.count) seeds within \(Int(within)) s") }
        guard failed.isEmpty, !isLate else { throw ExitCode.failure }
    }

    private func runWorld(_ seed: UInt64) throws -> Bool {
        let plan = Plan(seed: seed, kind: profile ?? `break`?.profile)
        do {
            let hash = try PlanRun(plan, fault: `break`).run()
            if hashes { print("\(seed) \(plan.profile.rawValue) \(String(hash, radix: 16))") }
        } catch let failure as SimulationFailure {
            report(plan, failure)
            return false
        }
        return true
    }

    private func runClaims(_ seed: UInt64) -> Bool {
        var run = RandomArbiter(seed: seed)
        guard let failure = run.play() else { return true }
        print("seed \(seed) failed: \(failure)\nagain: scripts/simulate --claims --seed \(seed)\n")
        return false
    }

    private func runKeyValues(_ seed: UInt64) -> Bool {
        var run = RandomKeyValues(seed: seed, fault: breakKeyValues)
        guard let failure = run.play() else { return true }
        let fault = breakKeyValues.map { " --break-key-values \($0.rawValue)" } ?? ""
        print("seed \(seed) failed: \(failure)\nagain: scripts/simulate --key-values --seed \(seed)\(fault)\n")
        return false
    }

    private func report(_ plan: Plan, _ failure: SimulationFailure) {
        print("seed \(plan.seed) (\(plan.profile.rawValue)) failed: \(failure.reason)")
        var shortest = (plan: plan, failure: failure)
        if !noShrink {
            var shrinker = Shrinker(plan, failure, fault: `break`)
            shrinker.shrink()
            shortest = (shrinker.plan, shrinker.failure)
            print("the shortest history found has \(shortest.plan.steps.count) of \(plan.steps.count) steps:")
        }
        print(trace ? shortest.failure.trace : shortest.failure.history)
        print(shortest.failure.reason)
        let kind = profile.map { " --profile \($0.rawValue)" } ?? ""
        let fault = `break`.map { " --break \($0.rawValue)" } ?? ""
        print("again: scripts/simulate --seed \(plan.seed)\(kind)\(fault)\n")
    }
}

extension PlantedFault: ExpressibleByArgument {}
extension Profile: ExpressibleByArgument {}
extension KeyValueFault: ExpressibleByArgument {}
