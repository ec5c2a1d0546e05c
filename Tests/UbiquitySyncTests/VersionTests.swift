import Testing
internal import UbiquityContent
import UbiquitySync
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityTestSupport
import UbiquityWire

/// Conflict versions and history on simulated devices.
@Suite struct VersionTests: WorldTests {
    static let seed: UInt64 = 5

    /// Both devices edit "f" concurrently; `b` later.
    /// - Parameter reunion: the time limit for their agreement.
    private func makeConflict(
        _ world: Simulation, size: Int = 10, reunion: Duration = .seconds(60)
    ) async throws -> (lost: [UInt8], won: [UInt8]) {
        if try world.a.row("f") == nil {
            try await world.a.create("f", world.random.bytes(size))
            try await world.settle()
        }
        // Missing content cannot be edited offline.
        for device in [world.a, world.b] { try await device.materialize("f") }
        try await world.settle()
        let (lost, won) = (world.random.bytes(size), world.random.bytes(size))
        try world.a.setPaused(true)
        try world.b.setPaused(true)
        try await world.a.edit("f") { _ in lost }
        try await world.sleep(.seconds(5))
        try await world.b.edit("f") { _ in won }
        try world.b.setPaused(false)
        try await world.settle([world.b])
        let start = world.world.uptime
        try world.a.setPaused(false)
        try await world.settle()
        #expect(world.world.uptime - start < reunion)
        return (lost, won)
    }

    private func conflicts(_ device: SimulatedDevice, _ path: String = "f") throws -> [RemoteVersion] {
        let row = try device.live(path)
        return try device.index.read { try $0.conflicts(of: row.id) }
    }

    /// The name that it is moved to had another document, which is in the trash then.
    @Test func conflictStaysWithAFileMovedOverAnother() async throws {
        try await run(["a", "b"]) { world in
            let (_, won) = try await makeConflict(world)
            try await world.a.create("other", [7])
            try await world.settle()
            let id = try world.a.live("f").id
            try world.a.rename("f", "other")
            try await world.settle()
            for device in world.devices {
                #expect(try device.live("other").id == id)
                #expect(try await device.read("other") == won)
                #expect(try conflicts(device, "other").count == 1)
            }
        }
    }

