import Testing
internal import UbiquityContent
@testable import UbiquitySync
import UbiquityCore
import UbiquityIndex
import UbiquityTestSupport
import UbiquityWire

/// Moments at which the local content and the known state do not match yet.
@Suite struct TransitionTests: WorldTests {
    static let seed: UInt64 = 11

    /// The first page of a feed has no deletions, which a new device need not know. A device with an earlier state must
    /// get them.
    @Test func deletionBeforeTheFirstPageIsApplied() async throws {
        try await run(["a", "b"]) { world in
            try await world.settle()
            // The cloud is still empty, so b is at the feed's beginning when it makes the file.
            for _ in 0..<2 { world.b.link.script(.changes, .hold(.seconds(20))) }
            try await world.b.create("f", [1])
            try await world.settle([world.a])
            try world.a.remove("f")
            try await world.settle()
            #expect(try world.b.row("f") == nil)
            try await world.check()
        }
    }

    /// The first listing of a new device is not empty, and does not wait for an unreachable or slow cloud.
    @Test func firstListingIsAwaited() async throws {
        try await run(["a", "b", "c"]) { world in
            for device in [world.a, world.b] { device.link.script(.changes, .hold(.seconds(3))) }
            world.c.link.setAway(true)
            func waited(_ device: SimulatedDevice, _ limit: Duration) async throws -> Duration {
                let start = world.world.uptime
                try await device.engine.status.awaitFirstListing(atMost: limit)
                return world.world.uptime - start
            }
            #expect(try await waited(world.c, .seconds(60)) < .seconds(60))
            let isListed = try world.c.index.read { try $0.hasBeenCaughtUp() }
            #expect(!isListed)
            #expect(try await waited(world.a, .seconds(1)) == .seconds(1))
            #expect(try await waited(world.b, .seconds(60)) < .seconds(5))
            let isKnown = try world.b.index.read { try $0.hasBeenCaughtUp() }
            #expect(isKnown)
            #expect(try await waited(world.b, .seconds(60)) == .zero)
        }
    }

    /// The feed lists an item at its last change: an item missing on one page may be on a later one.
    @Test func itemMissingOnFirstPageMayBeOnALaterOne() async throws {
        for seed in UInt64(1)...10 {
            try await Worlds.run(seed: seed, Simulation.Options(devices: ["a", "b"])) { world in
                try await world.settle()
                for _ in 0..<2 { world.b.link.script(.changes, .hold(.seconds(20))) }
                try await world.b.create("f", [1])
                try await world.settle([world.a])
                for number in 0..<30 { try await world.a.create("g\(number)", [2]) }
                try await world.settle([world.a])
                try world.a.setMode("f", 0o600)
                let before = try #require(try world.b.row("f"))
                try await world.settle()
                let after = try #require(try world.b.row("f"))
                #expect(after.ino == before.ino && !after.isPlaceholder && after.mode == 0o600)
                try await world.check()
            }
        }
    }

    /// A recent save is not uploaded when the next program truncates the file and has not written yet.
    @Test(arguments: [1, 300_000]) func truncatedFileBeingRewrittenIsNotUploaded(length: Int) async throws {
        try await run(["a", "b"]) { world in
            try await world.a.create("f", Array(repeating: 1, count: length))
            try await world.settle()
            try await world.b.materialize("f")
            try await world.settle()
            try world.a.setPaused(true)
            try await world.a.edit("f") { _ in Array(repeating: 2, count: length) }
            async let writing: Void = world.a.overwrite("f", Array(repeating: 3, count: length), pause: .seconds(60))
            try await world.sleep(.seconds(1))
            try world.a.setPaused(false)
            for _ in 0..<50 {
                try await world.sleep(.seconds(1))
                #expect(try await world.b.read("f").count == length)
            }
            try await writing
            try await world.settle()
            #expect(try await world.b.read("f") == Array(repeating: 3, count: length))
        }
    }

    /// `sed -i~` reads a placeholder, renames it to a backup and puts the new file in its place, all at once. The index
    /// may not have recorded the download yet.
    @Test func fileJustReadIsAWholeBackup() async throws {
        try await run(["a", "b"]) { world in
            try await world.a.create("f.txt", [1, 2, 3])
            try await world.settle()
            let id = try #require(try world.b.row("f.txt")).id
            #expect(try await world.b.read("f.txt") == [1, 2, 3])
            try world.b.rename("f.txt", "f.txt~")
            try await world.b.create("sedX1Y2Z3", [4, 5])
            try world.b.rename("sedX1Y2Z3", "f.txt")
            try await world.settle()
            #expect(try world.b.row("f.txt")?.id == id)
            #expect(try world.a.row("f.txt")?.id == id)
            #expect(try await world.a.read("f.txt") == [4, 5])
            #expect(try await world.b.read("f.txt~") == [1, 2, 3])
            try await world.check()
        }
    }

