import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityTestSupport

/// Commits that the network delays past later ones of the same device: they are obsolete on arrival.
@Suite struct LateCommitTests {
    private static let delay = Duration.seconds(600)

    private func run(_ scenario: @escaping @Sendable (Simulation) async throws -> Void) async throws {
        try await Worlds.run(seed: 5, Simulation.Options(losesPower: true), scenario)
    }

    /// The creation of a file is delayed, its repeat is lost: the device sends it again, in a later commit.
    private func createLate(_ path: String, _ world: Simulation) async throws {
        world.a.link.script(.commit, .late(Self.delay))
        world.a.link.script(.commit, .fail(UbiquityError(.timedOut, "no answer")))
        try await world.a.create(path, [1, 2, 3], synced: true)
        try await world.settle()
        #expect(try await world.b.read(path) == [1, 2, 3])
    }

    private func removeAndWait(_ path: String, _ world: Simulation) async throws {
        try world.a.remove(path)
        try await world.settle()
        try await world.sleep(Self.delay)
        try await world.settle()
        #expect(try world.a.row(path) == nil)
        #expect(try world.b.row(path) == nil)
        try await world.check()
    }

    @Test func lateCommitRestoresNoDeletedItem() async throws {
        try await run { world in
            try await createLate("f", world)
            try await removeAndWait("f", world)
        }
    }

    /// The device died before it learned that the cloud has its new file. It removes that file among others, and makes
    /// another one of that name. By the known state of the cloud, the new file does not depend on the deletion, which
    /// waits for the end of the burst.
    @Test func lateCommitTakesNoNameFromTheNextItem() async throws {
        try await run { world in
            for number in 0..<150 { try await world.a.create("f\(number)", [1]) }
            try await world.settle()
            world.a.link.script(.commit, .late(.milliseconds(400)))
            try await world.a.create("x", [2], synced: true)
            try await world.sleep(.milliseconds(300))
            world.a.crash()
            try world.a.start()
            for path in ["f100", "x"] { try world.a.remove(path) }
            try await world.sleep(.milliseconds(50))
            // The commit arrives, and its news is delayed.
            world.a.link.script(.changes, .hold(.seconds(3)))
            for number in 0..<40 {
                if number == 4 { try await world.a.create("x", [3], synced: true) }
                try world.a.remove("f\(number)")
                try await world.sleep(.milliseconds(50))
            }
            try await world.settle()
            for device in world.devices {
                #expect(try await device.read("x") == [3], "\(device.name)")
                #expect(try device.row("x 2") == nil)
                let id = try device.live("x").id
                #expect(try device.index.read { try $0.conflicts(of: id) }.isEmpty, "\(device.name)")
            }
            try await world.check()
        }
    }

    /// A deletion during the delayed answer about an unseen edit.
    @Test func lateDeletionKeepsAnUnseenLosingEdit() async throws {
        try await run { world in
            try await world.a.create("f", [1])
            try await world.settle()
            try await world.b.materialize("f")
            try await world.settle()
            for _ in 0..<4 { world.a.link.script(.changes, .hold(.seconds(20))) }
            try await world.b.edit("f") { _ in [2] }
            try await world.settle([world.b])
            world.a.link.script(.commit, .hold(.seconds(5)))
            try await world.a.edit("f") { _ in [3] }
            try await world.sleep(.seconds(1))
            try world.a.remove("f")
            try await world.settle()
            for device in world.devices {
                #expect(try await device.read("f") == [3], "\(device.name)")
                let id = try device.live("f").id
                #expect(try device.index.read { try $0.conflicts(of: id) }.count == 1, "\(device.name)")
            }
            try await world.check()
        }
    }

    @Test func lateCommitRestoresNoForgottenItem() async throws {
        try await run { world in
            try await createLate("f", world)
            try world.a.remove("f")
            try await world.settle()
            try await world.sleep(.seconds(60))
            world.cloud.purge()
            try await world.sleep(Self.delay)
            try await world.settle()
            #expect(try world.b.row("f") == nil)
            try await world.check()
        }
    }

    /// The device has died in between; with a power loss it has lost unsynced data.
    @Test(arguments: [false, true]) func lateCommitIsRefusedAfterARestart(powerLoss: Bool) async throws {
        try await run { world in
            try await createLate("f", world)
            world.a.crash(powerLoss: powerLoss)
            try world.a.start()
            try await world.settle()
            try await removeAndWait("f", world)
        }
    }

    /// A device whose index has lost its commit count (an old copy was restored) catches up with the cloud's.
    @Test func resetCommitNumberCatchesUp() async throws {
        try await run { world in
            try await world.a.create("f", [1])
            try await world.settle()
            world.cloud.setLastCommit(of: world.a.id, 1_000_000)
            try await world.a.create("g", [2])
            try await world.settle()
            #expect(try await world.b.read("g") == [2])
            try await world.check()
        }
    }

