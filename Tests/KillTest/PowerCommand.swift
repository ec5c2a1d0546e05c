import ArgumentParser
import Foundation

/// Cuts the power of a device's disk, which forgets unflushed writes.
struct PowerCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "power", abstract: "Cut the power of a device's disk at random points, and check for lost data.",
        discussion: "Needs root, for a loop device and its file system.")

    @Option(help: "The number of power cuts.") var cuts = 20
    @Option(help: "The number of cuts of one recorded run.") var every = 5
    @Option(help: "The length of a run in seconds.") var seconds = 3.0
    @Option(help: "The seed (default: random).") var seed: UInt64?
    @Flag(help: "Keep the folder at the end.") var keep = false

    func run() throws {
        let seed = seed ?? UInt64.random(in: 1...999_999)
        say("seed \(seed)")
        let world = try World(program: World.builtProgram, keepsFolder: keep)
        defer { world.end() }
        var cuts = try PowerCuts(world, seed: seed, seconds: seconds)
        defer { cuts.end() }
        do {
            try cuts.run(self.cuts, every: every)
        } catch {
            say("FAILED with seed \(seed) in \(world.folder): \(error)")
            throw ExitCode(1)
        }
        say(cuts.figures)
    }
}

struct PowerCuts {
    private let world: World
    private let disk: Disk
    private var random: Random
    private let seconds: Double
    private var device: Device
    private var readers = 0
    private var done = 0, files = 0
    private let start = ContinuousClock.now

    init(_ world: World, seed: UInt64, seconds: Double) throws {
        self.world = world
        self.seconds = seconds
        random = Random(seed: seed)
        disk = try Disk(world, name: "disk")
        device = try world.device("a", state: disk.mountPoint + "/state")
        try disk.format()
    }

    var figures: String {
        let seconds = Int((ContinuousClock.now - start) / .seconds(1))
        return "\(done) cuts in \(seconds) s: all that was synced was there and went up, on \(files) files looked at; "
            + "nothing torn"
    }

    func end() {
        device.end()
        do { try disk.detach() } catch { say("the disk cannot be detached: \(error)") }
    }

    mutating func run(_ cuts: Int, every: Int) throws {
        while done < cuts {
            let isOnline = random.chance(50)
            let (first, last) = try record(online: isOnline)
            // While the device was online, the cloud has its changes up to the end. Only a cut at the end is realistic
            // then.
            for _ in 0..<(isOnline ? 1 : min(every, cuts - done)) {
                let cut = isOnline ? last : first + random.below(last - first)
                try look(cut, random.pick(Disk.Fate.allCases), isLast: isOnline)
                done += 1
            }
            // The next run begins at the same state as this one.
            if !isOnline { try world.run("/bin/cp", baseJournal, device.journal) }
        }
    }

    /// Works for a while on the recorded disk. Returns the positions at the begin and at the end.
    private mutating func record(online: Bool) throws -> (Int, Int) {
        if !FileManager.default.fileExists(atPath: device.journal) { try world.run("/usr/bin/touch", device.journal) }
        try world.run("/bin/cp", device.journal, baseJournal)
        try disk.record(recorderProgram: World.builtProgram.replacing("/ubiquity", with: "/block-recorder"))
        try device.mount()
        if !online {
            try device.waitUntilIdle()
            try world.run(world.program, "offline", device.mountPoint)
        }
        let first = try disk.currentPosition()
        try device.startWorker(seed: random.next() % 1_000_000, position: disk.position)
        try device.awaitLook()
        // The cut may come at any moment. The delay is random and waits for no state.
        usleep(UInt32(seconds * 1_000_000 * Double(random.below(90) + 10) / 100))
        let last = try disk.currentPosition()
        try device.kill()
        try device.finishWorker()
        device.clearMount()
        if !online { try world.killCloud() }
        try disk.detach()
        return (first, last)
    }

    /// The device starts from the disk as the cut left it. Synced data must be there and must be uploaded.
    private mutating func look(_ cut: Int, _ fate: Disk.Fate, isLast: Bool) throws {
        let state = disk.base + ".cut"
        try disk.makeState(at: cut, fate, random: &random, into: state)
        let cloud = world.cloudData
        if !isLast {
            world.cloudData = "\(world.folder)/cloud.copy"
            try world.run("/bin/rm", "-rf", world.cloudData)
            try world.run("/bin/cp", "-a", cloud, world.cloudData)
        }
        say("cut at record \(cut), \(fate)\(isLast ? ", online" : "")")
        try disk.mount(state)
        try device.mount()
        try device.look(at: device, "--cut", "\(cut)")
        let here = try compareThroughCloud(cut)
        files += here.split(separator: "\n").count
        try device.unmount()
        try disk.detach()
        if isLast {
            try world.run("/bin/mv", state, disk.base)
            // From here on the found state counts.
            try noteFound(here)
        } else {
            try world.killCloud()
            world.cloudData = cloud
        }
    }

    /// Another device must get the same files after the upload, and later changes must return from the cloud.
    /// - Returns: the files that are there then.
    private mutating func compareThroughCloud(_ cut: Int) throws -> String {
        readers += 1
        try device.waitUntilIdle()
        let here = try device.look(at: device, "--cut", "\(cut)")
        let reader = try world.device("r\(readers)")
        try reader.mount()
        try reader.waitUntilIdle()
        let there = try reader.look(at: device, "--cut", "\(cut)")
        guard here == there else {
            throw Trouble("the other device has other files:\n\(difference([here, there]))")
        }
        try world.examine(device)
        try reader.kill()
        reader.end()
        return here
    }

    private func noteFound(_ picture: String) throws {
        var line = "O", unknown = "X"
        for text in picture.split(separator: "\n") {
            let words = text.split(separator: " ", maxSplits: 1)
            guard words.count == 2 else { continue }
            if words[1].hasPrefix("state("), let state = FileState(words[1].dropFirst(6).dropLast()) {
                line += " \(words[0])=\(state)"
            } else {
                unknown += " \(words[0])"
            }
        }
        // A save with an existing id would be confused with the earlier save.
        let last = "N \(try Journal(path: device.journal).count)"
        try Data([line, unknown, last, ""].joined(separator: "\n").utf8).write(to: URL(filePath: device.journal))
    }

    /// The journal that belongs to the state in `base`.
    private var baseJournal: String { device.journal + ".base" }
}