    /// On a busy machine a program renames its temporary file later than usual, and `mv` is started for it first.
    @Test(arguments: ["f.txt.new", "tmp1ab_x9zk", "f.txt.1732", ".f.txt-a3Bx", "sedX1Y2Z3"])
    func temporaryFileIsNotAnnounced(name: String) async throws {
        try await run(["a", "b"]) { world in
            try await world.a.create("f.txt", [1])
            try await world.settle()
            let before = try await world.cloud.open().revision
            try await world.a.create(name, [2])
            try await world.sleep(.milliseconds(700))
            try world.a.rename(name, "f.txt")
            try await world.settle()
            #expect(try await world.cloud.open().revision == before.next)
            #expect(try await world.b.read("f.txt") == [2])
            // A temporary file that stays is announced after all, and one that becomes a new document is announced at
            // once.
            try await world.a.create(name, [3])
            try await world.a.create("tmp12345678", [4])
            try world.a.rename("tmp12345678", "g.txt")
            try await world.sleep(.milliseconds(200))
            #expect(try world.b.row("g.txt") != nil && world.b.row(name) == nil)
            try await world.settle()
            #expect(try await world.b.read(name) == [3])
            try await world.check()
        }
    }

    /// However long ago it was begun.
    @Test func slowTemporaryFileIsNotAnnounced() async throws {
        try await run(["a", "b"]) { world in
            try await world.a.create("f.txt", [1])
            try await world.settle()
            let before = try await world.cloud.open().revision
            try world.a.setPaused(true)
            try await world.a.create("f.txt.new", [2])
            try await world.sleep(.seconds(15))
            try await world.a.edit("f.txt.new") { $0 + [3] }
            try world.a.setPaused(false)
            try await world.sleep(.milliseconds(700))
            try world.a.rename("f.txt.new", "f.txt")
            try await world.settle()
            #expect(try await world.cloud.open().revision == before.next)
            #expect(try await world.b.read("f.txt") == [2, 3])
        }
    }

    /// A program that appends continuously.
    @Test func constantlyWrittenTemporaryFileIsUploaded() async throws {
        try await run(["a", "b"]) { world in
            try await world.a.create("status.tmp", [0])
            for number in 0..<40 {
                try await world.sleep(.milliseconds(500))
                try await world.a.edit("status.tmp") { $0 + [UInt8(number)] }
                if try world.b.row("status.tmp") != nil { break }
            }
            #expect(try world.b.row("status.tmp") != nil)
        }
    }

    /// Programs that copy changed files rely on that time.
    @Test func remoteChangesUpdateChangeTime() async throws {
        try await run(["a", "b"]) { world in
            try await world.a.create("f", [1])
            try await world.settle()
            var last = try world.b.live("f").changedAt
            for change in [{ try world.a.setMode("f", 0o600) }, { try world.a.setXattr("f", "user.k", "v") },
                { try world.a.rename("f", "g") }]
            {
                try await world.sleep(.seconds(10))
                try change()
                try await world.settle()
                let row = try world.b.live(try world.b.row("g") == nil ? "f" : "g")
                #expect(row.changedAt > last)
                last = row.changedAt
            }
            // The echo of its own changes is no change.
            let own = try world.a.live("g").changedAt
            try await world.sleep(.seconds(10))
            #expect(try world.a.live("g").changedAt == own)
        }
    }

    /// As when a laptop wakes: the old connection is dead, and the next one works.
    @Test func readerSurvivesABrokenConnection() async throws {
        try await run(["a", "b"]) { world in
            let bytes = world.random.bytes(3_000_000)
            try await world.a.create("f", bytes)
            try await world.settle()
            world.b.link.script(.fetchChunks, .fail(UbiquityError(.offline, "the connection is broken")))
            #expect(try await world.b.read("f") == bytes)
            // A permanent failure is reported.
            try world.b.evict("f")
            for _ in 0..<99 { world.b.link.script(.fetchChunks, .fail(UbiquityError(.offline, "there is no connection"))) }
            await #expect(throws: (any Error).self) { _ = try await world.b.read("f") }
            world.b.link.forgetScript()
            try await world.settle()
        }
    }

