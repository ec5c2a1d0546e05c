import Testing
import UbiquityCore
import UbiquitySystem
import UbiquityTestSupport
@testable import UbiquitySync

/// One device exchanges two files by three renames while another edits one of them without a network.
@Suite struct ExchangeByRenamesTests: WorldTests {
    static let seed: UInt64 = 47

    @Test(arguments: ["x", "y"]) func editOfAnExchangedFileIsNoConflict(edited: String) async throws {
        var options = Simulation.Options()
        // One process does all of it, as a shell script does.
        options.process = ProcessHost.id
        try await Worlds.run(seed: Self.seed, options) { world in
            for name in ["x", "y"] { try await world.a.create(name, Array(name.utf8)) }
            try await world.settle()
            _ = try await world.b.read(edited)
            world.b.link.setAway(true)
            try world.a.rename("x", "t")
            try world.a.rename("y", "x")
            try world.a.rename("t", "y")
            try await world.settle([world.a])
            try await world.b.edit(edited) { $0 + [33] }
            world.b.link.setAway(false)
            try await world.settle()
            #expect(world.cloud.conflictCount() == 0)
            for device in world.devices {
                #expect(try device.paths().map(\.path) == ["x", "y"])
                #expect(try await device.read("x") == Array("y".utf8) + (edited == "y" ? [33] : []))
                #expect(try await device.read("y") == Array("x".utf8) + (edited == "x" ? [33] : []))
            }
            try await world.check()
        }
    }
}
