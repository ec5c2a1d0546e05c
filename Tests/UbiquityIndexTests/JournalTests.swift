import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityTestSupport

/// Local changes gather in a batch, which the journal makes durable against a kill.
@Suite struct JournalTests {
    let fixture: Fixture
    init() throws { fixture = try Fixture() }

    private func names(_ index: ItemIndex, in folder: String = "") throws -> [String] {
        try index.read { reader in
            let row = try #require(try reader.row(path: Fixture.names(folder)))
            return try reader.children(of: row.key, after: nil, limit: 10_000).compactMap { $0.entry?.name.description }
        }
    }

    /// The names that a new process finds in the top folder.
    private func namesAfterAKill() throws -> [String] {
        let (folder, index) = try fixture.copied()
        return try withExtendedLifetime(folder) {
            try index.write(.startup) { try $0.checkInvariants() }
            return try names(index)
        }
    }

    @Test func journaledChangesSurviveAKill() throws {
        let before = try SmallFile.read(fixture.folder("index.db-wal"), limit: 1 << 26)
        for number in 0..<20 { try fixture.make("f\(number)") }
        #expect(try SmallFile.read(fixture.folder("index.db-wal"), limit: 1 << 26) == before, "there was no batch")
        let (folder, index) = try fixture.copied()
        #expect(try names(index).count == 20)
        #expect(throws: Never.self) { try index.write(.startup) { try $0.checkInvariants() } }
        // And again after that life, which has committed them.
        try index.close()
        let last = try ItemIndex(path: folder("index.db"), timekeeper: fixture.time, random: fixture.random)
        #expect(try names(last).count == 20)
    }

    /// Its changes were acknowledged: a start that finds them missing must report it.
    @Test(arguments: ["nothing", "journal removed", "journal shorter", "begins with nonsense", "middle", "log removed"])
    func missingJournalIsDetected(damage: String) throws {
        for number in 0..<5 { try fixture.make("a\(number)") }
        try fixture.index.close()
        let present = try fixture.reopened()
        func make(_ name: String) throws {
            let folder = NewItem(kind: .directory, mode: 0o755, uid: 0, gid: 0)
            _ = try present.create(in: 1, named: ItemName(name), folder)
        }
        for number in 0..<5 { try make("b\(number)") }
        #expect(try names(present).count == 10, "committed by that")
        for number in 0..<20 { try make("c\(number)") }
        let folder = try TemporaryFolder()
        try fixture.copyFiles(["index.db", "index.db-wal", "index.journal"], to: folder)
        let journal = folder("index.journal")
        switch damage {
        case "journal removed": try FileSystem.unlink(journal)
        case "journal shorter": try FileDescriptor.open(journal, .readWrite).truncate(to: 1000)
        case "begins with nonsense": try FileDescriptor.open(journal, .readWrite).write([1, 2, 3, 4, 5, 6, 7, 8], at: 4)
        case "middle": try FileDescriptor.open(journal, .readWrite).write([UInt8](repeating: 9, count: 500), at: 3000)
        case "log removed": try FileSystem.unlink(folder("index.db-wal"))
        default: break
        }
        let index = try ItemIndex(path: folder("index.db"), timekeeper: fixture.time, random: fixture.random)
        let isThere = try names(index).count == 30
        #expect(try isThere == (damage == "nothing") && index.hasLostJournal == !isThere, "\(damage)")
        // The next start reports it too, until the remaining data was checked.
        try index.close()
        let next = try ItemIndex(path: folder("index.db"), timekeeper: fixture.time, random: fixture.random)
        #expect(try next.hasLostJournal == !isThere)
        try next.forgetJournalLoss()
        try next.close()
        let last = try ItemIndex(path: folder("index.db"), timekeeper: fixture.time, random: fixture.random)
        #expect(try !last.hasLostJournal)
        try last.close()
        try present.close()
    }

    /// The database lost, with the power, a remote change on which the journal's changes depend.
    @Test func changesAfterALostOneAreNotRun() throws {
        try fixture.make("a")
        #expect(try names(fixture.index) == ["a"])
        let lost = try TemporaryFolder()
        try fixture.copyFiles(["index.db", "index.db-wal"], to: lost)
        try fixture.index.write(.remote) { transaction in
            let row = try #require(try transaction.row(path: Fixture.names("a")))
            try transaction.delete(row)
        }
        try fixture.make("a")
        try fixture.copyFiles(["index.journal"], to: lost)
        let index = try ItemIndex(path: lost("index.db"), timekeeper: fixture.time, random: fixture.random)
        #expect(try names(index) == ["a"])
        #expect(throws: Never.self) { try index.write(.startup) { try $0.checkInvariants() } }
        try index.close()
    }

    @Test func everyQuerySeesTheBatch() throws {
        try fixture.make("a")
        let row = try #require(try fixture.index.child(of: .root, named: ItemName("a")))
        #expect(try fixture.index.row(ino: row.ino) == row)
        #expect(try fixture.index.row(key: row.key) == row)
        #expect(try fixture.index.peek { try $0.children(of: .root, after: nil, limit: 9) } == [row])
        #expect(try fixture.index.read { try $0.children(of: .root, after: nil, limit: 9) } == [row])
    }

