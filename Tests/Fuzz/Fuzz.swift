import ArgumentParser
import CFuzz
import UbiquityFuzzing

/// Runs fuzz targets; see `scripts/fuzz`.
@main
struct Fuzz: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fuzz",
        abstract: "Run fuzz targets with random input.",
        discussion: "Targets: \(FuzzTarget.all.map(\.name).joined(separator: ", ")). Without one, all of them.")

    @Argument(help: "The targets.")
    var targets: [String] = []

    @Option(help: "The number of executions of each target; 0: until an interrupt.")
    var executions: UInt64 = 100_000

    @Option(help: "The seed of the executions.")
    var seed: UInt64 = 1

    @Option(help: "The first execution's number.")
    var from: UInt64 = 0

    @Option(help: "The process's memory limit in MiB.")
    var memory = 4096

    /// Executions between two readings of the clock.
    private static let batch: UInt64 = 256
    private static let reportEvery = Duration.seconds(10)

    func run() throws {
        let chosen = try targets.isEmpty ? FuzzTarget.all : targets.map { name in
            guard let target = FuzzTarget.named(name) else {
                throw ValidationError("there is no target '\(name)'; see 'scripts/fuzz --help'")
            }
            return target
        }
        CFuzz_limitMemory(memory << 20)
        var failed = false
        repeat {
            for target in chosen {
                do { try run(target) } catch {
                    print("\(target.name): \(error)")
                    failed = true
                }
            }
        } while executions == 0 && !failed && chosen.count == 1
        if failed { throw ExitCode.failure }
    }

    private func run(_ target: FuzzTarget) throws {
        let clock = ContinuousClock(), start = clock.now
        let end = executions == 0 ? UInt64.max : from &+ executions
        var next = from, nextReport = Self.reportEvery
        while next < end {
            let count = min(Self.batch, end - next)
            try target.run(seed: seed, from: next, executions: count, isWatched: true)
            next += count
            guard clock.now - start > nextReport else { continue }
            nextReport += Self.reportEvery
            report(target, next - from, clock.now - start, isEnd: false)
        }
        report(target, next - from, clock.now - start, isEnd: true)
    }

    private func report(_ target: FuzzTarget, _ count: UInt64, _ time: Duration, isEnd: Bool) {
        let rate = Double(count) / max(time / .seconds(1), 0.001)
        print("\(target.name): \(count) executions, \(Int(rate))/s\(isEnd ? "" : " …")")
    }
}
