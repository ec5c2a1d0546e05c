import Glibc
import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityTestSupport

/// Serialized, because the process has only one fault hook.
@Suite(.serialized) struct DurabilityTests {
    let fixture: Fixture
    init() throws { fixture = try Fixture() }

    @Test func changesAreDurableWithOrWithoutALog() throws {
        try fixture.file("a")
        try fixture.index.makeDurable()
        try fixture.index.makeDurable()
        let log = fixture.folder("index.db-wal")
        #expect(try FileSystem.status(log).size > 0)
        try fixture.index.checkpoint()
        // A short log is not checkpointed.
        #expect(try FileSystem.status(log).size < 1 << 24)
        try fixture.file("b")
        try fixture.index.makeDurable()
        #expect(try fixture.reopened().read { try $0.itemCount() } == 2)
    }

    @Test func failedSyncIsRepaired() throws {
        try fixture.file("a")
        let isBroken = Lock(true)
        FaultPoints.setHook { name in
            name == "index.sync" && isBroken.withLock { $0 } ? UbiquityError(.io, "hook") : nil
        }
        defer { FaultPoints.setHook(nil) }
        expect(.io) { try fixture.index.makeDurable() }
        isBroken.withLock { $0 = false }
        // The log may be lost on the disk: it is copied into the database, which is synced.
        try fixture.index.makeDurable()
        #expect(try FileSystem.status(fixture.folder("index.db-wal")).size == 0)
        // The journal was not synced either: it restarts.
        let lost = try PowerLoss(fixture)
        try fixture.file("b")
        try fixture.index.makeDurable()
        #expect(try lost.names() == ["a", "b"])
    }

