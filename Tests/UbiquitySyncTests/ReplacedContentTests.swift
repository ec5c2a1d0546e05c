import Testing
internal import UbiquityContent
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityTestSupport

/// An unsynced content has replaced another one when the power fails: the file has one of both, whole.
@Suite struct ReplacedContentTests {
    private func run(_ seed: UInt64, _ scenario: @escaping @Sendable (Simulation) async throws -> Void) async throws {
        try await Worlds.run(seed: seed, Simulation.Options(losesPower: true), scenario)
    }

    /// The power fails, and the device restarts without a cloud.
    private func loseAndFind(_ path: String, _ world: Simulation) async throws -> [UInt8] {
        world.a.crash(powerLoss: true)
        try world.a.start()
        return try await world.a.read(path)
    }

    private func finish(_ world: Simulation) async throws {
        world.a.link.setAway(false)
        try await world.settle()
        try await world.check()
    }

    /// A file of two names is replaced at one of them; the other may be the backup that the program has just made.
    @Test(arguments: 1...16 as ClosedRange<UInt64>, [("f", 0), ("f", 30), ("g", 0)])
    func replacedFileOfTwoNamesKeepsOneContent(seed: UInt64, how: (name: String, age: Double)) async throws {
        try await run(seed) { world in
            world.a.link.setAway(true)
            try await world.a.create("f", [1, 2], synced: true)
            try world.a.makeHardLink("g", to: "f")
            try world.a.syncFolder()
            try await world.sleep(.seconds(how.age))
            try await world.a.saveOver(how.name, [3])
            let found = try await loseAndFind(how.name, world)
            #expect([[1, 2], [3]].contains(found))
            #expect(try await world.a.read(how.name == "f" ? "g" : "f") == [1, 2])
            try await finish(world)
        }
    }

    /// An earlier version replaces an edit that is not uploaded.
    @Test(arguments: 1...16 as ClosedRange<UInt64>) func restoreOverAnUnsyncedEditKeepsOneContent(seed: UInt64) async throws {
        try await run(seed) { world in
            try await world.a.create("f", [1])
            try await world.settle()
            world.a.link.setAway(true)
            try await world.a.edit("f", synced: true) { _ in [1, 2] }
            let row = try world.a.live("f"), index = try world.a.index, store = try world.a.store
            let copy = ContentID(try index.newContentNumber())
            try store.create(copy).write([1], at: 0)
            try store.noteReplacement(copy)
            let version = RemoteVersion(
                content: RemoteContent(
                    version: VersionID(high: 1, low: 1), size: 1, isAvailable: true, device: world.a.id,
                    deviceName: "a", manifest: nil),
                kind: .history, modifiedAt: .zero, savedAt: .zero, savedName: try ItemName("f"), baseVersion: nil)
            let place = VersionPlace(parent: 1, name: try ItemName("f"), isExclusive: false)
            let old = try index.place(version, of: row.key, content: copy, ino: nil, at: place)
            store.retire([try #require(old)])
            let found = try await loseAndFind("f", world)
            #expect([[1], [1, 2]].contains(found))
            try await finish(world)
        }
    }

    /// The content at the index's sync stays, whatever later addition is lost.
    @Test(arguments: 1...16 as ClosedRange<UInt64>) func replacementIsFinalAfterTheIndexSync(seed: UInt64) async throws {
        try await run(seed) { world in
            try await world.b.create("f", [9, 9, 9])
            try await world.settle()
            #expect(try world.a.live("f").contentState == .none)
            world.a.link.setAway(true)
            try await world.a.create("new", [1, 2])
            try world.a.rename("new", "f")
            try await world.sleep(.seconds(12))
            for byte in [3, 4] as [UInt8] { try await world.a.edit("f") { $0 + [byte] } }
            let found = try await loseAndFind("f", world)
            #expect(found.starts(with: [1, 2]))
            try await finish(world)
        }
    }
}
