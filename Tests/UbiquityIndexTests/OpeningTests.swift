import GRDB
import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityTestSupport

/// The database file: opening, closing, numbers over many lives, foreign files.
@Suite struct OpeningTests {
    let fixture: Fixture
    init() throws { fixture = try Fixture() }

    private func bytes(_ name: String) throws -> [UInt8]? { try SmallFile.read(fixture.folder(name), limit: 1 << 26) }

    @Test func everythingIsThereAfterReopening() throws {
        try fixture.directory("d")
        let file = try fixture.file("d/a", isWriting: true)
        try fixture.index.setXattr(ino: file.ino, Xattr(name: Array("user.x".utf8), value: [1]), .any)
        _ = try fixture.index.noteWriting(
            ino: file.ino, changed: true, size: 9, modifiedAt: Timestamp(nanoseconds: -1), stillOpen: true)
        try fixture.symlink("l", "t")
        let paths = ["", "d", "d/a", "l"]
        let rows = try paths.map { try fixture.found($0) }
        try fixture.index.close()
        let index = try fixture.reopened()
        let reread = try paths.map { path in try index.read { try $0.row(path: Fixture.names(path)) } }
        #expect(reread == rows)
        #expect(try index.interruptedWriters().map(\.ino) == [file.ino])
        #expect(throws: Never.self) { try index.write(.startup) { try $0.checkInvariants() } }
    }

