import Testing
internal import UbiquityContent
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquitySystem
import UbiquityTestSupport

/// The state of a device after a power loss. The seed decides which unsynced data survives.
@Suite struct PowerLossTests {
    private func run(_ seed: UInt64, _ scenario: @escaping @Sendable (Simulation) async throws -> Void) async throws {
        try await Worlds.run(seed: seed, Simulation.Options(losesPower: true), scenario)
    }

    /// Seed 6901220 of the simulator: removed and recreated by one program, and lost before its first write.
    @Test(arguments: 1...8 as ClosedRange<UInt64>) func recreatedAndLostItemIsNotWaitedFor(seed: UInt64) async throws {
        let options = Simulation.Options(losesPower: true, process: ProcessHost.id)
        try await Worlds.run(seed: seed, options) { world in
            try await world.a.create("f", [1], synced: true)
            try await world.settle()
            try world.a.remove("f")
            try await world.settle()
            try world.a.createAndLosePower("f")
            try await restart(world)
            #expect(try await world.b.read("f") == [])
        }
    }

    private func restart(_ world: Simulation, afterCrash: Bool = true) async throws {
        if afterCrash {
            if world.a.isRunning { world.a.crash(powerLoss: true) }
            try world.a.start()
        }
        world.a.link.setAway(false)
        try await world.settle()
        try await world.check()
    }

    /// The replacement is not durable yet, so the replaced content must be.
    @Test(arguments: 1...32 as ClosedRange<UInt64>) func syncedContentStaysUntilItsReplacementIsDurable(
        seed: UInt64
    ) async throws {
        try await run(seed) { world in
            world.a.link.setAway(true)
            try await world.a.create("f", [1, 2], synced: true)
            try await world.a.saveOver("f", [3])
            try await world.sleep(.seconds(1))
            try await restart(world)
            let found = try await world.b.read("f")
            #expect([[1, 2], [3]].contains(found))
        }
    }

    /// Each of several in a row may have delayed the durability of the next.
    @Test(arguments: 1...16 as ClosedRange<UInt64>, [false, true]) func contentSurvivesSeveralReplacements(
        seed: UInt64, isSent: Bool
    ) async throws {
        try await run(seed) { world in
            try await world.a.create("f", [1, 2], synced: true)
            if isSent { try await world.settle() }
            world.a.link.setAway(true)
            for last in 3...5 as ClosedRange<UInt8> { try await world.a.saveOver("f", [1, last]) }
            world.a.crash(powerLoss: true)
            try world.a.start()
            let found = try await world.a.read("f")
            #expect([[1, 2], [1, 3], [1, 4], [1, 5]].contains(found), "also without the cloud")
            try await restart(world)
            #expect(try await world.b.read("f") == found)
            #expect(world.cloud.conflictCount() == 0)
        }
    }

    /// Data synced after the replacement is the file's, whatever unsynced changes follow.
    @Test(arguments: 1...32 as ClosedRange<UInt64>) func replacedContentIsNotRestoredAfterSync(
        seed: UInt64
    ) async throws {
        try await run(seed) { world in
            world.a.link.setAway(true)
            try await world.a.create("f", [1, 2], synced: true)
            try await world.a.saveOver("f", [3, 3])
            try await world.a.edit("f", synced: true) { $0 + [4] }
            try await world.a.overwrite("f", [5])
            try await restart(world)
            #expect(try await world.b.read("f") != [1, 2])
        }
    }

    /// The durable index has no record of the second and third fsync.
    @Test(arguments: 1...8 as ClosedRange<UInt64>) func contentSyncedRepeatedlyWhileOpenSurvives(
        seed: UInt64
    ) async throws {
        try await run(seed) { world in
            try await world.a.create("f", [0], synced: true)
            try await world.settle()
            try? await world.a.editAndCrash("f", [1, 2, 3, 4, 5, 6], syncs: 3, powerLoss: true)
            try await restart(world)
            #expect(try await world.b.read("f") == [1, 2, 3, 4, 5, 6])
        }
    }

    @Test(arguments: 1...8 as ClosedRange<UInt64>) func evictedContentIsNotReportedLost(seed: UInt64) async throws {
        try await run(seed) { world in
            try await world.a.create("f", [1, 2], synced: true)
            try await world.settle()
            try await world.sleep(.seconds(20))
            try world.a.evict("f")
            try await restart(world)
            #expect(try await world.a.read("f") == [1, 2])
        }
    }

    /// The cloud had the content under another name, which the durable index may still have.
    @Test(arguments: 1...24 as ClosedRange<UInt64>, ["f.nosync", "g"]) func writeUnderNewNameIsNotTakenForTheCloudsVersion(
        seed: UInt64, new: String
    ) async throws {
        try await run(seed) { world in
            for name in ["f", "g"] { try await world.a.create(name, Array(name.utf8), synced: true) }
            try await world.settle()
            // Until the contents count as durable: before that they are checked in any case.
            try await world.sleep(.seconds(20))
            #expect(try world.a.index.read { try $0.unsyncedContents(limit: 9) }.isEmpty)
            try world.a.syncFolder()
            world.a.link.setAway(true)
            try world.a.rename("f", new)
            try await world.a.patch(new, at: 0, [3])
            try await restart(world)
        }
    }

