import Testing
import UbiquityCore
import UbiquityIndex
import UbiquityTestSupport

/// A program that creates, links and removes names faster than the uploads.
@Suite struct RapidNamingTests {
    /// Nobody else changes anything: each name keeps the file that the program gave it, whatever the cloud is sent and
    /// answers meanwhile.
    @Test(arguments: 1...40) func onlyTheProgramChangesNames(seed: Int) async throws {
        try await Worlds.run(seed: UInt64(seed), Simulation.Options(devices: ["a", "b"], process: 1)) { world in
            if seed % 5 > 1 { try world.makeOthers() }
            try await world.slowDown(seed)
            var program = NamingProgram(seed: seed, world)
            for step in 0..<1500 where try await program.step() { try #require(try program.isSeenHere, "step \(step)") }
            try await world.settle()
            #expect(try program.isSeen(on: world.b))
            try await world.check()
        }
    }

    /// The cloud accepts a file that was given up before its content was there only with its content, and keeps no link
    /// to it until then.
    @Test func linkWaitsForRestoredTarget() async throws {
        try await Worlds.run(seed: 1, Simulation.Options(devices: ["a", "b"], process: 1)) { world in
            try await world.settle()
            for _ in 0..<4 { world.a.link.script(.upload, .hold(.seconds(20))) }
            try await world.a.create("f", Array(repeating: 1, count: 300_000))
            try await world.sleep(.seconds(2))
            try world.a.remove("f")
            try await world.sleep(.seconds(2))
            try await world.a.create("f", Array(repeating: 2, count: 300_000))
            try world.a.makeHardLink("g", to: "f")
            for _ in 0..<40 {
                try await world.sleep(.seconds(1))
                #expect(try world.a.row("g") != nil)
            }
            try await world.settle()
            for device in [world.a, world.b] { #expect(try device.row("g")?.ino == device.row("f")?.ino) }
            try await world.check()
        }
    }
}

/// Gives files names, and remembers which name belongs to which file.
private struct NamingProgram {
    private let world: Simulation
    private var random: SourcedGenerator
    private let names: [String]
    /// The maximal pause between two changes in milliseconds.
    private let pause: Int
    private let hasRenames: Bool
    /// The number of the file, by name.
    private var model: [String: Int] = [:]
    private var last = 0

    init(seed: Int, _ world: Simulation) {
        self.world = world
        random = SourcedGenerator(SeededRandom(UInt64(seed)))
        names = (0..<[4, 6, 12][seed / 4 % 3]).map { "f\($0)" }
        pause = [2, 10, 50, 200][seed % 4]
        hasRenames = seed % 2 == 0
    }

    /// - Returns: whether an operation was possible.
    mutating func step() async throws -> Bool {
        let device = world.a
        let name = names.randomElement(using: &random) ?? "", other = names.randomElement(using: &random) ?? ""
        switch (Int.random(in: 0..<(hasRenames ? 6 : 3), using: &random), model[name], model[other]) {
        case (0, nil, _):
            last += 1
            try await device.create(name, bytes())
            model[name] = last
        case (0, _?, _): try await device.overwrite(name, bytes())
        case (1, _?, _):
            try device.remove(name)
            model[name] = nil
        case (2, let file?, nil):
            try device.makeHardLink(other, to: name)
            model[other] = file
        case (3, let file?, let replaced) where file != replaced:
            try device.rename(name, other)
            (model[name], model[other]) = (nil, file)
        case (4, let one?, let two?) where one != two:
            try device.rename(name, other, .exchanging)
            (model[name], model[other]) = (two, one)
        case (5, _?, _): try device.setMode(name, 0o600 + UInt32.random(in: 0..<64, using: &random))
        default: return false
        }
        if Int.random(in: 0..<3, using: &random) == 0 {
            try await world.sleep(.milliseconds(Int.random(in: 1...pause, using: &random)))
        }
        return true
    }

    private mutating func bytes() -> [UInt8] {
        let size = [3, 5000, 70_000, 300_000].randomElement(using: &random) ?? 0
        return Array(repeating: UInt8.random(in: .min ... .max, using: &random), count: size)
    }

    var isSeenHere: Bool { get throws { try isSeen(on: world.a) } }

    /// Whether the device shows these names, and the same file under all names of one file.
    func isSeen(on device: SimulatedDevice) throws -> Bool {
        var inodes: [Int: UInt64] = [:]
        for name in names {
            let row = try device.row(name)
            guard let file = model[name], let row else {
                guard model[name] == nil, row == nil else { return false }
                continue
            }
            if inodes[file, default: row.ino] != row.ino { return false }
            inodes[file] = row.ino
        }
        return Set(inodes.values).count == inodes.count
    }
}
