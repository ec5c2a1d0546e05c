import Testing
import UbiquityCore
import UbiquityIndex
import UbiquityTestSupport

/// One device at a time does something, and all see just that: compared with a model that knows of no devices.
@Suite struct ModelTests {
    private static let names = ["a", "b", "c.txt", "Documents"]

    @Test(arguments: Seeds.all) func allSeeWhatOneDid(seed: UInt64) async throws {
        try await Worlds.run(seed: seed, devices: ["a", "b", "c"]) { world in
            var model = ModelTree()
            for _ in 0..<12 {
                let device = world.random.pick(world.devices)
                for _ in 0..<6 { try await Self.act(device, &model) }
                try await world.settle()
                for other in world.devices {
                    let seen = try await other.modelTree()
                    guard seen == model.nodes else {
                        throw UbiquityError(
                            .damaged, "\(other.name) sees \(seen.keys.sorted()), the model \(model.nodes.keys.sorted())"
                        )
                    }
                }
            }
            try await world.check()
        }
    }

    private static func act(_ device: SimulatedDevice, _ model: inout ModelTree) async throws {
        let random = device.world.random
        let known = model.nodes.keys.sorted()
        let some = known.isEmpty ? "" : random.pick(known)
        let folder = random.chance(0.5) && model.isFolder(some) ? some + "/" : ""
        let new = folder.hasPrefix("/") ? random.pick(names) : folder + random.pick(names)
        let bytes = random.bytes(random.below(2000))
        switch random.below(7) {
        case 0 where model.isFree(new):
            try await device.create(new, bytes)
            model.put(new, .file(bytes))
        case 1 where model.isFree(new):
            try device.makeFolder(new)
            model.put(new, .folder)
        case 2 where model.isFree(new):
            try device.makeLink(new, to: "somewhere")
            model.put(new, .link("somewhere"))
        case 3 where model.canMove(some, to: new):
            try device.rename(some, new)
            model.move(some, to: new)
        case 4 where !some.isEmpty:
            try device.remove(some)
            model.remove(some)
        case 5:
            guard case .file = model.nodes[some] else { return }
            try await device.edit(some) { _ in bytes }
            model.put(some, .file(bytes))
        case 6:
            guard case .file = model.nodes[some] else { return }
            try await device.saveOver(some, bytes)
            model.put(some, .file(bytes))
        default: break
        }
    }
}
