import Testing
import UbiquityCore
import UbiquityIndex
import UbiquityTestSupport
import UbiquityWire
@testable import UbiquitySync

/// An earlier version is restored offline: changes of the file before the restoration is known.
@Suite struct RestoreTests: WorldTests {
    static let seed: UInt64 = 21

    /// b, offline, restores `[1]`; the file has `[2, 2]`.
    private func decideApart(
        _ world: Simulation, before: (SimulatedDevice) async throws -> Void = { _ in },
        _ after: (SimulatedDevice) async throws -> Void
    ) async throws {
        try await world.a.create("f", [1])
        try await world.settle()
        try await world.a.edit("f") { _ in [2, 2] }
        try await world.settle()
        try await world.b.materialize("f")
        let earlier = try await world.b.engine.versions.otherVersions(of: world.b.live("f").id)
        try world.b.setPaused(true)
        try await before(world.b)
        try await world.sleep(.seconds(5))
        try world.b.index.decide([(.restore, #require(earlier.first).id)], of: world.b.live("f").key)
        try await world.sleep(.seconds(5))
        try await after(world.b)
        try await world.settle([world.a])
        try world.b.setPaused(false)
        try await world.settle()
        try await world.check()
    }

    private func conflicts(_ device: SimulatedDevice) throws -> [RemoteVersion] {
        try device.index.read { try $0.conflicts(of: device.live("f").id) }
    }

    private func expect(_ content: [UInt8], conflicts count: Int, _ world: Simulation) async throws {
        for device in world.devices {
            #expect(try await device.read("f") == content, "\(device.name)")
            #expect(try conflicts(device).count == count, "\(device.name)")
        }
    }

    @Test func remoteEditAfterARestore() async throws {
        try await run(["a", "b"]) { world in
            try await decideApart(world) { _ in try await world.a.edit("f") { _ in [3] } }
            try await expect([3], conflicts: 1, world)
        }
    }

    @Test func remoteEditBeforeARestore() async throws {
        try await run(["a", "b"]) { world in
            try await decideApart(world) { _ in
                try await world.a.edit("f") { _ in [3] }
            } _: { _ in
            }
            try await expect([1], conflicts: 1, world)
        }
    }

    @Test func remoteDeletionDuringARestore() async throws {
        try await run(["a", "b"]) { world in
            try await decideApart(world) { _ in try world.a.remove("f") }
            try await expect([1], conflicts: 0, world)
        }
    }

    @Test func ownEditAfterARestore() async throws {
        try await run(["a", "b"]) { world in
            try await decideApart(world) { b in try await b.edit("f") { _ in [3] } }
            try await expect([3], conflicts: 0, world)
        }
    }

    @Test func ownEditBeforeARestore() async throws {
        try await run(["a", "b"]) { world in
            try await decideApart(world) { b in
                try await b.edit("f") { _ in [3] }
            } _: { _ in
            }
            try await expect([1], conflicts: 0, world)
        }
    }

    @Test func ownEditsAroundARestore() async throws {
        try await run(["a", "b"]) { world in
            try await decideApart(world) { b in
                try await b.edit("f") { _ in [3] }
            } _: { b in
                try await b.edit("f") { _ in [4] }
            }
            try await expect([4], conflicts: 0, world)
        }
    }

    @Test func ownDeletionAfterARestore() async throws {
        try await run(["a", "b"]) { world in
            try await decideApart(world) { b in try b.remove("f") }
            for device in world.devices { #expect(try device.row("f") == nil, "\(device.name)") }
        }
    }

    @Test func deletionByBothAfterARestore() async throws {
        try await run(["a", "b"]) { world in
            try await decideApart(world) { b in
                try world.a.remove("f")
                try b.remove("f")
            }
            for device in world.devices { #expect(try device.row("f") == nil, "\(device.name)") }
        }
    }

    /// The cloud has accepted the first, whose content is not here yet.
    @Test func secondRestoreDuringTheFirstWins() async throws {
        try await run(["a", "b"]) { world in
            try await decideApart(world) { _ in }
            for _ in 0..<4 { world.b.link.script(.fetchChunks, .hold(.seconds(30))) }
            let versions = try await world.b.engine.versions.otherVersions(of: world.b.live("f").id)
            let second = try #require(versions.first { $0.content.size == 2 })
            try world.b.index.decide([(.restore, second.id)], of: world.b.live("f").key)
            try await world.sleep(.seconds(5))
            #expect(try world.b.index.read { try $0.versionActionCount() } == 0)
            let first = try #require(versions.first { $0.content.size == 1 })
            try world.b.index.decide([(.restore, first.id)], of: world.b.live("f").key)
            try await world.settle()
            try await expect([1], conflicts: 0, world)
        }
    }

    /// The resolved version is the loser, also while the winner's content is missing.
    @Test func loserIsRestoredBeforeTheWinnersDownload() async throws {
        try await run(["a", "b"]) { world in
            try await world.a.create("f", [1])
            try await world.settle()
            try await world.b.materialize("f")
            try world.b.setPaused(true)
            try await world.b.edit("f") { _ in [2] }
            try await world.sleep(.seconds(5))
            try await world.a.edit("f") { _ in [3] }
            try await world.settle([world.a])
            for _ in 0..<8 { world.b.link.script(.fetchChunks, .hold(.seconds(60))) }
            try world.b.setPaused(false)
            try await world.sleep(.seconds(10))
            let lost = try #require(try conflicts(world.b).first)
            try world.b.index.decide([(.restore, lost.id)], of: world.b.live("f").key)
            try await world.settle()
            try await expect([2], conflicts: 0, world)
        }
    }

    /// Opened for writing and closed again, with the same bytes: that is no edit.
    @Test func sameBytesAfterARestoreAreNoEdit() async throws {
        try await run(["a", "b"]) { world in
            try await decideApart(world) { b in try await b.edit("f") { $0 } }
            try await expect([1], conflicts: 0, world)
        }
    }

    @Test func lastOfTwoRestoresWins() async throws {
        try await run(["a", "b"]) { world in
            try await decideApart(world) { b in
                let current = try #require(try b.live("f").version)
                try b.index.decide([(.restore, current)], of: b.live("f").key)
            }
            try await expect([2, 2], conflicts: 0, world)
        }
    }
}