    /// The last run ended properly: its sent changes are known, though another boot follows.
    @Test func ordinaryRebootMakesNoOwnConflict() async throws {
        try await run(1) { world in
            try await world.a.create("f", [1])
            try await world.settle()
            world.a.link.script(.changes, .hold(.seconds(600)))
            for _ in 0..<2 { world.a.link.script(.commit, .loseAnswer) }
            try await world.a.edit("f") { _ in [1, 2] }
            try await world.sleep(.seconds(1))
            world.a.link.setAway(true)
            #expect(try await world.cloud.items().map(\.content?.size) == [2], "taken, and the answer is lost")
            try await world.a.edit("f", synced: true) { _ in [1, 2, 3] }
            try world.a.engine.tidyUp()
            world.a.crash(powerLoss: true)
            try world.a.start()
            try await restart(world, afterCrash: false)
            #expect(try await world.b.read("f") == [1, 2, 3])
            #expect(world.cloud.conflictCount() == 0)
        }
    }

    /// Contents without an item are removed at the next start after a crash. After a proper end they are removed a
    /// little later: among a million contents the search is most of a start's time.
    @Test func unreferencedContentsAreRemovedAfterCrash() async throws {
        try await run(1) { world in
            try await world.a.create("f", [1])
            try await world.settle()
            func leave() throws -> ContentID {
                let content = ContentID(try world.a.index.newContentNumber())
                _ = try world.a.store.create(content)
                return content
            }
            let first = try leave()
            world.a.crash(powerLoss: false)
            try world.a.start()
            #expect(try !world.a.store.all().contains(first))
            let second = try leave()
            try world.a.engine.tidyUp()
            world.a.crash(powerLoss: false)
            try world.a.start()
            #expect(try world.a.store.all().contains(second))
            let third = try leave()
            // In simulated time; the search runs every few seconds.
            for _ in 0..<60 where try world.a.store.all().contains(second) { try await world.sleep(.seconds(1)) }
            #expect(try !world.a.store.all().contains(second))
            #expect(try world.a.store.all().contains(third), "of this run")
            // A restored index gives numbers that files already have: each run begins with the next 100,000.
            try world.a.engine.tidyUp()
            let next = ContentID(try world.a.index.newContentNumber() + 100_000)
            _ = try world.a.store.create(next)
            world.a.crash(powerLoss: false)
            try world.a.start()
            #expect(try !world.a.store.all().contains(next))
            try await restart(world, afterCrash: false)
            #expect(try await world.b.read("f") == [1])
        }
    }

    /// The index has the file, the disk has not: another file's sync made the index durable.
    @Test(arguments: 1...8 as ClosedRange<UInt64>) func lostContentDelaysNoOther(
        seed: UInt64
    ) async throws {
        try await run(seed) { world in
            try await world.a.create("old", [9])
            try await world.settle()
            world.a.link.setAway(true)
            try await world.a.create("f", [1, 2])
            try await world.a.overwrite("old", [8])
            try await world.a.create("g", [3], synced: true)
            try await restart(world)
            #expect(try await world.b.read("g") == [3])
            #expect(try world.b.row("old") != nil)
        }
    }

    /// A newer content was to replace the local one, which is lost itself: the newer one is downloaded.
    @Test(arguments: 1...16 as ClosedRange<UInt64>) func lostContentIsReplacedByTheNewerOne(
        seed: UInt64
    ) async throws {
        try await run(seed) { world in
            try await world.b.create("f", world.random.bytes(200_000))
            try await world.settle()
            _ = try await world.a.read("f")
            try world.a.index.makeDurable()
            world.a.link.script(.fetchChunks, .vanishBefore { world.a.crash(powerLoss: true) })
            try await world.b.edit("f") { _ in world.random.bytes(100_000) }
            try await world.sleep(.seconds(5))
            #expect(!world.a.isRunning)
            try await restart(world)
            #expect(try await world.a.read("f") == (try await world.b.read("f")))
        }
    }

    /// All devices know the file, and none has its content any more.
    @Test(arguments: 1...8 as ClosedRange<UInt64>) func lostAnnouncedItemIsDeleted(seed: UInt64) async throws {
        try await run(seed) { world in
            world.a.link.script(.upload, .vanishBefore { world.a.crash(powerLoss: true) })
            try await world.a.create("f", world.random.bytes(300_000))
            try await world.sleep(.seconds(60))
            #expect(!world.a.isRunning)
            try world.a.start()
            try await world.settle()
            try await world.check()
        }
    }

