import Testing
internal import UbiquityContent
@testable import UbiquitySync
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityTestSupport

/// One device or two, and a cloud: the transfers between them.
@Suite struct EngineTests: WorldTests {
    static let seed: UInt64 = 11

    // MARK: Uploads and downloads

    @Test func smallFileIsSentInOneCommit() async throws {
        try await run { world in
            try await world.a.create("f", [1, 2, 3])
            try await world.settle()
            #expect(world.a.link.counts.calls[.upload] == nil)
            #expect(world.a.link.counts.contents == 1)
            #expect(try world.b.live("f").isPlaceholder)
            #expect(try world.b.live("f").size == 3)
            #expect(try await world.b.read("f") == [1, 2, 3])
            try await world.check()
        }
    }

    @Test func largeFileIsAnnouncedAndSentInChunks() async throws {
        try await run { world in
            let bytes = world.random.bytes(3_000_000)
            try await world.a.create("f", bytes)
            try await world.settle()
            #expect(world.a.link.counts.uploadedBytes == bytes.count)
            #expect(try await world.b.read("f") == bytes)
            #expect(world.b.link.counts.fetchedBytes == bytes.count)
            try await world.check()
        }
    }

    @Test func touchSendsNoContent() async throws {
        try await run { world in
            try await world.a.create("f", world.random.bytes(300_000))
            try await world.settle()
            world.a.link.resetCounts()
            let time = Timestamp(seconds: 1_500_000_000, nanoseconds: 7)
            try world.a.setModified("f", time)
            try await world.settle()
            #expect(world.a.link.counts.contents == 0)
            #expect(world.a.link.counts.uploadedBytes == 0)
            #expect(try world.b.live("f").modifiedAt == time)
        }
    }

    /// A program that creates and removes files changes the folder's time with each.
    @Test func folderTimesAreSentRarely() async throws {
        try await run { world in
            try world.a.makeFolder("d")
            try await world.settle()
            world.a.link.resetCounts()
            for number in 0..<200 {
                try await world.a.create("d/t\(number)", [1])
                try world.a.remove("d/t\(number)")
                try await world.world.sleep(for: .milliseconds(20))
            }
            try await world.settle()
            // Four seconds, with at most two commits a second.
            #expect(world.a.link.counts.calls[.commit, default: 0] <= 10)
            #expect(try world.b.live("d").modifiedAt == world.a.live("d").modifiedAt)
            try await world.check()
        }
    }

    @Test func onlyChangedChunksAreTransferred() async throws {
        try await run { world in
            let bytes = world.random.bytes(8_000_000)
            try await world.a.create("f", bytes)
            try await world.settle()
            try await world.b.materialize("f")
            world.a.link.resetCounts()
            world.b.link.resetCounts()
            try await world.a.edit("f") { [42] + $0 }
            try await world.settle()
            #expect(world.a.link.counts.uploadedBytes < 2 << 20)
            // A downloaded content is kept current.
            #expect(try world.b.live("f").size == Int64(bytes.count + 1))
            #expect(try !world.b.live("f").isPlaceholder)
            #expect(world.b.link.counts.fetchedBytes < 2 << 20)
            #expect(try await world.b.read("f") == [42] + bytes)
        }
    }

    @Test func partialDownloadResumesAfterARestart() async throws {
        try await run { world in
            let bytes = world.random.bytes(12_000_000)
            try await world.a.create("f", bytes)
            try await world.settle()
            let key = try world.b.live("f").key
            let engine = try world.b.engine
            let content = try await engine.begin(key)
            try await engine.fill(content, 0..<1)
            let before = content.presentBytes
            world.b.crash()
            world.b.link.resetCounts()
            try world.b.start()
            #expect(try await world.b.read("f") == bytes)
            #expect(before > 0)
            #expect(world.b.link.counts.fetchedBytes <= bytes.count - Int(before))
        }
    }

    // MARK: Eviction