    /// A program has read the beginning and exited: the downloaded part uses space, and is evicted like any other
    /// content.
    @Test func partialContentIsEvicted() async throws {
        let size = 6_000_000
        try await run(["a", "b"], ["b": .init(cacheLimit: Int64(size) + 10)]) { world in
            for name in ["f", "g"] { try await world.a.create(name, world.random.bytes(size)) }
            try await world.settle()
            let engine = try world.b.engine, key = try world.b.live("f").key
            let content = try await engine.begin(key)
            try await engine.fill(content, 0..<100)
            engine.release(content)
            try #require(try world.b.live("f").contentState == .partial)
            try await world.sleep(.seconds(20))
            try await world.b.materialize("g")
            try await world.settle()
            #expect(try world.b.live("f").contentState == .none && world.b.live("g").contentState == .complete)
            #expect(try world.b.store.all().count == 1)
            try await world.check()
        }
    }

    /// A program has read the beginning of a large file: that evicts none of the others. A content larger than the
    /// cache is evicted itself at its close.
    @Test(arguments: [6_001_000, 100_000] as [Int64]) func partialReadOfALargeFileEvictsNoOther(limit: Int64) async throws {
        try await run(["a", "b"], ["b": .init(cacheLimit: limit)]) { world in
            for number in 0..<10 { try await world.a.create("f\(number)", world.random.bytes(9000)) }
            try await world.a.create("large", world.random.bytes(6_000_000))
            try await world.settle()
            for number in 0..<10 { try await world.b.materialize("f\(number)") }
            func expectAllHere() throws {
                for number in 0..<10 { #expect(try world.b.live("f\(number)").contentState == .complete, "\(number)") }
            }
            let engine = try world.b.engine, key = try world.b.live("large").key
            let content = try await engine.begin(key)
            try expectAllHere()
            try await engine.fill(content, 0..<100)
            try expectAllHere()
            // While the file is open, all of its content is downloaded gradually.
            if limit < 6_000_000 { try await world.sleep(.seconds(20)) }
            try expectAllHere()
            engine.release(content)
            try await world.sleep(.seconds(20))
            try expectAllHere()
            #expect(try world.b.live("large").contentState == (limit < 6_000_000 ? .none : .partial))
            try await world.check()
        }
    }

    /// A running download reserves its space: automatic downloads do not use the same space.
    @Test func spaceIsReservedOnce() async throws {
        let size = 600_000
        try await run(["a", "b"], ["b": .init(cacheLimit: 1_000_000)]) { world in
            for name in ["f", "g"] { try await world.a.create(name, world.random.bytes(size)) }
            try await world.settle()
            let engine = try world.b.engine
            world.b.link.script(.fetchChunks, .hold(.seconds(60)))
            try world.b.pin("f")
            try await world.sleep(.seconds(5))
            #expect(try engine.space.freeSpace() == 400_000)
            // The whole content of an open file is downloaded as well.
            let content = try await engine.begin(try world.b.live("g").key)
            #expect(try engine.space.freeSpace() == 0)
            engine.release(content)
            try await world.settle()
        }
    }

    /// A program that reads more than the cache limit: the part read first is evicted before the next is downloaded.
    @Test func readerEvictsBehindItself() async throws {
        try await run(["a", "b"], ["b": .init(cacheLimit: 10)]) { world in
            for number in 0..<6 { try await world.a.create("f\(number)", [UInt8(number), 1, 2, 3]) }
            try await world.settle()
            for number in 0..<6 {
                try await world.b.materialize("f\(number)")
                #expect(try await world.b.read("f\(number)") == [UInt8(number), 1, 2, 3])
                #expect(try world.b.engine.space.cachedBytes() <= 10)
                #expect(try world.b.store.all().count <= 2, "the space is free")
            }
            #expect(try world.b.paths().filter { !$0.row.isPlaceholder }.map(\.path).sorted() == ["f4", "f5"])
        }
    }

    /// A program's writes fill the disk long before the next round of maintenance.
    @Test func writerEvictsOtherContents() async throws {
        try await run(["a"], ["a": .init(diskFloor: 1 << 60)]) { world in
            try await world.a.create("f", [1, 2, 3])
            try await world.a.create("g", [1])
            try await world.settle()
            try await world.a.materialize("f")
            let content = try #require(try world.a.live("f").content)
            async let writing: Void = world.a.overwrite("g", [2], pause: .seconds(2))
            try await world.sleep(.milliseconds(1500))
            #expect(try world.a.live("g").isWriting)
            #expect(try world.a.live("f").isPlaceholder)
            #expect(try !world.a.store.all().contains(content), "the space is free")
            try await writing
            try await world.settle()
            try await world.check()
        }
    }
}