    /// Recreated by the program that removed it, sent as the same item, and removed again before the cloud has it.
    @Test func lateCommitDoesNotRestoreARemovedItem() async throws {
        let options = Simulation.Options(losesPower: true, process: ProcessHost.id)
        try await Worlds.run(seed: 5, options) { world in
            try await world.a.create("f", [1])
            try await world.settle()
            try world.a.remove("f")
            try await world.settle()
            world.a.link.script(.commit, .late(Self.delay))
            try await world.a.create("f", [2], synced: true)
            try await world.sleep(.seconds(1))
            #expect(try world.a.live("f").flags.contains(.returned), "not answered yet")
            try world.a.remove("f")
            world.a.crash()
            try world.a.start()
            try await world.settle()
            try await world.sleep(Self.delay)
            try await world.settle()
            #expect(try world.a.row("f") == nil)
            #expect(try world.b.row("f") == nil)
            try await world.check()
        }
    }

    /// The same, while the feed reports the first removal only then.
    @Test func lateCommitRestoresNoItemRemovedAgain() async throws {
        let options = Simulation.Options(losesPower: true, process: ProcessHost.id)
        try await Worlds.run(seed: 5, options) { world in
            try await world.a.create("f", [1])
            try await world.settle()
            world.a.link.script(.changes, .hold(.seconds(30)))
            try world.a.remove("f")
            try await world.sleep(.seconds(3))
            world.a.link.script(.commit, .hold(.seconds(60)))
            try await world.a.create("f", [2], synced: true)
            try await world.sleep(.seconds(3))
            #expect(try world.a.live("f").flags.isSuperset(of: [.returned, .creationSent]), "not answered yet")
            try world.a.remove("f")
            try await world.sleep(.seconds(40))
            #expect(try await world.cloud.items().isEmpty, "still on its way, and the feed is read")
            try await world.sleep(.seconds(60))
            try await world.settle()
            #expect(try world.a.row("f") == nil)
            #expect(try world.b.row("f") == nil)
            try await world.check()
        }
    }

    /// Saved, removed during the upload, and created again after both: the new content follows the saved one.
    @Test func recreationAfterRemovalFollowsLastSave() async throws {
        let options = Simulation.Options(losesPower: true, process: ProcessHost.id)
        try await Worlds.run(seed: 5, options) { world in
            try await world.a.create("f", [1])
            try await world.settle()
            let item = try world.a.live("f").id
            world.a.link.script(.commit, .hold(.seconds(3)))
            try await world.a.edit("f") { _ in [2, 2] }
            try await world.sleep(.seconds(2))
            #expect(try world.a.live("f").dirty.contains(.content), "not answered yet")
            try world.a.remove("f")
            try await world.sleep(.seconds(5))
            #expect(try world.a.index.read { try $0.row(id: item) } == nil, "the removal is done")
            try await world.a.create("f", [3, 3, 3], synced: true)
            #expect(try world.a.live("f").id == item)
            try await world.settle()
            for device in world.devices {
                #expect(try await device.read("f") == [3, 3, 3], "\(device.name)")
                #expect(try device.index.read { try $0.conflicts(of: item) }.isEmpty, "\(device.name)")
            }
            try await world.check()
        }
    }

    /// The new folder is merged with another's. Nobody here has seen that one under the name at the removal.
    @Test func removalBeforeMergeRemovesNothingElse() async throws {
        try await run { world in
            try world.a.makeFolder("c")
            try await world.a.create("c/f", [1])
            try await world.settle()
            world.a.link.script(.changes, .hold(.seconds(30)))
            try world.b.rename("c", "d")
            try await world.settle([world.b])
            world.a.link.script(.commit, .holdAnswer(.seconds(10)))
            try world.a.makeFolder("d")
            try await world.sleep(.seconds(5))
            #expect(try world.a.live("d").dirty.contains(.created), "not answered yet")
            #expect(try await world.cloud.items().count == 2, "but done: one folder, one file")
            try world.a.remove("d")
            try await world.settle()
            #expect(try await world.a.read("d/f") == [1])
            try await world.check()
        }
    }

    /// A new file and a link to it. By the feed that link leads to another's file, which the new one is merged with.
    /// Here it is a link of the new file until the answer.
    @Test func hardLinkStaysWithItsFileUntilTheMerge() async throws {
        try await run { world in
            world.a.link.setAway(true)
            try await world.b.create("f", [2, 2])
            try await world.settle([world.b])
            try await world.a.create("f", [1])
            try world.a.makeHardLink("g", to: "f")
            world.a.link.script(.commit, .holdAnswer(.seconds(60)))
            world.a.link.setAway(false)
            try await world.sleep(.seconds(50))
            #expect(try world.a.live("f").dirty.contains(.created), "not answered yet")
            #expect(try world.a.index.read { try $0.records(.waiting, limit: 10) }.count == 1, "but the feed has told of the other")
            try world.a.remove("f")
            #expect(try await world.a.read("g") == [1])
            try await world.settle()
            try await world.check()
        }
    }
}
