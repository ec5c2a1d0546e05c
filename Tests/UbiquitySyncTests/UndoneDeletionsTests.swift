import Testing
import UbiquityCore
import UbiquityIndex
import UbiquityTestSupport
@testable import UbiquitySync

/// A mass deletion is put on hold, and a user undoes it.
@Suite struct UndoneDeletionsTests: WorldTests {
    static let seed: UInt64 = 23

    /// Waits by the world's clock, without a limit.
    private func awaitHeldDeletions(_ device: SimulatedDevice, _ world: Simulation, over count: Int) async throws {
        for _ in 0..<100 where try device.engine.heldDeletions <= count { try await world.sleep(.seconds(1)) }
        try #require(try device.engine.heldDeletions > count)
    }

    /// Recently created items may be deleted without a question.
    private func ageAll(_ world: Simulation) async throws {
        try await world.settle()
        try await world.sleep(.seconds(DeletionGuard.freshAge))
        try await world.settle()
    }

    /// The file itself took the place of its link, when its first name was removed.
    @Test func undoRestoresAFileAndItsLink() async throws {
        try await run { world in
            try world.a.makeFolder("d")
            for number in 0..<120 { try await world.a.create("d/f\(number)", [UInt8(number)]) }
            try world.a.makeHardLink("link", to: "d/f7")
            try await ageAll(world)
            let before = try world.b.paths().map(\.path)
            try world.a.remove("d")
            try await awaitHeldDeletions(world.a, world, over: 100)
            _ = try world.a.engine.undoDeletions()
            try await world.settle()
            for device in world.devices {
                #expect(try device.paths().map(\.path) == before)
                for name in ["d/f7", "link"] { #expect(try await device.read(name) == [7]) }
            }
            try await world.check()
        }
    }

    /// Recreated items wait for the names. There are more of them than one commit contains, and other changes come
    /// after.
    @Test func changesBehindWaitingOnesAreUploaded() async throws {
        let count = SyncLimits.changesPerCommit + 100
        try await run { world in
            try world.a.makeFolder("d")
            // More than remain afterwards, so that they are put on hold.
            for number in 0..<count + 200 { try await world.a.create("d/f\(number)", [1]) }
            try await ageAll(world)
            try world.a.remove("d")
            try await awaitHeldDeletions(world.a, world, over: count)
            try world.a.makeFolder("d")
            for number in 0..<count { try await world.a.create("d/f\(number)", [2]) }
            try await world.a.create("other", [3])
            for _ in 0..<100 where try world.b.row("other") == nil { try await world.sleep(.seconds(1)) }
            try #require(try world.b.row("other") != nil, "it is held up")
            #expect(try world.a.engine.heldDeletions > count)
            #expect(try await world.b.read("other") == [3])
            #expect(try await world.b.read("d/f7") == [1])
            _ = try world.a.engine.confirmDeletions()
            try await world.settle()
            #expect(try await world.b.read("d/f7") == [2])
        }
    }

    /// Items that arrive meanwhile are no answer: with so many more items the same deletions would be fewer than half.
    @Test(arguments: [false, true]) func deletionsStayOnHoldUntilAnswered(isRestarted: Bool) async throws {
        try await run { world in
            try world.a.makeFolder("d")
            for number in 0..<120 { try await world.a.create("d/f\(number)", [1]) }
            try await ageAll(world)
            try world.a.remove("d")
            try await awaitHeldDeletions(world.a, world, over: 120)
            if isRestarted {
                world.a.crash()
                try world.a.start()
            }
            for number in 0..<150 { try await world.b.create("new\(number)", [2]) }
            for _ in 0..<100 where try world.a.row("new149") == nil { try await world.sleep(.seconds(1)) }
            try await world.sleep(.seconds(120))
            try await world.a.create("mine", [3])
            try await world.sleep(.seconds(5))
            #expect(try world.a.engine.heldDeletions == 121 && world.b.row("d/f7") != nil && world.b.row("mine") != nil)
            #expect(try world.a.engine.undoDeletions() == 121)
            try world.a.remove("new3")
            try await world.settle()
            #expect(try world.b.row("new3") == nil && world.a.row("d/f7") != nil && world.a.engine.heldDeletions == 0)
        }
    }

    /// The cloud is away when the device starts again.
    @Test func deletionsOnHoldAreKnownAfterARestart() async throws {
        try await run { world in
            try world.a.makeFolder("d")
            for number in 0..<120 { try await world.a.create("d/f\(number)", [1]) }
            try await ageAll(world)
            try world.a.remove("d")
            try await awaitHeldDeletions(world.a, world, over: 120)
            world.a.link.setAway(true)
            world.a.crash()
            try world.a.start()
            #expect(try world.a.engine.heldDeletions == 121)
            try await world.sleep(.seconds(60))
            #expect(try world.a.engine.undoDeletions() == 121)
            #expect(try world.a.engine.heldDeletions == 0)
            world.a.link.setAway(false)
            try await world.settle()
        }
    }

    /// There are many more files on this device, and the cloud has none of them.
    @Test func ignoredFilesDoNotCount() async throws {
        try await run { world in
            try world.a.makeFolder("d")
            try world.a.makeFolder("x.nosync")
            for number in 0..<120 { try await world.a.create("d/f\(number)", [1]) }
            for number in 0..<300 { try await world.a.create("x.nosync/f\(number)", [1]) }
            try await ageAll(world)
            try world.a.remove("d")
            try await world.sleep(.seconds(10))
            #expect(try world.a.engine.heldDeletions == 121 && world.b.row("d/f7") != nil)
        }
    }
}