    /// A program has it open here, so the edit is not shown: a removal removes only the shown state.
    @Test func removalKeepsAnEditNotShownYet() async throws {
        try await run(["a", "b"]) { world in
            try await world.a.create("f", [1])
            try await world.settle()
            try await world.b.materialize("f")
            for _ in 0..<4 { world.b.link.script(.fetchChunks, .hold(.seconds(30))) }
            try await world.a.edit("f") { _ in [2, 2] }
            try await world.settle([world.a])
            let id = try world.b.live("f").id
            func isTold() throws -> Bool { try world.b.index.read { try $0.isRecord(id, .awaitingContent) } }
            for _ in 0..<100 where try !isTold() { try await world.sleep(.milliseconds(100)) }
            try #require(try isTold() && world.b.live("f").size == 1)
            try world.b.remove("f")
            try await world.settle()
            for device in world.devices { #expect(try await device.read("f") == [2, 2]) }
        }
    }

    private func content(of version: RemoteVersion, on device: SimulatedDevice) async throws -> [UInt8] {
        let engine = try device.engine
        let content = try await engine.begin(version)
        defer { engine.release(content) }
        try await engine.fill(content, 0..<content.size)
        return try content.file.read(count: Int(content.size), at: 0)
    }

    @Test(arguments: [10, 3_000_000]) func everyDeviceHasTheLoser(size: Int) async throws {
        try await run(["a", "b", "c"]) { world in
            let (lost, won) = try await makeConflict(world, size: size)
            // The device that made it is gone for good.
            world.a.crash()
            for device in [world.b, world.devices[2]] {
                let found = try conflicts(device)
                #expect(found.count == 1 && found.first?.content.deviceName == "a")
                #expect(try await device.read("f") == won)
                #expect(try await content(of: #require(found.first), on: device) == lost)
                #expect(try device.engine.status(of: device.live("f")).conflictCount == 1)
            }
        }
    }

    /// The feed may bring the conflict before the commit's answer.
    @Test(arguments: 1...8) func winnerIsDownloadedAtOnce(seed: UInt64) async throws {
        try await Worlds.run(seed: seed, Simulation.Options(devices: ["a", "b"])) { world in
            var slow = NetworkConditions.perfect
            slow.delay = .milliseconds(1)...(.seconds(1))
            world.a.link.setConditions(slow)
            _ = try await makeConflict(world, reunion: .seconds(15))
        }
    }

    @Test func offlineResolutionHoldsEverywhere() async throws {
        try await run { world in
            _ = try await makeConflict(world)
            let found = try #require(try conflicts(world.b).first)
            try world.b.setPaused(true)
            try world.b.index.decide([(.resolve, found.id)], of: world.b.live("f").key)
            #expect(try conflicts(world.b).isEmpty && conflicts(world.a).count == 1)
            #expect(try !world.b.isIdle())
            // It survives the process.
            world.b.crash()
            try world.b.start()
            try world.b.setPaused(false)
            try await world.settle()
            #expect(try conflicts(world.a).isEmpty && conflicts(world.b).isEmpty)
            let kinds = try await world.b.engine.versions.allVersions(of: world.b.live("f").id).map(\.kind)
            #expect(kinds == [.current, .resolved, .history])
            #expect(try world.b.index.read { try $0.versionActionCount() } == 0)
        }
    }

    /// The last earlier one: the record has no more, and the list fetched before is outdated.
    @Test func removedEarlierVersionIsNotListed() async throws {
        try await run { world in
            _ = try await makeConflict(world)
            func kinds(_ device: SimulatedDevice) async throws -> [RemoteVersion.Kind] {
                try await device.engine.versions.otherVersions(of: device.live("f").id).map(\.kind)
            }
            for device in [world.a, world.b] { #expect(try await kinds(device) == [.conflict, .history]) }
            let earlier = try await world.a.engine.versions.otherVersions(of: world.a.live("f").id).first { $0.kind == .history }
            try world.a.index.decide([(.remove, #require(earlier).id)], of: world.a.live("f").key)
            try await world.settle()
            for device in [world.a, world.b] { #expect(try await kinds(device) == [.conflict], "\(device.name)") }
        }
    }

    @Test func repeatedResolutionIsOne() async throws {
        try await run { world in
            _ = try await makeConflict(world)
            for device in [world.a, world.b] {
                try device.setPaused(true)
                try device.index.decide([(.resolve, #require(try conflicts(device).first).id)], of: device.live("f").key)
            }
            world.b.link.script(.commit, .loseAnswer)
            for device in [world.a, world.b] { try device.setPaused(false) }
            try await world.settle()
            #expect(try conflicts(world.a).isEmpty && conflicts(world.b).isEmpty)
        }
    }

    @Test func restoringTheLoserMakesItCurrentEverywhere() async throws {
        try await run { world in
            let (lost, _) = try await makeConflict(world)
            let found = try #require(try conflicts(world.b).first)
            try world.b.index.decide([(.restore, found.id)], of: world.b.live("f").key)
            try await world.settle()
            for device in [world.a, world.b] {
                #expect(try await device.read("f") == lost)
                #expect(try conflicts(device).isEmpty)
            }
            #expect(world.b.link.counts.uploadedBytes == 0, "the cloud has it already")
            try await world.check()
        }
    }

    @Test func versionMovedOverTheFileIsASave() async throws {
        try await run { world in
            let (lost, _) = try await makeConflict(world)
            let found = try #require(try conflicts(world.b).first)
            let copy = try await world.b.engine.versionDownloads.copy(found)
            let row = try world.b.live("f")
            let place = VersionPlace(parent: 1, name: try ItemName("f"), isExclusive: false)
            try world.b.setPaused(true)
            let old = try world.b.index.place(found, of: row.key, content: copy, ino: nil, at: place)
            if let old { try world.b.store.remove(old) }
            #expect(try conflicts(world.b).isEmpty)
            #expect(try await world.b.read("f") == lost)
            try world.b.setPaused(false)
            try await world.settle()
            #expect(try await world.a.read("f") == lost)
            #expect(try conflicts(world.a).isEmpty)
            try await world.check()
        }
    }

    @Test func concurrentReadersOfVersionShareItsDownload() async throws {
        try await run { world in
            let (lost, _) = try await makeConflict(world, size: 2_000_000)
            let found = try #require(try conflicts(world.b).first)
            world.b.link.resetCounts()
            let read = try await withThrowingTaskGroup(of: [UInt8].self) { group in
                for _ in 0..<5 { group.addTask { try await content(of: found, on: world.b) } }
                return try await group.reduce(into: [[UInt8]]()) { $0.append($1) }
            }
            #expect(read == Array(repeating: lost, count: 5))
            // And once more, from the kept content.
            #expect(try await content(of: found, on: world.b) == lost)
            #expect(world.b.link.counts.fetchedBytes == lost.count)
        }
    }

    @Test func conflictsStayWithARenamedItem() async throws {
        try await run { world in
            _ = try await makeConflict(world)
            try world.a.makeFolder("d")
            try world.a.rename("f", "d/g")
            try await world.settle()
            #expect(try conflicts(world.b, "d/g").count == 1)
            let folder = try world.b.live("d")
            #expect(try world.b.index.read { try $0.conflictCount(of: folder) } == 1)
        }
    }

    @Test(arguments: [-365.0, 365.0]) func clockAYearOffNeitherWinsNorLoses(days: Double) async throws {
        let skewed = SimulatedDevice.Settings(skew: .seconds(days * 86_400))
        for name in ["a", "b"] {
            try await run(["a", "b"], [name: skewed]) { world in
                let (lost, won) = try await makeConflict(world)
                for device in world.devices {
                    #expect(try await device.read("f") == won, "\(name) is \(days) days off")
                    #expect(try await content(of: #require(try conflicts(device).first), on: device) == lost)
                }
            }
        }
    }

    @Test func earlierVersionsAreListedOffline() async throws {
        try await run { world in
            try await world.a.create("f", [1])
            try await world.settle()
            try await world.a.edit("f") { _ in [2, 2] }
            try await world.settle()
            let item = try world.b.live("f").id
            let found = try await world.b.engine.versions.otherVersions(of: item)
            #expect(found.map(\.kind) == [.history] && found.first?.content.size == 1)
            #expect(try await content(of: #require(found.first), on: world.b) == [1])
            let asked = world.b.link.counts.calls[.versions]
            _ = try await world.b.engine.versions.otherVersions(of: item)
            #expect(world.b.link.counts.calls[.versions] == asked)
            try world.b.setPaused(true)
            #expect(try await world.b.engine.versions.otherVersions(of: item) == found)
            world.b.link.setAway(true)
            #expect(try await world.b.engine.versions.otherVersions(of: item) == found)
        }
    }

    @Test func silentCloudIsAwaitedOnce() async throws {
        try await run { world in
            try await world.a.create("f", [1])
            try await world.settle()
            try await world.a.edit("f") { _ in [2, 2] }
            try await world.settle()
            let item = try world.b.live("f").id
            world.b.link.script(.versions, .vanishBefore {})
            let start = world.world.uptime
            for _ in 0..<20 { #expect(try await world.b.engine.versions.otherVersions(of: item).isEmpty) }
            #expect(world.world.uptime - start < .seconds(5))
            try await world.sleep(.seconds(20))
            #expect(try await world.b.engine.versions.otherVersions(of: item).count == 1)
        }
    }

    @Test func deletedFolderIsRestoredWithItsItems() async throws {
        try await run { world in
            try world.a.makeFolder("d")
            try world.a.makeFolder("d/e")
            for name in ["d/f", "d/e/g", "d/earlier"] { try await world.a.create(name, [7]) }
            try await world.settle()
            try world.a.remove("d/earlier")
            try await world.settle()
            try await world.sleep(.seconds(60))
            try world.a.remove("d")
            try await world.settle()
            #expect(try world.b.row("d") == nil)
            let trash = try await world.b.engine.trash.items(in: nil, limit: 10)
            #expect(trash.items.map(\.item.name.description) == ["d"])
            let deleted = try #require(trash.items.first)
            #expect(try await world.b.engine.trash.undelete(deleted, to: nil) == 4)
            try await world.settle()
            for device in [world.a, world.b] {
                #expect(try device.row("d/e/g") != nil && device.row("d/f") != nil)
                #expect(try device.row("d/earlier") == nil, "that was deleted by itself")
            }
            #expect(try await world.b.engine.trash.items(in: nil, limit: 10).items.map(\.item.name.description) == ["earlier"])
        }
    }

    /// Swift treats both as one text; they are two files, in two folders.
    @Test func trashDistinguishesNamesByBytes() async throws {
        let names = ["\u{e9}", "e\u{301}", "E\u{301}"]
        try await run { world in
            for name in names {
                try world.a.makeFolder(name)
                try await world.a.create("\(name)/\(name)", Array(name.utf8))
            }
            try await world.settle()
            #expect(try world.b.paths().count == 6)
            for name in names {
                try world.a.remove(name)
                try await world.settle()
                try await world.sleep(.seconds(60))
            }
            #expect(try world.b.paths().isEmpty)
            for name in names {
                let path = "\(name)/\(name)"
                let found = try #require(try await world.b.engine.trash.item(at: path))
                #expect(Array(found.path.utf8) == Array(path.utf8))
                _ = try await world.b.engine.trash.undelete(found, to: nil)
                try await world.settle()
                #expect(try await world.b.read(path) == Array(name.utf8))
            }
        }
    }

    /// On a bad line other changes of the device may arrive first more than once.
    @Test(arguments: [1, 3, 100])
    func overtakenRestorationIsSentAgain(times: Int) async throws {
        try await run { world in
            try await world.a.create("f", [7])
            try await world.settle()
            try world.a.remove("f")
            try await world.settle()
            let deleted = try #require(try await world.b.engine.trash.items(in: nil, limit: 10).items.first)
            for _ in 0..<times { world.b.link.script(.commit, .fail(OutdatedCommit(last: 1))) }
            do {
                #expect(try await world.b.engine.trash.undelete(deleted, to: nil) == 1)
                #expect(times < 100)
            } catch let error as UbiquityError {
                #expect(times == 100 && error.code == .busy)
            }
            world.b.link.forgetScript()
            try await world.settle()
            #expect(try (world.a.row("f") == nil) == (times == 100))
        }
    }

    /// A link, which is restored first, restores its file's folder; the folder is no deleted one then. An item whose
    /// name another one has by now is not restored.
    @Test func deletedFolderIsRestoredOnce() async throws {
        try await run { world in
            for folder in ["d", "d/e", "d/e/s"] { try world.a.makeFolder(folder) }
            for name in ["d/e/g", "d/e/h", "d/e/s/i", "d/twice"] { try await world.a.create(name, [7]) }
            try world.a.makeHardLink("d/link", to: "d/e/g")
            try await world.settle()
            for content in [[8], [9]] as [[UInt8]] {
                try world.a.remove("d/twice")
                try await world.settle()
                try await world.a.create("d/twice", content)
                try await world.settle()
            }
            let before = try world.a.paths().map(\.path)
            try world.a.remove("d")
            try await world.settle()
            let deleted = try #require(try await world.b.engine.trash.items(in: nil, limit: 10).items.first)
            #expect(try await world.b.engine.trash.undelete(deleted, to: nil) == before.count)
            try await world.settle()
            for device in [world.a, world.b] { #expect(try device.paths().map(\.path) == before, "\(device.name)") }
            #expect(try await world.b.read("d/twice") == [9])
        }
    }

    /// A remote edit has restored the folder and the file; a restoration brings the other items deleted with it.
    @Test func remainingItemsOfDeletedFolderAreRestoredAtOnce() async throws {
        try await run { world in
            try world.a.makeFolder("d")
            try world.a.makeFolder("d/e")
            for name in ["d/f", "d/e/g", "d/h", "d/earlier", "dd"] { try await world.a.create(name, [7]) }
            try await world.settle()
            try world.a.remove("d/earlier")
            try world.a.remove("dd")
            try await world.settle()
            try await world.sleep(.seconds(2 * 3600))
            _ = try await world.b.read("d/f")
            world.b.link.setAway(true)
            try await world.b.edit("d/f") { _ in [8] }
            try world.a.remove("d")
            try await world.sleep(.seconds(60))
            world.b.link.setAway(false)
            try await world.settle()
            for device in [world.a, world.b] {
                #expect(try device.row("d/f") != nil && device.row("d/e") == nil && device.row("d/h") == nil)
            }
            #expect(try await world.b.engine.trash.item(at: "d") == nil)
            let left = try await world.b.engine.trash.items(deletedIn: "d")
            #expect(Set(left.map(\.path)) == ["d/e", "d/h"])
            #expect(try await world.b.engine.trash.undelete(left) == 3)
            try await world.settle()
            for device in [world.a, world.b] {
                #expect(try device.row("d/e/g") != nil && device.row("d/h") != nil)
                #expect(try device.row("d/earlier") == nil && device.row("dd") == nil)
            }
            #expect(try await world.b.engine.trash.items(deletedIn: "dd").isEmpty)
        }
    }

    /// Its contents are lost at the cloud: a program gets an error with a remedy.
    @Test func restoreThatTheCloudRefusesForMissingChunksFailsWithARemedy() async throws {
        try await run { world in
            try await world.a.create("f", [1])
            try await world.settle()
            try world.a.remove("f")
            try await world.settle()
            let deleted = try #require(try await world.b.engine.trash.items(in: nil, limit: 10).items.first)
            world.b.link.script(.commit, .fail(MissingChunks(ids: [ChunkNaming.name(of: [1])])))
            let error = await #expect(throws: UbiquityError.self) {
                _ = try await world.b.engine.trash.undelete(deleted, to: nil)
            }
            #expect(error?.code == .damaged && error?.remedy.isEmpty == false)
            _ = try await world.b.engine.trash.undelete(deleted, to: nil)
            try await world.settle()
            #expect(try await world.a.read("f") == [1])
        }
    }
}
