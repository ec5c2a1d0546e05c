import Testing
import UbiquityContent
import UbiquityCore
import UbiquityDoctor
import UbiquityIndex
import UbiquitySystem
import UbiquityTestSupport

/// Examinations of simulated devices whose engines run. `MountTests/DoctorTests` examine real state folders.
@Suite struct ExaminationTests {
    /// A simulation blocks its thread.
    private static let threads = BlockingPool(name: "simulated-worlds", threads: 2)

    private func run(
        _ devices: [String] = ["a", "b"], _ scenario: @escaping @Sendable (Simulation) async throws -> Void
    ) async throws {
        let options = Simulation.Options(devices: devices)
        try await Self.threads.run { _ = try Simulation.run(seed: 47, options, scenario) }
    }

    private func findings(_ device: SimulatedDevice, repairs: Bool = true) async throws -> [Finding] {
        let options = ExaminationOptions(repairs: repairs, readsAll: true, isAlone: false)
        return try await Examiner(try device.engine).examine(options).findings
    }

    private func contentPath(_ device: SimulatedDevice, _ path: String) throws -> String {
        try device.store.path(of: try #require(try device.live(path).content))
    }

    @Test func strippedPrivilegesAreNoFinding() async throws {
        try await run { world in
            try await world.a.create("f", [1])
            try world.a.setMode("f", 0o6755)
            try await world.settle()
            #expect(try await findings(world.b) == [])
            try await world.b.materialize("f")
            try await world.b.edit("f") { $0 + [2] }
            try await world.settle()
            for device in world.devices { #expect(try await findings(device) == [], "\(device.name)") }
        }
    }

    @Test func deletionThatWaitsForItsPackageIsNoFinding() async throws {
        try await run { world in
            let names = ["text", "two", "old"]
            try world.a.makeFolder("d.rtfd")
            for name in names { try await world.a.create("d.rtfd/" + name, world.random.bytes(100)) }
            try await world.settle()
            for name in names { try await world.b.materialize("d.rtfd/" + name) }
            try await world.settle()
            for _ in 0..<3 { world.b.link.script(.fetchChunks, .hold(.seconds(60))) }
            try world.a.remove("d.rtfd/old")
            try await world.a.edit("d.rtfd/two") { _ in world.random.bytes(400_000) }
            try await world.settle([world.a])
            try await world.sleep(.seconds(5))
            #expect(try world.b.row("d.rtfd/old") != nil, "the deletion waits")
            #expect(try await findings(world.b) == [])
            try await world.settle()
            for device in world.devices { #expect(try device.row("d.rtfd/old") == nil) }
        }
    }

    @Test func missingContentIsDownloadedAgain() async throws {
        try await run { world in
            try await world.a.create("f", world.random.bytes(100_000))
            try await world.settle()
            let bytes = try await world.a.read("f")
            try FileSystem.unlink(try contentPath(world.a, "f"))
            let found = try await findings(world.a)
            #expect(found.map(\.kind) == [.contentMissing] && found.allSatisfy(\.isRepaired), "\(found)")
            try await world.settle()
            #expect(try await world.a.read("f") == bytes)
            #expect(try await findings(world.a) == [])
        }
    }

    @Test func changedByteIsFoundWithoutRepair() async throws {
        try await run { world in
            try await world.a.create("f", world.random.bytes(100_000))
            try await world.settle()
            let content = try #require(try world.a.live("f").content)
            let file = try world.a.store.open(content, writable: true)
            let byte = try file.read(count: 1, at: 70_000)[0]
            try file.write([byte ^ 1], at: 70_000)
            for _ in 0..<2 {
                let found = try await findings(world.a, repairs: false)
                #expect(found.map(\.kind) == [.contentDamaged] && found.allSatisfy { $0.outcome == .found }, "\(found)")
            }
            #expect(try await findings(world.a).allSatisfy(\.isRepaired))
            try await world.settle()
            #expect(try await findings(world.a) == [])
        }
    }
}
