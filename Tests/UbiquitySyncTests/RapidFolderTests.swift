import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquityTestSupport

/// A program that creates, moves and removes folders faster than the uploads, or offline.
@Suite struct RapidFolderTests {
    /// A folder replaces a deleted one, whose deletion is still undecided, and their parent moves into it. The cloud,
    /// which sees a folder in itself, undoes moves that arrive alone.
    @Test(arguments: ["d2", "e"], [true, false]) func folderIsMovedIntoItsFormerChild(taken: String, isFile: Bool) async throws {
        try await Worlds.run(seed: 5, Simulation.Options(devices: ["a", "b"])) { world in
            let a = world.a
            try world.makeOthers()
            for path in ["x", "x/d1", "x/d1/s"] { try a.makeFolder(path) }
            try await a.create("x/d1/f", [1])
            try await isFile ? a.create("x/\(taken)", [2]) : a.makeFolder("x/\(taken)")
            try await world.settle()
            try a.remove("x/\(taken)")
            try a.rename("x/d1/s", "x/\(taken)")
            try a.rename("x/d1", "x/\(taken)/t")
            try await world.settle()
            for device in world.devices {
                #expect(try device.pathsOfInterest == ["x", "x/\(taken)", "x/\(taken)/t", "x/\(taken)/t/f"], "\(device.name)")
            }
            try await world.check()
        }
    }

    /// Nobody else changes anything.
    @Test(arguments: 1...60) func onlyTheProgramChangesTheTree(seed: Int) async throws {
        try await Worlds.run(seed: UInt64(seed), Simulation.Options(devices: ["a", "b"], process: 1)) { world in
            if seed % 4 > 0 { try world.makeOthers() }
            try await world.slowDown(seed, lostAnswers: seed % 5 == 0 ? 0.2 : 0)
            var program = FilingProgram(seed: seed, world)
            for step in 0..<600 where try await program.step() {
                try #require(try program.paths == world.a.pathsOfInterest, "step \(step): \(program.last)")
            }
            try world.a.setPaused(false)
            try await world.settle()
            for device in world.devices { #expect(try program.paths == device.pathsOfInterest, "\(device.name)") }
            try await world.check()
        }
    }
}

extension Simulation {
    /// Waits until all is synced. From then on the first device's network is as slow as the seed says.
    func slowDown(_ seed: Int, lostAnswers: Double = 0) async throws {
        try await settle()
        var conditions = NetworkConditions.perfect
        conditions.delay = .milliseconds(1)...(.milliseconds([3, 20, 100][seed % 3]))
        conditions.lostAnswers = lostAnswers
        a.link.setConditions(conditions)
    }

    /// So many items that a deletion waits a while for more.
    func makeOthers() throws {
        try a.makeFolder("z")
        for number in 0...DeletionGuard.harmless { try a.makeFolder("z/\(number)") }
    }
}

extension SimulatedDevice {
    var pathsOfInterest: [String] { get throws { try paths().map(\.path).filter { !$0.hasPrefix("z") } } }
}

/// Creates a tree of few names, and remembers it.
private struct FilingProgram {
    private let world: Simulation
    private var random: SourcedGenerator
    private let pause: Int
    private let isOfflineAtTimes: Bool
    private var isOffline = false
    private let names: [String]
    /// Whether the item at a path is a folder.
    private var tree: [String: Bool] = [:]
    /// Its last operations, for the report of a failure.
    private(set) var last: [String] = []

    init(seed: Int, _ world: Simulation) {
        self.world = world
        random = SourcedGenerator(SeededRandom(UInt64(seed)))
        pause = [2, 10, 50, 200][seed % 4]
        isOfflineAtTimes = seed % 2 == 0
        // A folder of the last name is one document.
        names = ["a", "b", "c", seed % 7 == 0 ? "d.rtfd" : "d"]
    }

    var paths: [String] { tree.keys.sorted { $0.split(separator: "/").lexicographicallyPrecedes($1.split(separator: "/")) } }

    /// - Returns: whether an operation was possible.
    mutating func step() async throws -> Bool {
        let done = try await change()
        if done, last.count > 12 { last.removeFirst() }
        if isOfflineAtTimes, Int.random(in: 0..<40, using: &random) == 0 {
            isOffline.toggle()
            try world.a.setPaused(isOffline)
        }
        if Int.random(in: 0..<3, using: &random) == 0 {
            try await world.sleep(.milliseconds(Int.random(in: 1...pause, using: &random)))
        }
        return done
    }

    private mutating func change() async throws -> Bool {
        let device = world.a
        let folders = [""] + tree.filter(\.value).keys.sorted()
        let folder = folders.randomElement(using: &random) ?? "", name = names.randomElement(using: &random) ?? ""
        let new = folder.isEmpty ? name : "\(folder)/\(name)"
        let old = tree.keys.sorted().randomElement(using: &random) ?? ""
        guard new.split(separator: "/").count < 6 else { return false }
        switch Int.random(in: 0..<10, using: &random) {
        case 0, 1:
            guard tree[new] == nil else { return false }
            last.append("mkdir \(new)")
            try device.makeFolder(new)
            tree[new] = true
        case 2:
            guard tree[new] == nil else { return false }
            last.append("make \(new)")
            try await device.create(new, [UInt8.random(in: .min ... .max, using: &random)])
            tree[new] = false
        case 3:
            guard !old.isEmpty, below(old).isEmpty || Int.random(in: 0..<4, using: &random) == 0 else { return false }
            last.append("rm \(old)")
            try device.remove(old)
            for path in below(old) + [old] { tree[path] = nil }
        case 4:
            guard !old.isEmpty, tree[new] != nil, new != old, !isWithin(new, old), !isWithin(old, new) else { return false }
            last.append("exchange \(old) \(new)")
            try device.rename(old, new, .exchanging)
            exchange(old, new)
        default:
            guard !old.isEmpty, new != old, !isWithin(new, old), let isFolder = tree[old] else { return false }
            if let there = tree[new] { guard there == isFolder, below(new).isEmpty else { return false } }
            last.append("mv \(old) \(new)")
            try device.rename(old, new)
            move(old, new)
        }
        return true
    }

    private func isWithin(_ path: String, _ folder: String) -> Bool { path.hasPrefix(folder + "/") }
    private func below(_ folder: String) -> [String] { tree.keys.filter { isWithin($0, folder) } }

    private mutating func move(_ old: String, _ new: String) {
        for path in below(old) + [old] { tree[new + path.dropFirst(old.count)] = tree.removeValue(forKey: path) }
    }

    private mutating func exchange(_ one: String, _ other: String) {
        move(one, "*")
        move(other, one)
        move("*", other)
    }
}
