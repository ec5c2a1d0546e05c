import Testing
import UbiquityCore
import UbiquityIndex
import UbiquityTestSupport

/// A program that makes, links and removes names faster than they go up.
@Suite struct NamesAtSpeedTests {
    /// Nobody else changes anything: each name stands for what the program has given it, whatever the cloud is told of
    /// and answers meanwhile.
    @Test(arguments: 1...36) func onlyTheProgramChangesNames(seed: Int) async throws {
        try await Worlds.run(seed: UInt64(seed), Simulation.Options(devices: ["a", "b"], process: 1)) { world in
            let names = (0..<6).map { "f\($0)" }
            var random = SourcedGenerator(SeededRandom(UInt64(seed)))
            // Which file each name stands for, by its content.
            var model: [String: UInt8] = [:]
            var next: UInt8 = 0
            try await world.settle()
            let pause = [2, 10, 50, 200][seed % 4]
            var conditions = NetworkConditions.perfect
            conditions.delay = .milliseconds(1)...(.milliseconds([3, 20, 100][seed % 3]))
            world.a.link.setConditions(conditions)
            for step in 0..<1500 {
                let name = names.randomElement(using: &random)!, other = names.randomElement(using: &random)!
                let size = [3, 5000, 70_000, 300_000].randomElement(using: &random)!
                switch Int.random(in: 0..<3, using: &random) {
                case 0 where model[name] == nil:
                    next = next &+ 1
                    try await world.a.create(name, Array(repeating: next, count: size))
                    model[name] = next
                case 0:
                    try await world.a.overwrite(name, Array(repeating: next, count: size))
                case 1 where model[name] != nil:
                    try world.a.remove(name)
                    model[name] = nil
                case 2 where model[name] != nil && model[other] == nil:
                    try world.a.makeHardLink(other, to: name)
                    model[other] = model[name]
                default: continue
                }
                if Int.random(in: 0..<4, using: &random) == 0 {
                    try await world.sleep(.milliseconds(Int.random(in: 1...pause, using: &random)))
                }
                let found = try names.filter { try world.a.row($0) != nil }
                #expect(found == names.filter { model[$0] != nil }, "after step \(step)")
                guard found == names.filter({ model[$0] != nil }) else { break }
            }
            try await world.settle()
            #expect(try names.filter { try world.b.row($0) != nil } == names.filter { model[$0] != nil })
            try await world.check()
        }
    }

    /// The cloud takes a file back that was given up before its content was there with its content only, and keeps no
    /// name of it till then.
    @Test func aLinkToWhatComesBackWaitsForIt() async throws {
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
