import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquityTestSupport
import UbiquityWire

/// Another cloud than before, or one that has forgotten its deletions.
@Suite struct ForgettingCloudTests: WorldTests {
    static let seed: UInt64 = 11

    @Test func deviceAwayTooLongReadsTheSnapshot() async throws {
        try await run { world in
            for number in 0..<50 { try await world.a.create("f\(number)", [UInt8(number)]) }
            try await world.settle()
            world.b.link.setAway(true)
            for number in 0..<49 { try world.a.remove("f\(number)") }
            try await world.a.create("new", [1])
            try await world.settle([world.a])
            world.cloud.purge()
            world.b.link.setAway(false)
            try await world.settle()
            #expect(try world.b.paths().map(\.path) == ["f49", "new"])
            #expect(world.b.link.counts.calls[.snapshot] != nil)
            try await world.check()
        }
    }

    /// It was deleted, and edited on a device that was away until the cloud forgot it.
    @Test func editedForgottenPackageReturnsWhole() async throws {
        try await run { world in
            try world.a.makeFolder("p.rtfd")
            try world.a.makeFolder("p.rtfd/sub")
            for name in ["1", "2", "sub/3"] { try await world.a.create("p.rtfd/\(name)", [1]) }
            try await world.settle()
            for name in ["1", "2", "sub/3"] { _ = try await world.b.read("p.rtfd/\(name)") }
            try await world.settle()
            world.b.link.setAway(true)
            try await world.b.edit("p.rtfd/1") { _ in [2] }
            try world.a.remove("p.rtfd")
            try await world.settle([world.a])
            world.cloud.purge()
            world.b.link.setAway(false)
            try await world.settle()
            for device in world.devices {
                #expect(try device.paths().map(\.path) == [
                    "p.rtfd", "p.rtfd/1", "p.rtfd/2", "p.rtfd/sub", "p.rtfd/sub/3",
                ])
                #expect(try await device.read("p.rtfd/1") == [2])
                #expect(try await device.read("p.rtfd/sub/3") == [1])
            }
            try await world.check()
        }
    }

    /// The answer to a commit arrives after the item's deletion, which the snapshot shows by the item's absence.
    @Test(arguments: [false, true]) func lateAnswerRestoresNothing(isEditedAgain: Bool) async throws {
        try await run { world in
            try await world.a.create("f", [1])
            try await world.settle()
            _ = try await world.b.read("f")
            world.b.link.script(.commit, .holdAnswer(.seconds(20)))
            try await world.b.edit("f") { _ in [2] }
            try await world.sleep(.milliseconds(500))
            #expect(try await world.a.read("f") == [2])
            world.b.link.setAway(true)
            try world.a.remove("f")
            try await world.settle([world.a])
            world.cloud.purge()
            world.b.link.setAway(false)
            try await world.sleep(.seconds(5))
            #expect(world.b.link.counts.calls[.snapshot] != nil)
            #expect(try world.b.live("f").dirty.contains(.content), "not answered yet")
            if isEditedAgain { try await world.b.edit("f") { _ in [3] } }
            try await world.settle()
            try await world.check()
            #expect(try world.b.paths().map(\.path) == (isEditedAgain ? ["f"] : []))
            if isEditedAgain { #expect(try await world.a.read("f") == [3]) }
        }
    }

    /// The link is sent with its target, and not repeatedly before it.
    @Test func editedForgottenItemReturnsUnderNewName() async throws {
        try await run { world in
            try await world.a.create("f", [1, 2])
            try await world.settle()
            _ = try await world.b.read("f")
            world.b.link.setAway(true)
            let bytes = world.random.bytes(200_000)
            try await world.b.edit("f") { _ in bytes }
            try world.a.remove("f")
            try await world.settle([world.a])
            world.cloud.purge()
            try await world.sleep(.seconds(60))
            try world.b.makeHardLink("g", to: "f")
            world.b.link.resetCounts()
            world.b.link.setAway(false)
            try await world.settle()
            #expect(try await world.a.read("g") == bytes)
            #expect(world.b.link.counts.calls[.commit, default: 0] < 10)
            try await world.check()
        }
    }

    /// The cloud has forgotten the folder of a new link, and not the file.
    @Test func fileLinkedInAForgottenFolderStays() async throws {
        try await run { world in
            try world.a.makeFolder("d")
            try await world.b.create("f", [1, 2])
            try await world.settle()
            world.b.link.setAway(true)
            try world.b.makeHardLink("d/g", to: "f")
            try world.a.remove("d")
            try await world.settle([world.a])
            world.cloud.purge()
            // Long enough that it knows: the feed is read before anything is sent.
            try await world.sleep(.seconds(60))
            world.b.link.resetCounts()
            world.b.link.setAway(false)
            try await world.settle()
            #expect(try await world.a.read("d/g") == [1, 2])
            #expect(try await world.b.read("f") == [1, 2])
            #expect(world.b.link.counts.calls[.commit, default: 0] < 10)
            try await world.check()
        }
    }

    /// Deleted, forgotten, and evicted here: its links have no target.
    @Test(arguments: [false, true]) func evictedForgottenItemIsRemoved(hasOtherName: Bool) async throws {
        try await run { world in
            try await world.a.create("f", [1, 2])
            try await world.settle()
            _ = try await world.b.read("f")
            world.b.link.setAway(true)
            try world.b.evict("f")
            if hasOtherName { try world.b.makeHardLink("g", to: "f") }
            try world.b.setMode("f", 0o600)
            try world.a.remove("f")
            try await world.settle([world.a])
            world.cloud.purge()
            world.b.link.setAway(false)
            try await world.settle()
            #expect(try world.b.paths().isEmpty)
            try await world.check()
        }
    }

    /// The same, and the answer that the cloud knows neither arrives before the feed.
    @Test func evictedForgottenItemLosesItsLinks() async throws {
        try await run { world in
            try await world.a.create("f", [1, 2])
            try await world.settle()
            _ = try await world.b.read("f")
            world.b.link.script(.commit, .hold(.seconds(10)))
            world.b.link.script(.changes, .hold(.seconds(20)))
            try world.b.evict("f")
            try world.b.makeHardLink("g", to: "f")
            try world.b.setMode("f", 0o600)
            try await world.sleep(.seconds(1))
            try world.a.remove("f")
            try await world.settle([world.a])
            world.cloud.purge()
            #expect(world.b.link.counts.calls[.commit] == 1)
            #expect(try world.b.live("g").dirty.contains(.mode), "sent, and not answered yet")
            try await world.settle()
            #expect(try world.b.paths().isEmpty)
            try await world.check()
        }
    }

    /// The folder is forgotten, not the item that was moved into it meanwhile.
    @Test(arguments: [false, true]) func itemMovedIntoForgottenFolderStays(isEvicted: Bool) async throws {
        try await run { world in
            try await world.a.create("f", [1, 2])
            try world.a.makeFolder("d")
            try await world.settle()
            _ = try await world.b.read("f")
            let id = try world.b.live("f").id
            if isEvicted { try world.b.evict("f") }
            world.b.link.setAway(true)
            try world.b.rename("f", "d/f")
            try world.a.remove("d")
            try world.a.setMode("f", 0o600)
            try await world.settle([world.a])
            world.cloud.purge()
            world.b.link.setAway(false)
            try await world.settle()
            #expect(try world.a.live("d/f").id == id)
            #expect(try await world.b.read("d/f") == [1, 2])
            try await world.check()
        }
    }

    @Test func interruptedSnapshotIsReadAgain() async throws {
        try await run { world in
            for number in 0..<50 { try await world.a.create("f\(number)", [UInt8(number)]) }
            try await world.settle()
            world.b.crash()
            for number in 0..<49 { try world.a.remove("f\(number)") }
            try await world.settle()
            world.cloud.purge()
            world.b.link.script(.snapshot, .vanishBefore { world.b.crash() })
            try world.b.start()
            try await world.sleep(.seconds(60))
            #expect(!world.b.isRunning)
            try world.b.start()
            try await world.settle()
            #expect(try world.b.paths().map(\.path) == ["f49"])
        }
    }

    @Test func emptiedCloudIsFilledByItsDevices() async throws {
        try await run { world in
            try world.a.makeFolder("folder")
            try await world.a.create("folder/f", [1, 2])
            try await world.settle()
            try await world.b.materialize("folder/f")
            world.cloud.startAnew()
            for device in world.devices { device.link.setAway(true) }
            try await world.sleep(.seconds(60))
            for device in world.devices { device.link.setAway(false) }
            try await world.settle()
            #expect(try await world.a.read("folder/f") == [1, 2])
            try await world.check()
        }
    }

    /// A content too large for one commit is announced by each device; whoever sends it first, it is one content.
    @Test(arguments: [0, 1], [0, 1])
    func largeFilesSentAgainMakeNoConflict(first: Int, slow: Int) async throws {
        try await run { world in
            let bytes = world.random.bytes(9_000_000)
            try await world.a.create("f", bytes)
            try await world.settle()
            try await world.b.materialize("f")
            let modified = try world.b.live("f").modifiedAt
            world.cloud.startAnew()
            for device in world.devices { device.link.setAway(true) }
            try await world.sleep(.seconds(60))
            for _ in 0..<3 { world.devices[slow].link.script(.upload, .hold(.seconds(20))) }
            world.devices[first].link.setAway(false)
            try await world.sleep(.seconds(first == slow ? 5 : 1))
            world.devices[1 - first].link.setAway(false)
            try await world.settle()
            for device in world.devices {
                #expect(try conflicts(device).isEmpty)
                let row = try device.live("f")
                #expect(row.modifiedAt == modified && row.dirtyAt == modified, "else the version is of 1970")
                #expect(try await device.read("f") == bytes)
                let versions = try await device.link.versions(of: row.id)
                #expect(versions.allSatisfy { $0.modifiedAt == modified }, "\(versions)")
            }
            try await world.check()
        }
    }

    enum Return: CaseIterable { case atOnce, oneAfterTheOther, afterAnEdit }

    /// Changes acknowledged after the copy are on the devices, and are sent again: also to devices that return when the
    /// cloud is beyond their position.
    @Test(arguments: Return.allCases) func restoredCloudGetsItsMissingChanges(_ way: Return) async throws {
        try await run { world in
            for name in ["edited", "renamed", "same"] { try await world.a.create(name, Array(name.utf8)) }
            try await world.settle()
            let copy = world.cloud.copy()
            try await world.b.create("new", [3])
            try await world.settle()
            if way == .oneAfterTheOther { world.b.link.setAway(true) }
            try await world.a.edit("edited") { _ in [2, 2] }
            try world.a.rename("renamed", "renamed 2")
            try await world.settle(way == .oneAfterTheOther ? [world.a] : world.devices)
            for device in world.devices where way != .atOnce { device.link.setAway(true) }
            if way == .afterAnEdit { try await world.a.edit("same") { _ in [4, 4, 4] } }
            world.cloud.restore(copy)
            try await world.sleep(.seconds(60))
            world.a.link.setAway(false)
            if way == .oneAfterTheOther {
                try await world.settle([world.a])
                for name in ["x", "y", "z"] { try await world.a.create(name, [9]) }
                try await world.settle([world.a])
            }
            world.b.link.setAway(false)
            try await world.settle()
            let others = way == .oneAfterTheOther ? ["x", "y", "z"] : []
            for device in world.devices {
                #expect(try device.paths().map(\.path) == ["edited", "new", "renamed 2", "same"] + others)
                #expect(try await device.read("edited") == [2, 2])
                #expect(try await device.read("new") == [3])
                #expect(try await device.read("same") == (way == .afterAnEdit ? [4, 4, 4] : Array("same".utf8)))
            }
            try await world.check()
        }
    }

    /// The restored cloud has passed this device's position before the device reads: by then its revision is another
    /// commit.
    @Test func restoredCloudThatWasOvertakenIsNoticed() async throws {
        try await run { world in
            try await world.a.create("old", [1])
            try await world.settle()
            let copy = world.cloud.copy()
            world.b.link.setAway(true)
            for name in ["lost 1", "lost 2"] { try await world.a.create(name, [2]) }
            try await world.settle([world.a])
            world.a.link.setAway(true)
            world.cloud.restore(copy)
            world.b.link.setAway(false)
            for number in 0..<6 {
                try await world.b.create("new \(number)", [3])
                try await world.settle([world.b])
            }
            world.a.link.setAway(false)
            try await world.settle()
            let all = ["lost 1", "lost 2"] + (0..<6).map { "new \($0)" } + ["old"]
            for device in world.devices { #expect(try device.paths().map(\.path) == all, "\(device.name)") }
            try await world.check()
        }
    }

    /// A reachable cloud that refuses requests is not asked continuously.
    @Test func failingFeedIsRetriedLessOften() async throws {
        try await run { world in
            try await world.a.create("f", [1])
            try await world.settle()
            for _ in 0..<1000 { world.b.link.script(.changes, .fail(UbiquityError(.invalid, "no"))) }
            world.cloud.restart()
            world.b.link.resetCounts()
            try await world.sleep(.seconds(600))
            #expect(world.b.link.counts.calls[.open, default: 0] < 40)
        }
    }

    /// Its content is reported as unavailable, and it is not sent after a change of its permissions either.
    @Test(arguments: [false, true]) func placeholderOfAFormerCloudStays(isChangedBefore: Bool) async throws {
        try await run { world in
            try await world.a.create("f", [1, 2])
            try await world.settle()
            world.a.crash()
            world.b.link.setAway(true)
            if isChangedBefore { try world.b.setMode("f", 0o600) }
            world.cloud.startAnew()
            try await world.sleep(.seconds(60))
            world.b.link.setAway(false)
            try await world.sleep(.seconds(60))
            if !isChangedBefore { try world.b.setMode("f", 0o600) }
            try await world.sleep(.seconds(60))
            #expect(try world.b.paths().map(\.path) == ["f"])
            #expect(try world.b.live("f").mode == 0o600)
            #expect(world.b.link.counts.calls[.commit, default: 0] <= 4)
        }
    }

    /// It has nothing to do for a placeholder that nobody can fill, even if a user has pinned it.
    @Test func placeholderOfAnotherCloudLeavesItsNameToANewFile() async throws {
        try await run(["a", "b", "c"]) { world in
            try await world.a.create("f", [1, 2])
            try await world.settle()
            world.a.crash()
            for device in [world.b, world.c] { device.link.setAway(true) }
            try world.b.pin("f")
            try world.c.remove("f")
            try await world.c.create("f", [3])
            world.cloud.startAnew()
            try await world.sleep(.seconds(60))
            for device in [world.b, world.c] { device.link.setAway(false) }
            try await world.settle([world.b, world.c])
            #expect(try world.b.paths().map(\.path) == ["f", "f 2"])
            #expect(try await world.b.read("f") == [3])
            #expect(try world.c.paths().map(\.path) == ["f"])
        }
    }

    @Test func renamedPlaceholderOfAnotherCloudIsNotSent() async throws {
        try await run { world in
            try await world.a.create("f", [1, 2])
            try await world.settle()
            world.a.crash()
            world.b.link.setAway(true)
            world.cloud.startAnew()
            try await world.sleep(.seconds(60))
            world.b.link.setAway(false)
            try await world.settle([world.b])
            world.b.link.resetCounts()
            try world.b.rename("f", "g")
            try await world.settle([world.b])
            #expect(try world.b.paths().map(\.path) == ["g"])
            #expect(world.b.link.counts.calls[.commit, default: 0] == 0)
        }
    }

    /// The cloud had an item of another kind with the id, which nobody can see any more.
    @Test func newItemWhoseIDTheCloudRefusesIsUploadedWithAnother() async throws {
        try await run { world in
            world.a.link.script(.commit, .fail(UbiquityError(.invalid, "the item is a file, not a symlink")))
            try world.a.makeLink("l", to: "x")
            let id = try world.a.live("l").id
            try await world.settle()
            #expect(try world.a.live("l").id != id)
            #expect(try world.b.live("l").id == world.a.live("l").id)
            try await world.check()
        }
    }

    // MARK: Resolutions

    /// `a` has lost against `b`, and both know it.
    private func makeConflict(_ world: Simulation) async throws -> RemoteVersion {
        try await world.a.create("f", [1])
        try await world.settle()
        try await world.b.materialize("f")
        try world.a.setPaused(true)
        try world.b.setPaused(true)
        try await world.a.edit("f") { _ in [2, 2] }
        try await world.sleep(.seconds(5))
        try await world.b.edit("f") { _ in [3, 3, 3] }
        try world.b.setPaused(false)
        try await world.settle([world.b])
        try world.a.setPaused(false)
        try await world.settle()
        try await world.a.materialize("f")
        return try #require(try conflicts(world.a).first)
    }

    private func conflicts(_ device: SimulatedDevice) throws -> [RemoteVersion] {
        try device.index.read { try $0.conflicts(of: device.live("f").id) }
    }

    /// `a` resolves offline, while an older copy of the cloud with the version is restored.
    private func decide(
        _ kind: PendingVersionAction.Kind, _ world: Simulation, _ version: (RemoteVersion) async throws -> VersionID
    ) async throws {
        let conflict = try await makeConflict(world)
        let copy = world.cloud.copy()
        try await world.b.create("later", [9])
        try await world.settle()
        let wanted = try await version(conflict)
        for device in world.devices { device.link.setAway(true) }
        try world.a.index.decide([(kind, wanted)], of: world.a.live("f").key)
        world.cloud.restore(copy)
        try await world.sleep(.seconds(60))
        for device in world.devices { device.link.setAway(false) }
        try await world.settle()
        for device in world.devices { #expect(try await device.read("later") == [9], "it is another cloud") }
        #expect(try world.a.index.read { try $0.versionActionCount() } == 0)
        try await world.check()
    }

    @Test(arguments: [PendingVersionAction.Kind.resolve, .remove])
    func separateDecisionHoldsAtOlderCopy(kind: PendingVersionAction.Kind) async throws {
        try await run(["a", "b"]) { world in
            try await decide(kind, world) { $0.id }
            for device in world.devices {
                #expect(try conflicts(device).isEmpty, "\(device.name)")
                #expect(try await device.read("f") == [3, 3, 3])
            }
        }
    }

    /// (The file of `b` is sent again, too, without a base: that is in conflict with the restored one.)
    @Test(arguments: [false, true]) func separateRestorationHoldsAtOlderCopy(isConflict: Bool) async throws {
        try await run(["a", "b"]) { world in
            var lost: VersionID?
            try await decide(.restore, world) { conflict in
                lost = conflict.id
                let others = try await world.a.engine.versions.otherVersions(of: world.a.live("f").id)
                return isConflict ? conflict.id : try #require(others.first { $0.kind == .history }).id
            }
            for device in world.devices {
                #expect(try await device.read("f") == (isConflict ? [2, 2] : [1]), "\(device.name)")
                #expect(try conflicts(device).contains { $0.id == lost } == !isConflict, "\(device.name)")
            }
        }
    }

    /// A cloud that never had the version, which was lost with the old one: there is nothing to resolve.
    @Test(arguments: [PendingVersionAction.Kind.resolve, .restore])
    func separateDecisionIsForgottenAtAnotherCloud(kind: PendingVersionAction.Kind) async throws {
        try await run(["a", "b"]) { world in
            let conflict = try await makeConflict(world)
            for device in world.devices { device.link.setAway(true) }
            try world.a.index.decide([(kind, conflict.id)], of: world.a.live("f").key)
            world.cloud.startAnew()
            try await world.sleep(.seconds(60))
            world.a.link.resetCounts()
            for device in world.devices { device.link.setAway(false) }
            try await world.settle()
            #expect(try world.a.index.read { try $0.versionActionCount() } == 0)
            #expect(world.a.link.counts.calls[.commit, default: 0] < 6)
            for device in world.devices {
                #expect(try await device.read("f") == [3, 3, 3], "\(device.name)")
                #expect(try conflicts(device).isEmpty, "\(device.name)")
            }
        }
    }

    /// One device gets the answer that its folder is forgotten. Before that arrives, the feed reports that another
    /// device has restored it.
    @Test func itemRestoredMeanwhileIsNotForgotten() async throws {
        try await PackageConflictTests().run { world in
            let (a, b, c) = (world.a, world.b, world.devices[2])
            try a.makeFolder("d")
            try await a.create("d/f", [1])
            try await world.settle()
            _ = try await b.read("d/f")
            for device in [b, c] { device.link.setAway(true) }
            try a.remove("d")
            try await world.settle([a])
            world.cloud.purge()
            try await c.create("d/g", [3])
            try await world.sleep(.seconds(5))
            try await b.edit("d/f") { _ in [2] }
            try await b.create("d/h", [4])
            c.link.script(.commit, .holdAnswer(.seconds(10)))
            c.link.setAway(false)
            try await world.sleep(.seconds(5))
            #expect(c.link.counts.calls[.commit] == 1, "not answered yet")
            b.link.setAway(false)
            try await world.settle()
            for device in world.devices {
                #expect(try await device.read("d/f") == [2], "\(device.name)")
                #expect(try await device.read("d/g") == [3], "\(device.name)")
            }
        }
    }

    /// The cloud reports no missing chunks, and then refuses the commit for missing ones: the device retries with
    /// pauses, and users see the error.
    @Test func cloudThatLosesUploadsIsRetriedLater() async throws {
        try await run { world in
            try await world.a.create("f", [UInt8](repeating: 7, count: 500_000))
            try await world.settle()
            world.a.link.resetCounts()
            try await world.a.edit("f") { $0.map { $0 &+ 1 } }
            var isTold = false
            for _ in 0..<30_000 {
                world.cloud.forgetUnusedChunks()
                try await world.sleep(.milliseconds(1))
            }
            isTold = try world.a.engine.status.pendingUploads(limit: 5).contains { $0.problem != nil }
            let commits = world.a.link.counts.calls[.commit] ?? 0
            #expect(commits > 1 && commits < 20, "\(commits) commits in 30 s")
            #expect(isTold)
            try await world.settle()
            try await world.check()
        }
    }

    /// The same for a content that is so small that the commit contains it.
    @Test func cloudThatRefusesUploadsIsRetriedLater() async throws {
        try await run { world in
            try await world.a.create("f", [1])
            try await world.settle()
            let unknown = try #require(ChunkID(hex: String(repeating: "ab", count: 32)))
            for _ in 0..<10_000 { world.a.link.script(.commit, .fail(MissingChunks(ids: [unknown]))) }
            world.a.link.resetCounts()
            try await world.a.edit("f") { _ in [2, 2] }
            try await world.sleep(.seconds(30))
            let commits = world.a.link.counts.calls[.commit] ?? 0
            #expect(commits > 1 && commits < 20, "\(commits) commits in 30 s")
            #expect(try world.a.engine.status.pendingUploads(limit: 5).contains { $0.problem != nil })
            world.a.link.forgetScript()
            try await world.settle()
            #expect(try await world.b.read("f") == [2, 2])
        }
    }
}
