import ArgumentParser
import DatabaseSimulation
import UbiquityDatabase

/// Runs simulated worlds of devices with one synced database, one seed after the other.
@main
struct SimulateDatabases: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "simulate-databases",
        abstract: "Run simulated worlds of devices with one synced database, each drawn from a seed.")

    @Option(help: "The number of seeds.")
    var seeds: UInt64 = 100

    @Option(help: "The first seed.")
    var first: UInt64 = 1

    @Option(help: "Run only every n-th seed, for several processes.")
    var stride: UInt64 = 1

    @Option(help: "Run only this seed, and print its history.")
    var seed: UInt64?

    @Option(help: "A fault to plant: \(DatabaseFault.allCases.map(\.rawValue).joined(separator: ", ")).")
    var `break`: DatabaseFault?

    @Option(help: "Stop after so many failing seeds.")
    var failures = 10

    func run() throws {
        let clock = ContinuousClock(), start = clock.now
        let begin = seed ?? first, end = begin + (seed == nil ? seeds : 1)
        var count = 0, failed: [UInt64] = []
        for seed in Swift.stride(from: begin, to: end, by: Int(stride)) {
            count += 1
            var world = DatabaseWorld(seed: seed, fault: `break`)
            do { try world.run() } catch {
                if self.seed != nil { for line in world.history { print(line) } }
                print("\(error)\nagain: simulate-databases --seed \(seed)\(`break`.map { " --break \($0)" } ?? "")")
                failed.append(seed)
                if failed.count >= failures || `break` != nil { break }
            }
        }
        let seconds = (clock.now - start) / .seconds(1)
        print("\(count) seeds, \(failed.count) failed\(failed.isEmpty ? "" : " (\(failed))"), \(Int(seconds)) s")
        guard failed.isEmpty else { throw ExitCode.failure }
    }
}

extension DatabaseFault: ExpressibleByArgument {}