    /// Another device made a file of the same name, which lost against the one whose content is lost.
    @Test(arguments: 1...8 as ClosedRange<UInt64>) func losingFileRemainsAfterWinnersContentIsLost(seed: UInt64) async throws {
        try await run(seed) { world in
            try await world.a.create("e", [1])
            try await world.settle()
            world.b.link.setAway(true)
            try await world.b.create("f", [1, 2, 3])
            try await world.sleep(.seconds(5))
            world.a.link.script(.upload, .vanishBefore { world.a.crash(powerLoss: true) })
            try await world.a.create("f", world.random.bytes(300_000))
            try await world.sleep(.seconds(60))
            #expect(!world.a.isRunning)
            world.b.link.setAway(false)
            try await world.sleep(.seconds(60))
            try world.a.start()
            try await world.settle()
            try await world.check()
            // An empty file may be the remaining part of the other.
            let found = try await world.b.read("f")
            #expect(found == [1, 2, 3] || world.cloud.conflictCount() == 1)
        }
    }

    /// The announcement was delayed longer than the device was without power.
    @Test(arguments: 1...16 as ClosedRange<UInt64>) func lostAnnouncedItemIsDeletedAfterLateFeed(
        seed: UInt64
    ) async throws {
        try await run(seed) { world in
            // A device's first commit makes the index durable; and nothing else is pending after the start.
            try await world.a.create("e", [1])
            try await world.settle()
            try world.a.index.makeDurable()
            world.a.link.script(.commit, .late(.seconds(30)))
            try await world.a.create("f", world.random.bytes(300_000))
            try await world.sleep(.milliseconds(300))
            world.a.crash(powerLoss: true)
            try world.a.start()
            try await world.settle()
            try await world.sleep(.seconds(60))
            try await world.settle()
            try await world.check()
        }
    }

    /// The device has also forgotten that the name was free: the record of the lost item has to wait for it.
    @Test(arguments: 1...16 as ClosedRange<UInt64>) func lostAnnouncedItemIsDeletedAfterWaitingForPlace(
        seed: UInt64
    ) async throws {
        try await run(seed) { world in
            try await world.settle()
            try world.a.makeFolder("e")
            try world.a.syncFolder()
            try await world.settle()
            try world.b.remove("e")
            try await world.settle()
            world.a.link.script(.upload, .vanishBefore { world.a.crash(powerLoss: true) })
            try await world.a.create("e", world.random.bytes(90_000))
            try await world.sleep(.seconds(60))
            #expect(!world.a.isRunning)
            try world.a.start()
            try await world.settle()
            try await world.check()
        }
    }

    /// A recently downloaded file is being written when the power fails: its content may not be on the disk at all.
    @Test(arguments: 1...8 as ClosedRange<UInt64>) func interruptedWriteFallsBackToCloudsVersion(seed: UInt64) async throws {
        try await run(seed) { world in
            try await world.b.create("f", [1, 2])
            try await world.settle()
            try await world.a.materialize("f")
            // After the record of the download's end.
            try await world.sleep(.seconds(1))
            world.a.link.setAway(true)
            try? await world.a.editAndCrash("f", [3], powerLoss: true)
            try world.a.start()
            world.a.link.setAway(false)
            try await world.settle()
            try await world.check()
            let found = try await world.b.read("f")
            #expect([[1, 2], [3], []].contains(found))
        }
    }

    /// The index has an excluded file, with or without its content on the disk. Then it is included.
    @Test(arguments: 1...8 as ClosedRange<UInt64>) func includedFileHasItsRemainingBytes(seed: UInt64) async throws {
        try await run(seed) { world in
            try await world.a.create("f~", world.random.bytes(50))
            try world.a.syncFolder()
            try await restart(world)
            try world.a.rename("f~", "f")
            try await world.settle()
            try await world.check()
        }
    }

    /// It was included and uploaded, and the device has lost that record: it is excluded again, and the cloud has the
    /// other.
    @Test(arguments: 1...8 as ClosedRange<UInt64>, [false, true]) func includedFileIsExcludedAgainAfterPowerLoss(
        seed: UInt64, isDeletedThere: Bool
    ) async throws {
        try await run(seed) { world in
            try await world.a.create("f~", [1, 2], synced: true)
            try world.a.syncFolder()
            try world.a.rename("f~", "f")
            try await world.sleep(.seconds(1))
            world.a.crash(powerLoss: true)
            if isDeletedThere {
                try world.b.remove("f")
                try await world.settle()
            }
            try await restart(world)
            guard let local = try world.a.row("f~") else { return }
            #expect(local.isExcluded)
            #expect(try await world.a.read("f~") == [1, 2])
        }
    }

    /// Items created in it since have the folder's identity at the cloud, and must not get into the excluded one.
    @Test(arguments: 1...8 as ClosedRange<UInt64>) func includedFolderIsExcludedAgainAfterPowerLoss(seed: UInt64) async throws {
        try await run(seed) { world in
            // A device's first commit makes the index durable.
            try await world.a.create("e", [1])
            try await world.settle()
            try world.a.makeFolder("k.nosync")
            try world.a.index.makeDurable()
            try world.a.rename("k.nosync", "k")
            try await world.sleep(.seconds(1))
            try world.a.makeFolder("k/inner")
            try await world.a.create("k/inner/f", [1])
            try await world.sleep(.seconds(1))
            world.a.crash(powerLoss: true)
            try await restart(world)
            guard try world.a.row("k.nosync") != nil else { return }
            #expect(try world.a.row("k.nosync/inner") == nil)
            #expect(try await world.a.read("k/inner/f") == [1])
        }
    }
}
