import Testing
import UbiquityCore
@testable import UbiquityIndex
import UbiquitySystem

/// The database runs local changes on a query, or on a background thread.
@Suite struct BatchTests {
    let fixture: Fixture
    init() throws { fixture = try Fixture() }

    private struct Stop: Error {}

    private func names(_ index: ItemIndex, in folder: ItemKey = .root) throws -> [String] {
        try index.read { reader in
            try reader.children(of: folder, after: nil, limit: 10_000).compactMap { $0.entry?.name.description }
        }
    }

    /// Reads like a program's change.
    private func revision(of id: ItemID) throws -> Revision? {
        try fixture.index.write(.local) { try $0.reader.remotes.remoteRevision(of: id) }
    }

    private var waiting: Int { fixture.index.database.withJournal { fixture.index.log.journal?.waitingCount ?? 0 } }

    /// Otherwise each change would wait for the statements of the one before.
    @Test func programOperationsQueryNoDatabase() throws {
        let index = fixture.index
        // All names of a new folder are cached.
        let folder = try index.create(in: 1, named: ItemName("a"), NewItem(kind: .directory, mode: 0o755, uid: 0, gid: 0))
        try index.log.commitBatch()
        for number in 0..<4 {
            let content = ContentID(try index.newContentNumber())
            _ = try index.create(
                in: folder.ino, named: ItemName("f\(number)"),
                NewItem(kind: .file, mode: 0o644, uid: 0, gid: 0, content: content))
        }
        for name in ["f0", "f1"] {
            _ = try index.rename(from: folder.ino, ItemName(name), to: folder.ino, ItemName("g0"), .replacing)
        }
        _ = try index.remove(from: folder.ino, named: ItemName("f2"), directory: false)
        #expect(waiting == 7)
        #expect(try names(index, in: folder.key) == ["f3", "g0"])
        #expect(waiting == 0)
    }

    @Test func backgroundThreadRunsWaitingStatements() async throws {
        for number in 0..<40 { try fixture.make("f\(number)") }
        // Without the thread all forty would still wait. At most a minute, on a busy machine.
        for _ in 0..<6000 where waiting > 15 { try await Task.sleep(for: .milliseconds(10)) }
        #expect(waiting <= 15)
        #expect(try names(fixture.index).count == 40)
        try fixture.index.write(.startup) { try $0.checkInvariants() }
    }

    /// Also if the database has run a part of it, and other transactions before it, when it fails.
    @Test func failedLocalTransactionLeavesNothing() throws {
        try fixture.make("a")
        #expect(throws: Stop.self) {
            try fixture.index.write(.local) { transaction in
                let folder = try #require(try transaction.row(key: .root))
                let new = NewItem(kind: .directory, mode: 0o755, uid: 0, gid: 0)
                let made = try transaction.tree.create(in: folder, named: ItemName("b"), new)
                let isThere = try transaction.children(of: .root, after: nil, limit: 10).contains { $0.key == made.key }
                #expect(isThere)
                _ = try transaction.tree.create(in: folder, named: ItemName("c"), new)
                throw Stop()
            }
        }
        try fixture.make("d")
        #expect(try names(fixture.index) == ["a", "d"])
        let (folder, copy) = try fixture.copied()
        try withExtendedLifetime(folder) {
            let found = try names(copy)
            #expect(found == ["a", "d"])
        }
    }

    /// The batch may have been rolled back, and be about to run again.
    @Test func urgentStatementsAreReadWithoutTheWaitingOnes() throws {
        let id = ItemID(high: 9, low: 1)
        let record = try RemoteItem(
            id: id, kind: .directory, revision: Revision(5), parent: .root, name: ItemName("x"), mode: 0o755,
            createdAt: .zero, modifiedAt: .zero)
        try fixture.make("a")
        try fixture.index.write(.local) { transaction in _ = try transaction.setRemote(record, state: .settled) }
        #expect(throws: Stop.self) {
            try fixture.index.write(.local) { transaction in
                _ = try transaction.children(of: .root, after: nil, limit: 1)
                try transaction.meta.setMeta("x", 1)
                try transaction.runAll()
                throw Stop()
            }
        }
        let journal = try #require(fixture.index.log.journal)
        #expect(try revision(of: id) == Revision(5))
        // Like the thread, after it has run only the first one.
        #expect(throws: Stop.self) {
            try fixture.index.write(.local) { transaction in
                try transaction.meta.setMeta("x", 1)
                try transaction.runAll()
                throw Stop()
            }
        }
        #expect(try fixture.index.log.runOne(of: journal) && journal.waitingCount == 1)
        #expect(try revision(of: id) == Revision(5))
    }

    /// This must never happen. If it does, one change is lost and not all later ones, and the next start reports it.
    @Test func contradictingTransactionDoesNotBlockOthers() throws {
        try fixture.make("a")
        try fixture.index.write(.local) { try contradict($0) }
        try fixture.make("b")
        let (folder, copy) = try fixture.copied()
        for index in [fixture.index, copy] {
            try withExtendedLifetime(folder) {
                #expect(try names(index) == ["a", "b"])
                #expect(try index.hasLostJournal)
                try index.write(.startup) { try $0.checkInvariants() }
            }
        }
        try fixture.make("c")
        #expect(try names(fixture.index) == ["a", "b", "c"])
        #expect(fixture.index.takeRefusals().count == 1 && fixture.index.takeRefusals().isEmpty)
    }

    /// A change without space in the journal is not acknowledged yet: its caller gets an error.
    @Test func contradictingTransactionOutsideTheJournalIsRefused() throws {
        try fixture.make("a")
        #expect(throws: UbiquityError.self) {
            try fixture.index.write(.local) { transaction in
                for number in 0...Int64(JournalCoding.maximumStatements) { try transaction.meta.setMeta("x", number) }
                try contradict(transaction)
            }
        }
        #expect(try !fixture.index.hasLostJournal && fixture.index.takeRefusals().isEmpty)
        try fixture.make("b")
        #expect(try names(fixture.index) == ["a", "b"])
        #expect(try fixture.index.read { try $0.number("SELECT value FROM meta WHERE name = 'x'", []) } == nil)
    }

    /// A loss during the repair of earlier losses is not dropped with them.
    @Test func lateJournalLossIsKept() throws {
        try fixture.make("a")
        try fixture.index.write(.local) { try contradict($0) }
        try fixture.index.forgetJournalLoss()
        #expect(try fixture.index.hasLostJournal)
        try fixture.index.forgetJournalLoss()
        #expect(try !fixture.index.hasLostJournal)
    }

    private func contradict(_ transaction: IndexTransaction) throws {
        try transaction.execute(
            "INSERT INTO entries (parent, name, item, directory) VALUES (1, ?, 1, 0)", [SQLValue(ItemName("a"))])
    }
}
