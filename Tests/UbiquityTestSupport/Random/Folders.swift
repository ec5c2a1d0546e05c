internal import UbiquityCore
internal import UbiquityIndex

/// One device renames, exchanges and removes folders during its own commits; another device watches. Nobody else
/// changes anything, so only its own operations change the first device's tree.
struct Folders {
    private static let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]
    private static let operations = 600
    private static let deepest = 5

    private let world: Simulation
    private let random: SeededRandom
    private var device: SimulatedDevice { world.a }

    init(_ world: Simulation, seed: UInt64) {
        self.world = world
        random = SeededRandom(seed &+ 9)
    }

    func run() async throws {
        if random.chance(0.3) { device.link.setConditions(.bad) }
        var expected = try paths(device)
        for _ in 0..<Self.operations {
            // Bursts of operations, as from programs, during the device's own work.
            let longest = random.chance(0.1) ? Duration.milliseconds(50) : .milliseconds(1)
            try await world.sleep(random.duration(.microseconds(10)...longest))
            try require(expected, at: device)
            do { try await act() } catch is UbiquityError {
                // The kernel refuses these too: the name exists, or a folder would contain itself.
            }
            expected = try paths(device)
        }
        // In the end a user removes a part of it, entry by entry, as `rm -r` does.
        if let folder = try anyPath({ $0.kind == .directory }) { try await removeSlowly(folder) }
        expected = try paths(device)
        try await world.heal()
        try await world.settle()
        for device in world.devices { try require(expected, at: device) }
        try await world.check()
    }

    private func paths(_ device: SimulatedDevice) throws -> [String] { try device.paths().map(\.path).sorted() }

    private func require(_ expected: [String], at device: SimulatedDevice) throws {
        let seen = try paths(device)
        guard seen != expected else { return }
        let returned = Set(seen).subtracting(expected).sorted(), lost = Set(expected).subtracting(seen).sorted()
        throw UbiquityError(.damaged, "\(device.name) shows \(returned) that nobody made, and lacks \(lost)")
    }

    private func note(_ text: String) { world.world.trace.note("\(world.world.uptime) user of a \(text)") }

    private func anyPath(_ matches: (ItemRow) -> Bool = { _ in true }) throws -> String? {
        let paths = try device.paths().filter { matches($0.row) }
        return paths.isEmpty ? nil : random.pick(paths).path
    }

    private func newPath() throws -> String {
        let name = random.pick(Self.names)
        guard random.chance(0.8), let folder = try anyPath({ $0.kind == .directory }),
            folder.utf8.count(where: { $0 == UInt8(ascii: "/") }) < Self.deepest
        else { return name }
        return folder + "/" + name
    }

    private func act() async throws {
        switch random.below(33) {
        case 0...5:
            let path = try newPath()
            note("makes folder \(path)")
            try device.makeFolder(path)
        case 6...8:
            let path = try newPath()
            guard try device.row(path) == nil else { return }
            note("creates \(path)")
            try await device.create(path, random.bytes(random.below(33)))
        case 9...12:
            guard let old = try anyPath() else { return }
            let new = try newPath()
            note("renames \(old) to \(new)")
            try device.rename(old, new, .exclusive)
        case 13...16:
            guard let old = try anyPath(), let new = try anyPath() else { return }
            note("exchanges \(old) and \(new)")
            try device.rename(old, new, .exchanging)
        case 17:
            guard let path = try anyPath() else { return }
            note("removes \(path)")
            try device.remove(path)
        case 18...30:
            guard let path = try anyPath({ $0.kind == .directory }) else { return }
            try await moveOutAndRemove(path)
        default:
            guard let path = try anyPath({ $0.kind == .directory }) else { return }
            try await removeSlowly(path)
        }
    }

    /// Everything in a folder moves into a new one, and the folder is removed. In the order of changes the removal
    /// precedes the moves.
    private func moveOutAndRemove(_ folder: String) async throws {
        let new = try newPath()
        guard try device.row(new) == nil, new != folder, !new.hasPrefix(folder + "/") else { return }
        note("moves all of \(folder) to \(new)")
        let folder = try renamed(folder)
        try await world.sleep(random.duration(.microseconds(10)...(.milliseconds(60))))
        try device.makeFolder(new)
        for path in try paths(device) where path.hasPrefix(folder + "/") {
            let name = path.dropFirst(folder.count + 1)
            if !name.contains("/") { try device.rename(path, "\(new)/\(name)", .exclusive) }
        }
        if random.chance(0.3) { try await world.sleep(random.duration(.milliseconds(1)...(.milliseconds(30)))) }
        try device.remove(folder)
    }

    private func renamed(_ folder: String) throws -> String {
        let name = folder + "." + random.pick(Self.names)
        guard try device.row(name) == nil else { return folder }
        try device.rename(folder, name, .exclusive)
        return name
    }

    /// Removes entries from the innermost outwards, with commits in between.
    private func removeSlowly(_ folder: String) async throws {
        note("removes \(folder) entry by entry")
        let entries = try paths(device).filter { $0 == folder || $0.hasPrefix(folder + "/") }
        for path in entries.reversed() {
            try device.remove(path)
            if random.chance(0.3) { try await world.sleep(random.duration(.milliseconds(1)...(.milliseconds(30)))) }
        }
    }
}
