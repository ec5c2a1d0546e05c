internal import UbiquityCore

/// One device at a time changes something, and all must show exactly that.
struct Turns {
    private static let names = ["a", "b", "c.txt", "Documents", "p.rtfd"]
    private static let rounds = 8
    private static let actionsPerRound = 6

    private let world: Simulation
    private let random: SeededRandom

    init(_ world: Simulation, seed: UInt64) {
        self.world = world
        random = SeededRandom(seed &+ 5)
    }

    func run() async throws {
        var model = ModelTree()
        for _ in 0..<Self.rounds {
            let device = random.pick(world.devices)
            for _ in 0..<Self.actionsPerRound { try await act(device, &model) }
            try await world.settle()
            for other in world.devices {
                let seen = try await other.modelTree()
                guard seen == model.nodes else {
                    throw UbiquityError(
                        .damaged, "\(other.name) sees \(seen.keys.sorted()), the model \(model.nodes.keys.sorted())")
                }
            }
        }
        try await world.check()
    }

    private func note(_ device: SimulatedDevice, _ text: String) {
        world.world.trace.note("\(world.world.uptime) user of \(device.name) \(text)")
    }

    private func act(_ device: SimulatedDevice, _ model: inout ModelTree) async throws {
        let known = model.nodes.keys.sorted()
        let some = known.isEmpty ? "" : random.pick(known)
        let folder = random.chance(0.5) && model.isFolder(some) && !some.isEmpty ? some + "/" : ""
        let new = folder + random.pick(Self.names)
        let bytes = random.bytes(random.below(2000))
        switch random.below(8) {
        case 0 where model.isFree(new):
            note(device, "creates \(new)")
            try await device.create(new, bytes)
            model.put(new, .file(bytes))
        case 1 where model.isFree(new):
            note(device, "makes folder \(new)")
            try device.makeFolder(new)
            model.put(new, .folder)
        case 2 where model.isFree(new):
            note(device, "makes link \(new)")
            try device.makeLink(new, to: "somewhere")
            model.put(new, .link("somewhere"))
        case 3 where model.canMove(some, to: new) && !(new.contains(".rtfd") && model.hasLinks(in: some)):
            note(device, "renames \(some) to \(new)")
            try device.rename(some, new)
            model.move(some, to: new)
        case 4 where !some.isEmpty:
            note(device, "removes \(some)")
            try device.remove(some)
            model.remove(some)
        case 5, 6:
            guard case .file = model.nodes[some] else { return }
            note(device, "changes \(some)")
            if random.chance(0.5) {
                try await device.edit(some) { _ in bytes }
                model.write(some, bytes)
            } else {
                try await device.saveOver(some, bytes)
                model.put(some, .file(bytes))
            }
        // (A package's members are never hard links of another file.)
        case 7 where model.isFree(new) && !(new + some).contains(".rtfd"):
            guard case .file = model.nodes[some] else { return }
            note(device, "gives \(some) the further name \(new)")
            try device.makeHardLink(new, to: some)
            model.link(new, to: some)
        default: break
        }
    }
}