    /// Otherwise, after a power loss, the index might take new bytes for the cloud's content.
    @Test func writerIsDurableBeforeItChangesCloudContent() throws {
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

    @Test func logSizeIsBounded() throws {
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

    // MARK: The journal and the log

    /// The possible state after a power loss: the database and its log as of their last sync, the journal as it is.
    private struct PowerLoss {
        let fixture: Fixture
        let folder: TemporaryFolder

        /// The database and its log are durable as they are now, without later changes.
        init(_ fixture: Fixture) throws {
            self.fixture = fixture
            folder = try TemporaryFolder()
            try fixture.copyFiles(["index.db", "index.db-wal"], to: folder)
        }

        /// The names that a start finds in the top folder.
        func names() throws -> [String] {
            try fixture.copyFiles(["index.journal"], to: folder)
            let index = try ItemIndex(path: folder("index.db"), timekeeper: fixture.time, random: fixture.random)
            try index.write(.startup) { try $0.checkInvariants() }
            let rows = try index.read { try $0.children(of: .root, after: nil, limit: 10_000) }
            try index.close()
            return rows.compactMap { $0.entry?.name.description }
        }
    }

    /// The number of syncs during `body`.
    private func syncs(_ body: () throws -> Void) throws -> Int {
        let count = Lock(0)
        FaultPoints.setHook { name in
            if name.hasPrefix("index.sync") { count.withLock { $0 += 1 } }
            return nil
        }
        defer { FaultPoints.setHook(nil) }
        try body()
        return count.withLock { $0 }
    }

    private func change(_ name: String) throws {
        try fixture.index.write(.remote) { transaction in
            let before = try #require(try transaction.row(path: Fixture.names(name)))
            var row = before
            row.mode ^= 1
            try transaction.update(row, before: before)
        }
    }

    /// Marks the item as known to the cloud in its current state.
    private func acknowledge(_ name: String) throws {
        try fixture.index.write(.remote) { transaction in
            let before = try #require(try transaction.row(path: Fixture.names(name)))
            var row = before
            row.dirty = []
            row.version = VersionID(high: 1, low: 1)
            try transaction.update(row, before: before)
        }
    }

    @Test func journalAloneIsSyncedIfComplete() throws {
        try fixture.make("a")
        #expect(try syncs { try fixture.index.makeDurable() } == 2)
        let lost = try PowerLoss(fixture)
        for name in ["b", "c"] {
            try fixture.make(name)
            #expect(try syncs { try fixture.index.makeDurable() } == 1)
        }
        // The change is in the database meanwhile; the journal continues after it.
        try fixture.index.checkpoint()
        try fixture.make("d")
        #expect(try syncs { try fixture.index.makeDurable() } == 1)
        try fixture.make("e")
        #expect(try lost.names() == ["a", "b", "c", "d", "e"])
    }

    @Test func changesOutsideTheJournalAreSyncedWithTheLog() throws {
        try fixture.make("a")
        try fixture.index.makeDurable()
        try change("a")
        #expect(try syncs { try fixture.index.makeDurable() } == 2)
        let lost = try PowerLoss(fixture)
        try fixture.make("b")
        try fixture.index.makeDurable()
        // Unsynced, between a promised change and one that was not: the second one is lost with it.
        try change("a")
        try fixture.make("c")
        #expect(try lost.names() == ["a", "b"])
    }

    /// When the database has unpromised changes, the journal overwrites them, and then only the log has them.
    @Test func journalRestartNeedsTheLog() throws {
        try fixture.make("a")
        try fixture.index.checkpoint()
        try fixture.index.makeDurable()
        try fixture.make("b")
        try fixture.index.checkpoint()
        try fixture.make("c")
        #expect(try syncs { try fixture.index.makeDurable() } == 2)
        let lost = try PowerLoss(fixture)
        try fixture.make("d")
        #expect(try syncs { try fixture.index.makeDurable() } == 1)
        #expect(try lost.names() == ["a", "b", "c", "d"])
    }

    /// Its space is used up while it has changes that are durable nowhere else.
    @Test func fullJournalRestartsAfterTheLogSync() throws {
        try fixture.make("a")
        try fixture.index.makeDurable()
        try fixture.make("b")
        let row = try #require(try fixture.index.child(of: .root, named: ItemName("b")))
        var lost = try PowerLoss(fixture)
        for number in 0..<60 {
            let value = [UInt8](repeating: UInt8(number), count: 50_000)
            let count = try syncs {
                try fixture.index.setXattr(ino: row.ino, Xattr(name: Array("user.x".utf8), value: value), .any)
                try fixture.index.checkpoint()
            }
            // The log was synced before the journal restarted.
            if count > 1 { lost = try PowerLoss(fixture) }
            #expect(try syncs { try fixture.index.makeDurable() } <= 2)
            if number % 10 == 9 { #expect(try lost.names() == ["a", "b"]) }
        }
        #expect(try fixture.copied().index.row(ino: row.ino)?.xattrs.first?.value.first == 59)
    }

    /// A program that syncs its open file repeatedly; a start checks such a file.
    @Test func recordedWriterIsNotSyncedAgain() throws {
        let file = try fixture.file("a")
        _ = try fixture.index.beginWriting(ino: file.ino)
        var size: Int64 = 0
        func write(stillOpen: Bool = true) throws {
            size += 1
            _ = try fixture.index.noteWriting(
                ino: file.ino, changed: true, size: size, modifiedAt: fixture.time.now(), stillOpen: stillOpen)
        }
        func fsync() throws -> Int { try syncs { try fixture.index.makeChangesDurable() } }
        try write()
        #expect(try fsync() == 2)
        let lost = try PowerLoss(fixture)
        for _ in 0..<3 {
            try write()
            #expect(try fsync() == 0)
        }
        // All other users of durability have the whole index.
        #expect(try syncs { try fixture.index.makeDurable() } == 1)
        try fixture.make("b")
        try write()
        #expect(try fsync() == 1)
        #expect(try fsync() == 0)
        #expect(try lost.names() == ["a", "b"])
        // A pending change that was no program's call, such as a restoration, counts as a change; a remote one does
        // not.
        try change("b")
        #expect(try fsync() == 2)
        try acknowledge("b")
        try change("b")
        #expect(try fsync() == 0)
        // The cloud's newer state must not be taken for the local one.
        try acknowledge("a")
        try write()
        #expect(try fsync() == 2)
        try write(stillOpen: false)
        #expect(try fsync() == 1)
        // A failed change has promised nothing.
        try fixture.make("c")
        FaultPoints.setHook { $0 == "index.sync" ? UbiquityError(.io, "hook") : nil }
        expect(.io) { try fixture.index.makeChangesDurable() }
        FaultPoints.setHook(nil)
        try fixture.index.makeChangesDurable()
        #expect(try FileSystem.status(fixture.folder("index.db-wal")).size == 0, "copied into the database")
        #expect(try fsync() == 0)
    }

    /// The next life overwrites the journal: its promises must be durable in the database before that.
    @Test func startSyncsTheLogFirst() throws {
        try fixture.make("a")
        try fixture.index.makeDurable()
        try fixture.make("b")
        try fixture.index.makeDurable()
        let (folder, index) = try fixture.copied()
        #expect(try FileSystem.status(folder("index.db-wal")).size < 1 << 16, "it is in the database, but for the start's own")
        #expect(try index.read { try $0.itemCount() } == 2)
        try index.close()
        FaultPoints.setHook { $0 == "index.sync" ? UbiquityError(.io, "hook") : nil }
        defer { FaultPoints.setHook(nil) }
        expect(.io) { _ = try fixture.copied() }
    }

    // MARK: One flush for the index and a content

    /// Whether the folders of these tests are on a file system that lets a flush be shared.
    private static var sharesFlushes: Bool {
        get throws {
            let file = try FileDescriptor.open("/tmp", [.readWrite, .temporary])
            return try file.sharedFlushes() != nil
        }
    }

    private var device: UInt64 {
        get throws { try FileSystem.status(fixture.folder("index.journal")).device }
    }

    /// - Returns: whether it became durable, and the calls.
    private func shareFlush(device: UInt64, failing: String? = nil) throws -> (Bool, [String]) {
        var called = [String]()
        func call(_ name: String) throws {
            called.append(name)
            if name == failing { throw Errno.EIO }
        }
        let isThere = try fixture.index.makeDurable(
            byFlushOf: device, start: { try call("start") }, sync: { try call("sync") })
        return (isThere, called)
    }

    @Test(.enabled("only ext4 shares flushes") { try sharesFlushes })
    func flushOfAContentSyncsTheJournal() throws {
        try fixture.make("a")
        // The database's log belongs to the first flush.
        #expect(try shareFlush(device: device) == (false, []))
        try fixture.index.makeDurable()
        let lost = try PowerLoss(fixture)
        try fixture.make("b")
        #expect(!fixture.index.hasDurableChanges)
        #expect(try shareFlush(device: device) == (true, ["start", "sync"]))
        #expect(fixture.index.hasDurableChanges)
        #expect(try lost.names() == ["a", "b"])
        try fixture.make("c")
        #expect(try shareFlush(device: device &+ 1) == (false, []), "elsewhere")
        #expect(!fixture.index.hasDurableChanges)
    }

    /// Nothing was promised. As the extent of the flush is unknown, everything is written again.
    @Test(.enabled("only ext4 shares flushes") { try sharesFlushes }, arguments: ["start", "sync"])
    func failedSharedFlushIsReported(_ failing: String) throws {
        try fixture.make("a")
        try fixture.index.makeDurable()
        try fixture.make("b")
        #expect(throws: Errno.EIO) { try shareFlush(device: device, failing: failing) }
        #expect(!fixture.index.hasDurableChanges)
        if failing == "sync" { #expect(try shareFlush(device: device) == (false, ["start"])) }
        try fixture.index.makeDurable()
        let log = try FileSystem.status(fixture.folder("index.db-wal")).size
        #expect((log == 0) == (failing == "sync"))
        #expect(fixture.index.hasDurableChanges)
    }

    /// A write to a hole would change more on the disk than its bytes.
    @Test(.enabled("only ext4 shares flushes") { try sharesFlushes })
    func journalSpaceIsWrittenOnce() throws {
        func hasHoles() throws -> Bool {
            let journal = try FileDescriptor.open(fixture.folder("index.journal"), .readOnly)
            // A page that was read counts as data, whatever is on the disk.
            try journal.sync()
            posix_fadvise(journal.rawValue, 0, 0, POSIX_FADV_DONTNEED)
            return try journal.nextHole(from: 0) != journal.status().size
        }
        #expect(try !hasHoles())
        try fixture.make("a")
        try fixture.index.renewJournal()
        #expect(try !hasHoles())
        // As an earlier version left it.
        try fixture.index.close()
        let journal = try FileDescriptor.open(fixture.folder("index.journal"), .readWrite)
        try journal.truncate(to: 0)
        try journal.allocate([], 0..<1 << 20)
        try journal.sync()
        #expect(try hasHoles())
        // Like the last opening.
        _ = try journal.read(count: 1 << 20, at: 0)
        try fixture.reopened().close()
        #expect(try !hasHoles())
    }
}
