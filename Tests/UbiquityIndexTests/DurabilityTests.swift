import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySystem

/// Serialized, because the fault hook is one for the whole process.
@Suite(.serialized) struct DurabilityTests {
    let fixture: Fixture
    init() throws { fixture = try Fixture() }

    @Test func durabilityWhateverTheLogIs() throws {
        try fixture.file("a")
        try fixture.index.makeDurable()
        try fixture.index.makeDurable()
        let log = fixture.folder("index.db-wal")
        #expect(try FileSystem.status(log).size > 0)
        try fixture.index.checkpoint()
        // Nothing is copied back while the log is short.
        #expect(try FileSystem.status(log).size < 1 << 24)
        try fixture.file("b")
        try fixture.index.makeDurable()
        #expect(try fixture.reopened().read { try $0.itemCount() } == 2)
    }

    @Test func aFailedSyncIsMadeUpFor() throws {
        try fixture.file("a")
        let isBroken = Lock(true)
        FaultPoints.setHook { name in
            name == "index.sync" && isBroken.withLock { $0 } ? UbiquityError(.io, "hook") : nil
        }
        defer { FaultPoints.setHook(nil) }
        expect(.io) { try fixture.index.makeDurable() }
        isBroken.withLock { $0 = false }
        // What the log holds may be lost on the disk: it is copied into the database, which is synced.
        try fixture.index.makeDurable()
        #expect(try FileSystem.status(fixture.folder("index.db-wal")).size == 0)
        try fixture.file("b")
        try fixture.index.makeDurable()
        #expect(try FileSystem.status(fixture.folder("index.db-wal")).size > 0)
    }

    /// Else, after a power loss, the index might take new bytes for the cloud's content.
    @Test func aWriterOfWhatTheCloudHasIsOnTheDiskBeforeItWrites() throws {
        let (new, known) = (try fixture.file("new"), try fixture.file("known"))
        try fixture.index.write(.remote) { transaction in
            let before = try #require(try transaction.row(key: known.key))
            var row = before
            row.version = VersionID(high: 1, low: 1)
            row.dirty = []
            try transaction.update(row, before: before)
        }
        let isBroken = Lock(true)
        FaultPoints.setHook { name in
            name == "index.sync" && isBroken.withLock { $0 } ? UbiquityError(.io, "hook") : nil
        }
        defer { FaultPoints.setHook(nil) }
        _ = try fixture.index.beginWriting(ino: new.ino)
        expect(.io) { _ = try fixture.index.beginWriting(ino: known.ino) }
        isBroken.withLock { $0 = false }
    }

    @Test func theLogDoesNotGrowWithoutBound() throws {
        let file = try fixture.file("a")
        let value = [UInt8](repeating: 1, count: 60_000)
        for number in 0..<400 {
            try fixture.index.setXattr(
                ino: file.ino, Xattr(name: Array("user.x".utf8), value: value + [UInt8(number & 255)]), .any)
            if number % 10 == 0 { try fixture.index.checkpoint() }
        }
        // 400 times 15 pages would be 24 MiB and more.
        #expect(try FileSystem.status(fixture.folder("index.db-wal")).size < 18 << 20)
    }
}
