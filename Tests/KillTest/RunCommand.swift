import ArgumentParser
import Foundation

/// Kills two devices and a cloud again and again while they work.
struct RunCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run", abstract: "Kill devices and the cloud at random moments, and check for lost data.")

    @Option(help: "The number of kills.") var rounds = 200
    @Option(help: "The number of rounds between two full comparisons.") var every = 25
    @Option(help: "The limit in seconds for the whole run.") var within = Double.infinity
    @Option(help: "The seed (default: random).") var seed: UInt64?
    @Flag(help: "Keep the folder at the end.") var keep = false

    func run() throws {
        let seed = seed ?? UInt64.random(in: 1...999_999)
        say("seed \(seed)")
        let world = try World(program: World.builtProgram, keepsFolder: keep)
        defer { world.end() }
        var rounds = try KillRounds(world, seed: seed)
        do {
            try rounds.run(self.rounds, every: every, within: within)
        } catch {
            world.keepsFolder = true
            say("FAILED with seed \(seed) in \(world.folder): \(error)")
            throw ExitCode(1)
        }
        say(rounds.figures)
        guard rounds.done < self.rounds else { return }
        say("FAILED: not all of the \(self.rounds) rounds within \(Int(within)) s")
        throw ExitCode(1)
    }
}

struct KillRounds {
    private let world: World
    private let a: Device, b: Device
    private var random: Random
    private var kills = (devices: 0, clouds: 0)
    private(set) var done = 0
    private let start = ContinuousClock.now

    init(_ world: World, seed: UInt64) throws {
        self.world = world
        random = Random(seed: seed)
        a = try world.device("a")
        b = try world.device("b")
    }

    var figures: String {
        let seconds = (ContinuousClock.now - start) / .seconds(1)
        return "\(done) rounds in \(Int(seconds)) s: killed devices \(kills.devices) times and the cloud "
            + "\(kills.clouds) times; nothing lost, nothing torn, all the same everywhere"
    }

    mutating func run(_ rounds: Int, every: Int, within limit: Double) throws {
        for device in [a, b] { try device.mount() }
        for device in [a, b] { try device.startWorker(seed: random.next() % 1_000_000) }
        for device in [a, b] { try device.awaitLook() }
        for round in 1...rounds {
            // The kill may come at any moment. The delay is random and waits for no state.
            usleep(UInt32(random.below(250) + 10) * 1000)
            try kill()
            done = round
            let isLast = round == rounds || (ContinuousClock.now - start) / .seconds(1) > limit
            if round % every == 0 || isLast { try compare() }
            if isLast { return }
        }
    }

    /// One round: kills something and restarts it.
    private mutating func kill() throws {
        let choice = random.below(10)
        let devices = choice < 4 ? [a] : choice < 6 ? [b] : choice < 8 ? [a, b] : []
        if choice == 5 || choice >= 7 {
            try world.killCloud()
            kills.clouds += 1
        }
        for device in devices {
            try device.kill()
            kills.devices += 1
        }
        for device in devices { try device.finishWorker() }
        let mounting = try devices.map { try $0.startMounting() }
        for program in mounting { try program.succeed() }
        // Each worker checks its own files first, and then continues.
        for device in devices { try device.startWorker(seed: random.next() % 1_000_000) }
        for device in devices { try device.awaitLook() }
    }

    /// Stops the load and waits until all is synced. Then every file must be as written, on both devices.
    private mutating func compare() throws {
        for device in [a, b] { try device.stopWorker() }
        for device in [a, b, a, b] { try device.waitUntilIdle() }
        for writer in [a, b] {
            let pictures = try [a, b].map { try $0.look(at: writer) }
            guard pictures[0] == pictures[1] else {
                throw Trouble("the devices differ in \(writer.name)'s folder:\n\(difference(pictures))")
            }
        }
        for device in [a, b] {
            try world.examine(device)
        }
        say("round \(done): all well after \(Int((ContinuousClock.now - start) / .seconds(1))) s")
        for device in [a, b] { try device.startWorker(seed: random.next() % 1_000_000) }
        for device in [a, b] { try device.awaitLook() }
    }
}

/// The lines that only one of two texts has.
func difference(_ texts: [String]) -> String {
    let sets = texts.map { Set($0.split(separator: "\n")) }
    let only = sets[0].subtracting(sets[1]).map { "- \($0)" } + sets[1].subtracting(sets[0]).map { "+ \($0)" }
    return only.sorted { $0.dropFirst(2) < $1.dropFirst(2) }.prefix(20).joined(separator: "\n")
}