    @Test func numbersAreNeverGivenTwice() throws {
        var seen = Set<Int64>()
        var index = fixture.index
        for _ in 0..<4 {
            for _ in 0..<3 { #expect(seen.insert(try index.newContentNumber()).inserted) }
            let drawn = try index.write(.local) { transaction in (0..<1000).map { _ in transaction.newNumber() } }
            for number in drawn { #expect(seen.insert(number).inserted) }
            #expect(throws: CancellationError.self) {
                try index.write(.local) { transaction in
                    for _ in 0..<100 { #expect(seen.insert(transaction.newNumber()).inserted) }
                    throw CancellationError()
                }
            }
            try index.close()
            index = try fixture.reopened()
        }
        #expect(!seen.contains(1))
    }

    /// More numbers in one transaction than are reserved for one.
    @Test func transactionTakesNumbersBeyondItsBlock() throws {
        let largest = try fixture.index.write(.local) { transaction in
            (0..<250_000).reduce(Int64(0)) { largest, _ in max(largest, transaction.newNumber()) }
        }
        // As after kill -9: nothing is written at the end of this life.
        let (folder, index) = try fixture.copied()
        #expect(try withExtendedLifetime(folder) { try index.newContentNumber() } > largest)
        #expect(try fixture.index.newContentNumber() > largest)
    }

    @Test func failedTransactionLeavesNothing() throws {
        let file = try fixture.file("a")
        let before = try #require(try fixture.index.row(ino: file.ino))
        _ = fixture.events()
        #expect(throws: CancellationError.self) {
            try fixture.index.write(.local) { transaction in
                var row = before
                row.size = 99
                try transaction.update(row, before: before)
                transaction.note(.content, before: before, after: row)
                throw CancellationError()
            }
        }
        #expect(try fixture.index.row(ino: file.ino) == before)
        #expect(try fixture.row("a") == before)
        #expect(fixture.events().isEmpty)
        try fixture.file("b")
        fixture.check()
    }

    @Test func newerIndexIsNotTouched() throws {
        try fixture.file("a")
        try fixture.index.close()
        // The format's number is at byte 60 of an SQLite file.
        let database = try FileDescriptor.open(fixture.folder("index.db"), .readWrite)
        try database.write([0, 0, 0, 200], at: 60)
        let before = try bytes("index.db")
        let error = #expect(throws: UbiquityError.self) { _ = try fixture.reopened() }
        #expect(error?.code == .newerFormat)
        #expect(try bytes("index.db") == before)
        #expect(try FileSystem.entries(of: fixture.folder.path).map(\.text).sorted() == ["index.db", "index.journal"])
    }

    /// The newer number is only in the log, as after kill -9 of the newer program.
    @Test func newerLogIsNotTouched() throws {
        let copy = try TemporaryFolder()
        try fixture.file("a")
        try fixture.index.checkpoint()
        let other = try DatabaseQueue(path: fixture.folder("index.db"))
        try other.writeWithoutTransaction { try $0.execute(sql: "PRAGMA user_version = 200") }
        for name in ["index.db", "index.db-wal"] {
            try FileDescriptor.open(copy(name), [.writeOnly, .create]).write(try #require(try bytes(name)))
        }
        func state() throws -> [[UInt8]?] {
            try ["index.db", "index.db-wal"].map { try SmallFile.read(copy($0), limit: 1 << 26) }
        }
        let before = try state()
        let error = #expect(throws: UbiquityError.self) {
            _ = try ItemIndex(path: copy("index.db"), timekeeper: fixture.time, random: fixture.random)
        }
        #expect(error?.code == .newerFormat)
        #expect(try state() == before)
    }

    @Test func earlierFormatIsMigrated() throws {
        let file = try fixture.file("a")
        let item = RemoteItem(
            id: file.id, kind: .file, revision: Revision(7), parent: .root, name: try ItemName("a"), mode: 0o644,
            createdAt: .zero, modifiedAt: .zero, conflictCount: 1)
        try fixture.index.write(.remote) { transaction in
            try transaction.setRemote(item, state: .settled)
            try transaction.setFeedPosition(FeedPosition(revision: Revision(9), incarnation: 1, snapshotEpoch: 2))
        }
        try fixture.index.close()
        let former = try DatabaseQueue(path: fixture.folder("index.db"))
        try former.writeWithoutTransaction { db in
            try db.execute(
                sql: """
                    ALTER TABLE items DROP COLUMN dirtyTimes;
                    DROP INDEX itemsLinks; DROP INDEX remoteLinks;
                    DROP INDEX remoteVersions; ALTER TABLE remote DROP COLUMN history;
                    DROP TABLE conflicts; DROP TABLE versionActions; DROP TABLE sentVersions; DROP TABLE replacements;
                    DROP TABLE folderSums;
                    PRAGMA user_version = 1;
                    """)
        }
        try former.close()
        let index = try fixture.reopened()
        #expect(try index.row(ino: file.ino)?.id == file.id)
        // The versions of conflicts are missing: the snapshot is read once more, and brings them.
        let position = try index.read { try $0.feedPosition() }
        #expect(position.isInSnapshot && position.incarnation == 1)
        #expect(try index.read { try $0.remote(id: file.id) }?.revision == Revision(6))
        let version = RemoteVersion(
            content: RemoteContent(
                version: VersionID(high: 1, low: 1), size: 3, isAvailable: true, device: DeviceID(high: 1, low: 1),
                deviceName: "other", manifest: nil),
            kind: .conflict, modifiedAt: .zero, savedAt: .zero, savedName: item.name, baseVersion: nil)
        var whole = item
        whole.conflicts = [version]
        try index.write(.remote) { _ = try $0.setRemote(whole, state: .settled) }
        #expect(try index.read { try $0.conflicts(of: file.id) } == [version])
        whole.conflicts = []
        whole.conflictCount = 0
        whole.revision = Revision(8)
        try index.write(.remote) { _ = try $0.setRemote(whole, state: .settled) }
        #expect(try index.read { try $0.conflicts(of: file.id) }.isEmpty)
        try index.close()
    }

    @Test func foreignFileIsRefused() throws {
        let text = [UInt8](repeating: UInt8(ascii: "x"), count: 5000)
        try FileDescriptor.open(fixture.folder("other"), [.writeOnly, .create]).write(text)
        expect(.io) {
            _ = try ItemIndex(path: fixture.folder("other"), timekeeper: fixture.time, random: fixture.random)
        }
        #expect(try bytes("other") == text)
        expect(.io) {
            _ = try ItemIndex(path: fixture.folder("none/index.db"), timekeeper: fixture.time, random: fixture.random)
        }
    }

    @Test func interruptedCreationIsRepeated() throws {
        // Only the file's name became durable.
        _ = try FileDescriptor.open(fixture.folder("empty.db"), [.writeOnly, .create])
        let index = try ItemIndex(path: fixture.folder("empty.db"), timekeeper: fixture.time, random: fixture.random)
        #expect(throws: Never.self) { try index.read { try $0.checkInvariants() } }
    }

    @Test func inMemoryItWorksTheSame() throws {
        let fixture = try Fixture(inMemory: true)
        try fixture.directory("d")
        try fixture.file("d/a")
        try fixture.rename("d/a", "b")
        try fixture.index.makeDurable()
        try fixture.index.checkpoint()
        fixture.check()
        try fixture.index.close()
    }

    /// Closing any descriptor of a file releases all of a process's locks on it: another check of the file must not
    /// drop SQLite's locks.
    @Test func databaseStaysLocked() throws {
        let fixture = try Fixture()
        try fixture.file("f")
        let inode = try FileSystem.status(fixture.folder("index.db")).inode
        func isLocked() throws -> Bool {
            let locks = try #require(try SmallFile.read("/proc/locks", limit: 1 << 20))
            return String(decoding: locks, as: UTF8.self).contains(":\(inode) ")
        }
        fixture.index.keepReserve()
        for _ in 0..<2 { try fixture.index.checkpoint() }
        #expect(try isLocked())
    }

    @Test(arguments: ["remote", "items", "meta"]) func doctorReportsAMissingTable(table: String) throws {
        let fixture = try Fixture()
        try fixture.file("a")
        try fixture.index.close()
        let path = fixture.folder("index.db")
        #expect(try ItemIndex.problems(ofIndexAt: path).database == [])
        try DatabaseQueue(path: path).write { try $0.execute(sql: "DROP TABLE \(table)") }
        #expect(try ItemIndex.problems(ofIndexAt: path).database == ["the table \(table) is missing"])
    }

    /// A table with data that other tables, the contents and the cloud have too is recreated with its indexes.
    @Test(arguments: ["chunks", "contents", "sentVersions", "replacements"])
    func doctorRecreatesATable(table: String) throws {
        let fixture = try Fixture()
        try fixture.file("a")
        try fixture.index.close()
        let path = fixture.folder("index.db")
        try DatabaseQueue(path: path).write { try $0.execute(sql: "DROP TABLE \(table)") }
        let found = try ItemIndex.problems(ofIndexAt: path)
        #expect(found.database == [] && found.schema.contains("the table \(table) is missing"))
        #expect(try ItemIndex.repairSchema(ofIndexAt: path) == [])
        #expect(try ItemIndex.problems(ofIndexAt: path).schema == [])
        let index = try fixture.reopened()
        try index.check()
        try index.close()
    }
}
