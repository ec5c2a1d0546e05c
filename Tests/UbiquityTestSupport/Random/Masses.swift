internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySync

/// Very many files are removed at once on one device, and another may edit one of them meanwhile. The cloud keeps all
/// files until the user of the first device confirms or undoes the deletion, whatever faults happen in between.
struct Masses {
    private static let folder = "many"

    private let world: Simulation
    private let random: SeededRandom
    private let count: Int

    init(_ world: Simulation, seed: UInt64) {
        self.world = world
        random = SeededRandom(seed &+ 8)
        count = DeletionGuard.harmless + 1 + random.below(20)
    }

    private func path(_ number: Int) -> String { "\(Self.folder)/\(number)" }

    func run() async throws {
        try world.a.makeFolder(Self.folder)
        for number in 0..<count { try await world.a.create(path(number), random.bytes(1 + random.below(30))) }
        try await world.settle()
        // A deletion of fresh items needs no confirmation.
        try await world.sleep(.seconds(DeletionGuard.freshAge))
        try await world.settle()
        let edited = random.below(count), isEdited = random.chance(0.5)
        if random.chance(0.3) { world.a.link.setAway(true) }
        world.world.trace.note("\(world.world.uptime) user of a removes \(Self.folder), \(count) files")
        try world.a.remove(Self.folder)
        try world.a.syncFolder()
        try await misfortune()
        if isEdited {
            try? await world.b.saveOver(path(edited), [1, 2, 3])
            try await world.sleep(.seconds(5))
        }
        try await misfortune()
        try await world.heal()
        try await world.sleep(.seconds(20))
        try await requireHeld()
        let isConfirmed = random.chance(0.5)
        world.world.trace.note("\(world.world.uptime) user of a \(isConfirmed ? "confirms" : "takes it back")")
        _ = isConfirmed ? try world.a.engine.confirmDeletions() : try world.a.engine.undoDeletions()
        try await world.settle()
        try await world.check()
        try requireOutcome(isConfirmed ? (isEdited ? [path(edited)] : []) : (0..<count).map(path))
    }

    private func misfortune() async throws {
        switch random.below(5) {
        case 0: world.a.crash()
        case 1: world.a.crash(powerLoss: true)
        case 2: world.b.crash()
        default: break
        }
        try await world.sleep(.seconds(random.below(10)))
        for device in world.devices where !device.isRunning { try device.start() }
    }

    /// The cloud still has all files.
    private func requireHeld() async throws {
        let present = try await world.cloud.picture().nodes.keys.count { $0.hasPrefix(Self.folder + "/") }
        guard present == count, try world.a.engine.heldDeletions > 0 else {
            throw UbiquityError(
                .damaged, "\(present) of \(count) files are at the cloud, \(try world.a.engine.heldDeletions) deletions held")
        }
    }

    private func requireOutcome(_ expected: [String]) throws {
        for device in world.devices {
            let seen = try device.paths().map(\.path).filter { $0.hasPrefix(Self.folder + "/") }
            guard seen.sorted() == expected.sorted() else {
                throw UbiquityError(.damaged, "\(device.name) has \(seen.count) files instead of \(expected.count)")
            }
        }
    }
}