    @Test func evictionKeepsAllButTheContent() async throws {
        try await run { world in
            try await world.a.create("f", [1, 2, 3])
            try await world.settle()
            let before = try world.a.live("f")
            try world.a.evict("f")
            let after = try world.a.live("f")
            #expect(after.isPlaceholder && after.content == nil)
            #expect((after.ino, after.size, after.modifiedAt) == (before.ino, before.size, before.modifiedAt))
            #expect(try await world.a.read("f") == [1, 2, 3])
        }
    }

    @Test func evictionIsRefusedWithAReason() async throws {
        try await run(["a"]) { world in
            func refusal(_ path: String) -> UbiquityError.Code? {
                do { try world.a.evict(path) } catch { return (error as? UbiquityError)?.code }
                return nil
            }
            try world.a.makeFolder("folder")
            try await world.a.create("pinned", [1])
            try await world.a.create("open", [1])
            try await world.a.create("dirty", [1])
            for name in ["mode", "xattr", "moved"] { try await world.a.create(name, [1]) }
            try await world.settle()
            try world.a.pin("pinned")
            _ = try world.a.index.beginWriting(ino: world.a.live("open").ino)
            world.a.link.setAway(true)
            try await world.a.edit("dirty") { $0 + [2] }
            try world.a.setMode("mode", 0o600)
            try world.a.setXattr("xattr", "user.k", "v")
            try world.a.rename("moved", "elsewhere")
            try await world.a.create("new", [1])
            #expect(refusal("folder") == .isDirectory)
            #expect(refusal("pinned") == .notPermitted)
            #expect(refusal("open") == .busy)
            for name in ["dirty", "mode", "xattr", "elsewhere"] { #expect(refusal(name) == .busy, "\(name)") }
            #expect(refusal("new") == .noSuchAttribute)
            #expect(refusal("nothing") == .notFound)
        }
    }

    @Test func pinnedAndEagerContentsAreDownloadedAutomatically() async throws {
        try await run(["a", "b", "c"], ["c": .init(policy: .eager)]) { world in
            try await world.a.create("pinned", [1])
            try await world.a.create("other", [2])
            try await world.settle()
            try world.b.pin("pinned")
            try await world.sleep(.seconds(60))
            #expect(try !world.b.live("pinned").isPlaceholder)
            #expect(try world.b.live("other").isPlaceholder)
            #expect(try world.c.paths().allSatisfy { !$0.row.isPlaceholder })
        }
    }

    @Test func waitingDownloadsAreCounted() async throws {
        try await run(["a", "b"], ["b": .init(policy: .eager)]) { world in
            try world.b.setPaused(true)
            for number in 0..<5 { try await world.a.create("f\(number)", [1, 2]) }
            try await world.settle([world.a])
            try world.b.setPaused(false)
            try await world.settle()
            #expect(try world.b.paths().allSatisfy { !$0.row.isPlaceholder })
            let (all, some) = try world.b.index.read { (try $0.wantedTotal(eager: .max), try $0.wantedTotal(eager: 0)) }
            #expect(all == (0, 0) && some == (0, 0))
        }
        try await run(["a", "b"]) { world in
            for number in 0..<5 { try await world.a.create("f\(number)", [1, 2]) }
            try await world.settle()
            let (all, some) = try world.b.index.read { (try $0.wantedTotal(eager: .max), try $0.wantedTotal(eager: 0)) }
            #expect(all == (5, 10) && some == (0, 0))
        }
    }

    /// Contents that the next eviction would remove are not downloaded: otherwise they would be transferred for ever.
    @Test func eagerDeviceStaysWithinItsCacheLimit() async throws {
        try await run(["a", "b"], ["b": .init(policy: .eager, cacheLimit: 10)]) { world in
            for number in 0..<6 { try await world.a.create("f\(number)", [UInt8(number), 1, 2, 3]) }
            try await world.settle([world.a])
            try await world.sleep(.seconds(300))
            #expect(try world.b.paths().count { !$0.row.isPlaceholder } == 2)
            #expect(world.b.link.counts.calls[.fetchChunks] == 2)
        }
    }

    /// More files than concurrent downloads: each finished one starts the next.
    @Test func manyDownloadsFollowEachOtherWithoutAPause() async throws {
        try await run(["a", "b"], ["b": .init(policy: .eager)]) { world in
            for number in 0..<100 { try await world.a.create("f\(number)", [UInt8(number)]) }
            try await world.settle([world.a])
            try await world.sleep(.seconds(10))
            #expect(try world.b.paths().allSatisfy { !$0.row.isPlaceholder })
            for number in 0..<100 { try await world.a.edit("f\(number)") { $0 + [7] } }
            try await world.settle([world.a])
            try await world.sleep(.seconds(10))
            #expect(try world.b.paths().allSatisfy { $0.row.size == 2 && $0.row.contentState == .complete })
        }
    }

    /// More than goes in one commit. The folder was changed before, and by each deletion in it.
    @Test func largeFolderIsDeletedWithContents() async throws {
        try await run(["a", "b"], ["a": .init(allowsMassDelete: true)]) { world in
            for folder in 0..<3 { try world.a.makeFolder("d\(folder)") }
            try await world.settle()
            for number in 0..<1200 { try await world.a.create("d\(number % 3)/f\(number)", []) }
            try await world.settle()
            try world.a.setPaused(true)
            for folder in 0..<3 {
                for number in stride(from: folder, to: 1200, by: 3) { try world.a.remove("d\(folder)/f\(number)") }
                try world.a.remove("d\(folder)")
            }
            try world.a.setPaused(false)
            try await world.settle()
            #expect(try world.a.paths().isEmpty && world.b.paths().isEmpty)
        }
    }

    /// The question was answered.
    @Test func deletionAfterConfirmationAsksAgain() async throws {
        try await run { world in
            try world.a.makeFolder("d")
            for number in 0..<120 { try await world.a.create("d/f\(number)", []) }
            for number in 0..<20 { try await world.a.create("keep\(number)", []) }
            try await world.settle()
            try await world.sleep(.seconds(DeletionGuard.freshAge))
            try world.a.remove("d")
            try await world.sleep(.seconds(5))
            #expect(try world.a.engine.heldDeletions == 121)
            #expect(try world.a.engine.confirmDeletions() == 121)
            try await world.sleep(.seconds(5))
            try world.a.remove("keep3")
            try await world.settle()
            #expect(try world.b.paths().count == 19 && world.a.engine.heldDeletions == 0)
        }
    }

    // MARK: Faults

    @Test func oversizedFileDoesNotStopTheOthers() async throws {
        try await run { world in
            world.cloud.setQuota(1000)
            try await world.a.create("big", world.random.bytes(5000))
            try await world.a.create("small", [1])
            try await world.sleep(.seconds(60))
            #expect(try world.b.row("small") != nil)
            let big = try world.a.live("big")
            #expect(try world.a.engine.status(of: big).uploadingError?.code == .quotaExceeded)
            world.cloud.setQuota(10_000)
            try await world.settle()
            try await world.check()
        }
    }

    @Test func damagedChunkAffectsOnlyItsFile() async throws {
        try await run { world in
            let bad = world.random.bytes(1000)
            try await world.a.create("bad", bad)
            try await world.a.create("good", [1, 2])
            try await world.settle()
            world.cloud.setDamaged([SimulatedDevice.fingerprint(bad)])
            let error = await #expect(throws: UbiquityError.self) { _ = try await world.b.read("bad") }
            #expect(error?.code == .damaged)
            #expect(try world.b.engine.status(of: world.b.live("bad")).downloadingError?.code == .damaged)
            #expect(try await world.b.read("good") == [1, 2])
            world.cloud.setDamaged([])
            #expect(try await world.b.read("bad") == bad)
        }
    }

    @Test func offlineCommandStopsTransfers() async throws {
        try await run { world in
            try world.a.setPaused(true)
            try await world.sleep(.seconds(5))
            world.a.link.resetCounts()
            try await world.a.create("f", [1])
            try await world.sleep(.seconds(300))
            #expect(world.a.link.counts.calls.isEmpty)
            #expect(try world.a.engine.summary().connection.phase == .paused)
            try world.a.setPaused(false)
            try await world.settle()
            #expect(try world.b.row("f") != nil)
        }
    }

    @Test func offlineReadReportsTheReason() async throws {
        try await run { world in
            try await world.a.create("f", [1])
            try await world.settle()
            world.b.link.setAway(true)
            try await world.sleep(.seconds(60))
            let error = await #expect(throws: UbiquityError.self) { _ = try await world.b.read("f") }
            #expect(error?.code == .offline)
        }
    }

    // MARK: Kills

    @Test(arguments: [CloudCall.upload, .commit]) func killBeforeTheCommitLosesNothing(call: CloudCall) async throws {
        try await run { world in
            try await world.a.create("f", world.random.bytes(200_000))
            world.a.link.script(call, .vanishAfter { world.a.crash() })
            try await world.sleep(.seconds(10))
            #expect(!world.a.isRunning)
            try world.a.start()
            try await world.settle()
            try await world.check()
        }
    }

    @Test func killAfterTheCommitHasNoSecondEffect() async throws {
        try await run { world in
            try await world.a.create("f", [1])
            try await world.settle()
            world.a.link.script(.commit, .vanishAfter { world.a.crash() })
            try await world.a.edit("f") { $0 + [2] }
            try await world.sleep(.seconds(10))
            try world.a.start()
            try await world.settle()
            try await world.check()
            #expect(world.cloud.conflictCount() == 0)
            #expect(try world.b.paths().map(\.path) == ["f"])
        }
    }

    @Test func lostAnswerHasNoSecondEffect() async throws {
        try await run { world in
            world.a.link.script(.commit, .loseAnswer)
            try await world.a.create("Documents.txt", [1])
            try await world.settle()
            #expect(try world.b.paths().count == 1)
            #expect(world.cloud.conflictCount() == 0)
            try await world.check()
        }
    }

    /// The feed brought the own version before the answer. Then the file was written again, and the device was killed.
    @Test(arguments: [false, true]) func writeAfterLostAnswerMakesNoConflict(isNew: Bool) async throws {
        try await run { world in
            if !isNew {
                try await world.a.create("f", [1])
                try await world.settle()
            }
            world.a.link.script(.commit, .loseAnswer)
            if isNew { try await world.a.create("f", [2]) } else { try await world.a.edit("f") { _ in [2] } }
            try await world.sleep(.seconds(3))
            #expect(try world.a.live("f").dirty.contains(.content), "not answered yet")
            try await world.a.edit("f") { _ in [3] }
            world.a.crash()
            try world.a.start()
            try await world.settle()
            #expect(try await world.b.read("f") == [3])
            #expect(world.cloud.conflictCount() == 0)
            try await world.check()
        }
    }

    /// A delayed page of the feed contains an own version, and there is a later one by then.
    @Test func oldPageDoesNotRevertAnOwnVersion() async throws {
        try await run { world in
            try await world.a.create("f", [1])
            try await world.settle()
            world.a.link.script(.changes, .holdAnswer(.seconds(10)))
            world.a.link.script(.changes, .hold(.seconds(30)))
            try await world.a.edit("f") { _ in [2] }
            try await world.sleep(.seconds(5))
            try await world.a.edit("f") { _ in [3] }
            try await world.sleep(.seconds(3))
            try #expect(world.a.live("f").dirty.isEmpty, "the cloud has it")
            // Its chunks are being sent when the page arrives.
            let large = world.random.bytes(300_000)
            world.a.link.script(.missingChunks, .hold(.seconds(10)))
            try await world.a.edit("f") { _ in large }
            try await world.settle()
            #expect(try await world.b.read("f") == large)
            #expect(world.cloud.conflictCount() == 0)
        }
    }

    /// The same for an item that was created and removed again here: until the next page it would reappear.
    @Test func oldPageRestoresNoRemovedItem() async throws {
        try await run { world in
            try await world.settle()
            world.a.link.script(.changes, .holdAnswer(.seconds(10)))
            world.a.link.script(.changes, .hold(.seconds(30)))
            try await world.a.create("f", [1])
            try await world.sleep(.seconds(3))
            #expect(try await world.cloud.items().count == 1)
            try world.a.remove("f")
            try await world.sleep(.seconds(3))
            #expect(try await world.cloud.items().isEmpty)
            let position = { try world.a.index.read { try $0.feedPosition().revision.number } }
            #expect(try position() == 0, "the page is still on its way")
            try await world.sleep(.seconds(6))
            #expect(try position() == 1, "it has come, the next one has not")
            #expect(try world.a.row("f") == nil)
            try await world.settle()
            try await world.check()
        }
    }

    /// The cloud has it, and the device does not know that: the removal must be sent all the same.
    @Test(arguments: [100, 300_000]) func removalBeforeConfirmedCreationReachesAllDevices(
        size: Int
    ) async throws {
        try await run { world in
            world.a.link.script(.commit, .vanishAfter { world.a.crash() })
            try await world.a.create("f", world.random.bytes(size))
            try await world.sleep(.seconds(10))
            #expect(try await world.cloud.items().count == 1)
            world.a.link.script(.changes, .hold(.seconds(30)))
            try world.a.start()
            try await world.sleep(.seconds(1))
            try world.a.remove("f")
            try await world.settle()
            #expect(try await world.cloud.items().isEmpty)
            #expect(try world.b.paths().isEmpty)
        }
    }

    /// The same, if its content moves to another file, or the file becomes excluded.
    @Test(arguments: ["f", "f.nosync"]) func moveBeforeConfirmedCreationReachesAllDevices(
        new: String
    ) async throws {
        try await run { world in
            try await world.a.create("f", [1])
            try await world.settle()
            world.a.link.script(.commit, .vanishAfter { world.a.crash() })
            try await world.a.create("g", [2])
            try await world.sleep(.seconds(10))
            world.a.link.script(.changes, .hold(.seconds(30)))
            try world.a.start()
            try await world.sleep(.seconds(1))
            try world.a.rename("g", new)
            try await world.settle()
            #expect(try world.b.paths().map(\.path) == ["f"])
            #expect(try await world.a.read(new) == [2])
        }
    }

    @Test func writesBeforeKillAreUploaded() async throws {
        try await run { world in
            try await world.a.create("f", [1])
            try await world.settle()
            try await world.a.editAndCrash("f", [1, 2, 3])
            try world.a.start()
            try await world.settle()
            #expect(try await world.b.read("f") == [1, 2, 3])
        }
    }

    // MARK: Two concurrent changes

    @Test func twoEditsLeaveOneConflictAndLoseNothing() async throws {
        try await run { world in
            try await world.a.create("f", [0])
            try await world.settle()
            try await world.b.materialize("f")
            for device in world.devices { device.link.setAway(true) }
            try await world.a.edit("f") { _ in [1] }
            try await world.sleep(.seconds(5))
            try await world.b.edit("f") { _ in [2] }
            for device in world.devices { device.link.setAway(false) }
            try await world.settle()
            #expect(try await world.a.read("f") == [2])
            #expect(world.cloud.conflictCount() == 1)
            #expect(try world.a.engine.status(of: world.a.live("f")).conflictCount == 1)
            try await world.check()
        }
    }

    /// One program saves on two devices that do not know of each other. One of them has no contents.
    @Test func exchangedDocumentsAreExchangedOnce() async throws {
        let options = Simulation.Options(devices: ["a", "b"], process: ProcessHost.id)
        try await Worlds.run(seed: Self.seed, options) { world in
            try await world.a.create("1", [1])
            try await world.a.create("2", [2])
            try await world.settle()
            try await world.sleep(.seconds(60))
            for device in world.devices {
                device.link.setAway(true)
                try device.rename("1", "t")
                try device.rename("2", "1")
                try device.rename("t", "2")
            }
            try await world.sleep(.seconds(60))
            for device in world.devices { device.link.setAway(false) }
            try await world.settle()
            for device in world.devices {
                #expect(try await device.read("1") == [2])
                #expect(try await device.read("2") == [1])
            }
            #expect(world.cloud.conflictCount() == 0)
            try await world.check()
        }
    }

    /// A program that removes a document and creates it again, after the deletion was sent.
    @Test(arguments: [1, 300_000]) func recreationAfterUploadedDeletionKeepsIdentity(size: Int) async throws {
        let options = Simulation.Options(devices: ["a", "b"], process: ProcessHost.id)
        try await Worlds.run(seed: Self.seed, options) { world in
            let bytes = world.random.bytes(size)
            try await world.a.create("f", [0])
            try world.a.setXattr("f", "user.k", "v")
            try await world.settle()
            let item = try world.a.live("f").id
            try world.a.remove("f")
            try await world.settle()
            #expect(try world.b.row("f") == nil && world.a.row("f") == nil)
            try await world.a.create("f", bytes)
            #expect(try world.a.live("f").id == item)
            try await world.settle()
            #expect(try await world.b.read("f") == bytes)
            for device in [world.a, world.b] {
                let row = try device.live("f")
                #expect(row.id == item && row.xattrs.count == 1)
                #expect(try device.index.read { try $0.remote(id: item) }?.hasHistory == true)
            }
            try await world.check()
        }
    }

    /// The new folder is merged with another's. The item moved into it is deleted at first: its content arrives later.
    @Test func restoredItemInMergedFolderIsPlaced() async throws {
        try await run { world in
            try await world.a.create("f", [1])
            try await world.settle()
            world.a.link.setAway(true)
            try world.b.remove("f")
            try world.b.makeFolder("d")
            try await world.settle([world.b])
            let large = world.random.bytes(300_000)
            try world.a.makeFolder("d")
            try world.a.rename("f", "d/f")
            try await world.a.edit("d/f") { _ in large }
            world.a.link.setAway(false)
            try await world.settle()
            #expect(try await world.b.read("d/f") == large)
            try await world.check()
        }
    }

    /// The answer was lost with the device that had asked; meanwhile the name is free again.
    @Test func retriedCreateStaysMerged() async throws {
        try await run { world in
            world.a.link.setAway(true)
            try await world.b.create("f", [0])
            try await world.a.create("f", [1])
            try await world.settle([world.b])
            world.a.link.script(.commit, .vanishAfter { world.a.crash() })
            world.a.link.setAway(false)
            try await world.sleep(.seconds(60))
            #expect(!world.a.isRunning)
            try await world.settle([world.b])
            try world.b.rename("f", "g")
            try await world.settle([world.b])
            try world.a.start()
            try await world.settle()
            try await world.check()
        }
    }

    @Test func twoDocumentsOfOneNameAreBothKept() async throws {
        try await run { world in
            try world.a.makeFolder("Documents")
            try await world.settle()
            for device in world.devices { device.link.setAway(true) }
            try await world.a.create("Documents/report.txt", [1])
            try await world.b.create("Documents/report.txt", [2])
            for device in world.devices { device.link.setAway(false) }
            try await world.settle()
            let paths = try world.a.paths().map(\.path)
            #expect(paths == ["Documents", "Documents/report 2.txt", "Documents/report.txt"])
            try await world.check()
        }
    }
}