    @Test func failedTransactionKeepsTheOthers() throws {
        try fixture.make("a")
        let row = try #require(try fixture.index.child(of: .root, named: ItemName("a")))
        try fixture.make("b")
        #expect(throws: CancellationError.self) {
            try fixture.index.write(.local) { transaction in
                try transaction.delete(row)
                throw CancellationError()
            }
        }
        try fixture.make("c")
        #expect(try namesAfterAKill() == ["a", "b", "c"])
        #expect(try names(fixture.index) == ["a", "b", "c"])
        fixture.check()
    }

    /// The process dies in the middle of the last write to the journal.
    @Test func truncatedRecordIsIgnored() throws {
        for name in ["a", "b", "c"] { try fixture.make(name) }
        let (copy, index) = (try TemporaryFolder(), fixture.index)
        try fixture.copyFiles(["index.db", "index.db-wal", "index.journal"], to: copy)
        let journal = try FileDescriptor.open(copy("index.journal"), .readWrite)
        let bytes = try journal.read(count: 1 << 20, at: 0)
        let end = try #require(bytes.lastIndex { $0 != 0 })
        try journal.write([UInt8](repeating: 0, count: 8), at: Int64(end - 7))
        let cut = try ItemIndex(path: copy("index.db"), timekeeper: fixture.time, random: fixture.random)
        #expect(try names(cut) == ["a", "b"])
        #expect(throws: Never.self) { try cut.write(.startup) { try $0.checkInvariants() } }
        #expect(try names(index) == ["a", "b", "c"])
    }

    /// A power loss: the journal is later than the database, and the changes between are lost.
    @Test func unrelatedJournalIsIgnored() throws {
        try fixture.make("a")
        try fixture.index.checkpoint()
        try fixture.index.makeDurable()
        let copy = try TemporaryFolder()
        try fixture.copyFiles(["index.db", "index.db-wal"], to: copy)
        try fixture.make("b")
        try fixture.index.checkpoint()
        try fixture.make("c")
        try fixture.copyFiles(["index.journal"], to: copy)
        let index = try ItemIndex(path: copy("index.db"), timekeeper: fixture.time, random: fixture.random)
        #expect(try names(index) == ["a"])
    }

    /// The same, and then so many changes follow that the journal's old numbers would be next.
    @Test(arguments: 0..<6) func recordsLostInAPowerLossAreNeverRun(changes: Int) throws {
        try fixture.make("a")
        try fixture.index.checkpoint()
        try fixture.index.makeDurable()
        let copy = try TemporaryFolder()
        try fixture.copyFiles(["index.db", "index.db-wal"], to: copy)
        try fixture.make("b")
        try fixture.index.checkpoint()
        try fixture.make("c")
        try fixture.copyFiles(["index.journal"], to: copy)
        let index = try ItemIndex(path: copy("index.db"), timekeeper: fixture.time, random: fixture.random)
        for change in 0..<changes {
            try index.write(.remote) { transaction in
                var row = try #require(try transaction.row(path: Fixture.names("a")))
                let before = row
                row.mode = UInt32(change)
                try transaction.update(row, before: before)
            }
        }
        let last = try TemporaryFolder()
        for name in ["index.db", "index.db-wal", "index.journal"] { try Fixture.copy(copy(name), to: last(name)) }
        let again = try ItemIndex(path: last("index.db"), timekeeper: fixture.time, random: fixture.random)
        #expect(try names(again) == ["a"])
    }

    @Test func oversizedTransactionIsCommittedAtOnce() throws {
        try fixture.make("a")
        let row = try #require(try fixture.index.child(of: .root, named: ItemName("a")))
        for number in 0..<60 {
            let value = [UInt8](repeating: UInt8(number), count: 50_000)
            try fixture.index.setXattr(ino: row.ino, Xattr(name: Array("user.x".utf8), value: value), .any)
        }
        for number in 0..<1200 { try fixture.make("f\(number)") }
        #expect(try namesAfterAKill().count == 1201)
        #expect(try fixture.index.row(ino: row.ino)?.xattrs.first?.value.first == 59)
    }

    @Test func nonLocalWritesCommitTheBatchFirst() throws {
        try fixture.make("a")
        try fixture.index.write(.remote) { transaction in
            let row = try #require(try transaction.child(of: .root, named: ItemName("a")))
            try transaction.delete(row)
        }
        try fixture.make("b")
        #expect(try namesAfterAKill() == ["b"])
    }

    /// As when a folder of very many items is moved into a pinned one: more statements than a record can count.
    @Test func veryLargeTransactionIsCommitted() throws {
        try fixture.make("a")
        try fixture.index.write(.local) { transaction in
            for number in 0..<70_000 { try transaction.setLastBoot([UInt8(truncatingIfNeeded: number), 1]) }
        }
        try fixture.make("b")
        #expect(try namesAfterAKill() == ["a", "b"])
        let (folder, index) = try fixture.copied()
        let last = try withExtendedLifetime(folder) { try index.read { try $0.lastBoot() } }
        #expect(last == [UInt8(69_999 % 256), 1])
    }
}
