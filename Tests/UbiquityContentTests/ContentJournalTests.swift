import Testing
@testable import UbiquityContent
import UbiquityCore
import UbiquitySystem
import UbiquityTestSupport

/// The tests simulate a power loss: they change the contents' files without the journal.
@Suite struct ContentJournalTests {
    private static let start: Int64 = 4096
    private let folder: TemporaryFolder
    private let random = SystemRandom()

    init() throws {
        folder = try TemporaryFolder()
        try FileDescriptor.open(folder("journal"), [.readWrite, .create])
            .write([UInt8](repeating: 7, count: Int(Self.start)), at: 0)
    }

    private func journal(boot: UInt8 = 1, half: Int64 = 64 << 10, unplaced: Bool = true) -> ContentJournal {
        ContentJournal(
            path: folder("journal"), start: Self.start, boot: [boot], random: random,
            placement: ContentJournal.Placement { _, _ in unplaced }, halfSize: half)
    }

    private func store(_ journal: ContentJournal) throws -> ContentStore {
        try ContentStore(stateFolder: folder.path, folders: 4, journal: journal)
    }

    /// Makes a store whose journal has these contents, as after a process death.
    @discardableResult
    private func kept(_ contents: [Int64: [UInt8]], half: Int64 = 64 << 10) throws -> ContentStore {
        let journal = journal(half: half), store = try store(journal)
        try journal.prepare()
        for (id, bytes) in contents.sorted(by: { $0.key < $1.key }) {
            let file = try store.create(ContentID(id))
            try file.write(bytes, at: 0)
            try #require(try journal.keep(ContentID(id), file))
            try journal.sync()
        }
        return store
    }

    /// Restarts the store as after another boot of the machine.
    private func restart(
        boot: UInt8 = 2, isUsed: (ContentID) -> Bool = { _ in true }
    ) throws -> (restored: [Int64], store: ContentStore) {
        let journal = journal(boot: boot), store = try store(journal)
        let restoration = try journal.restore(into: store, isUsed: isUsed)
        if let failure = restoration.failure { throw failure }
        return (restoration.restored.map(\.rawValue), store)
    }

    private func bytes(_ id: Int64, _ store: ContentStore) throws -> [UInt8] {
        try store.open(ContentID(id), writable: false).read(count: 1 << 20, at: 0)
    }

    @Test func contentMissingOnDiskIsRewritten() throws {
        let before = try kept([1: [1, 1, 1], 2: [2, 2, 2], 3: [3], 4: [4]])
        try before.remove(ContentID(1))
        try before.open(ContentID(2), writable: true).truncate(to: 0)
        try before.open(ContentID(3), writable: true).write([9], at: 0)
        let old = try before.open(ContentID(3), writable: true)
        try old.setTimes(accessed: nil, modified: Timestamp(nanoseconds: 1))
        let (restored, store) = try restart()
        #expect(restored == [1, 2, 3])
        #expect(try [1, 2, 3, 4].map { try bytes($0, store) } == [[1, 1, 1], [2, 2, 2], [3], [4]])
        // The journal does not restore it a second time.
        try store.open(ContentID(1), writable: true).truncate(to: 0)
        #expect(try restart(boot: 3).restored == [])
    }

    @Test func lastKeptStateWins() throws {
        let journal = journal(), store = try store(journal)
        try journal.prepare()
        let file = try store.create(ContentID(1))
        for state: [UInt8] in [[1], [2, 2], [3, 3, 3], [4]] {
            try file.truncate(to: 0)
            try file.write(state, at: 0)
            #expect(try journal.keep(ContentID(1), file))
        }
        try store.remove(ContentID(1))
        #expect(try bytes(1, restart().store) == [4])
    }

    /// Within the same boot the kernel's memory is complete, and may have more than was synced.
    @Test func processDeathAloneWritesNothing() throws {
        let before = try kept([1: [1, 1]])
        try before.open(ContentID(1), writable: true).truncate(to: 0)
        let (restored, store) = try restart(boot: 1)
        #expect(restored == [])
        #expect(try bytes(1, store) == [])
        #expect(try restart(boot: 2).restored == [])
    }

    /// The content was written to the disk after it was recorded: by a synced mapping, without the journal.
    @Test func newerContentOnDiskIsKept() throws {
        let before = try kept([1: [1, 1]])
        let file = try before.open(ContentID(1), writable: true)
        try file.write([5], at: 0)
        try file.setTimes(accessed: nil, modified: Timestamp(nanoseconds: .max / 2))
        let (restored, store) = try restart()
        #expect(restored == [])
        #expect(try bytes(1, store) == [5, 1])
    }

    /// The same for one page; the other pages have the synced bytes.
    @Test(arguments: [0, 4096, 16384] as [Int64]) func newerBlocksOnDiskAreKept(_ page: Int64) throws {
        let old = [UInt8](repeating: 1, count: 20_000), new = [UInt8](repeating: 2, count: 3000)
        let before = try kept([1: old])
        let file = try before.open(ContentID(1), writable: true)
        try file.truncate(to: 0)
        try file.write(new, at: page)
        try file.setTimes(accessed: nil, modified: Timestamp(nanoseconds: .max / 2))
        let (restored, store) = try restart()
        #expect(restored == [1])
        let found = try bytes(1, store), start = Int(page)
        #expect(found.count == 20_000 && Array(found[start..<start + 3000]) == new)
        // The parts of the page beside it reached the disk with it.
        for place in [4095, 5000, 15_000, 19_999] where !(start..<start + 4096).contains(place) {
            #expect(found[place] == 1, "\(place)")
        }
    }

    /// The same for a content without allocated blocks.
    @Test func contentWithHolesIsNotNewer() throws {
        let before = try kept([1: [UInt8](repeating: 1, count: 20_000)])
        let file = try before.open(ContentID(1), writable: true)
        try file.truncate(to: 0)
        try file.truncate(to: 20_000)
        try file.setTimes(accessed: nil, modified: Timestamp(nanoseconds: .max / 2))
        let (restored, store) = try restart()
        #expect(restored == [1])
        #expect(try bytes(1, store) == [UInt8](repeating: 1, count: 20_000))
    }

    @Test func unreferencedContentIsNotRestored() throws {
        try kept([1: [1], 2: [2]]).remove(ContentID(1))
        let (restored, store) = try restart { $0.rawValue == 2 }
        #expect(restored == [])
        #expect(try !store.exists(ContentID(1)))
    }

    @Test func contentSyncedItselfIsNotRestored() throws {
        let store = try kept([1: [1, 1]])
        let journal = try #require(store.journal), file = try store.open(ContentID(1), writable: true)
        let mark = try #require(journal.mark(of: ContentID(1)))
        try file.truncate(to: 0)
        try file.syncData()
        try journal.forget(ContentID(1), mark)
        #expect(!journal.isKept(ContentID(1)))
        #expect(try restart().restored == [])
    }

    /// It was recorded once more during its own sync: the later state counts.
    @Test func laterStateIsKept() throws {
        let store = try kept([1: [1, 1]])
        let journal = try #require(store.journal), file = try store.open(ContentID(1), writable: true)
        let mark = try #require(journal.mark(of: ContentID(1)))
        try file.write([2, 2], at: 0)
        #expect(try journal.keep(ContentID(1), file))
        try journal.forget(ContentID(1), mark)
        try store.remove(ContentID(1))
        #expect(try bytes(1, restart().store) == [2, 2])
    }

    @Test func unsuitableContentIsNotJournaled() throws {
        func isKept(_ size: Int, unplaced: Bool = true, prepares: Bool = true, half: Int64 = 64 << 10) throws -> Bool {
            let journal = journal(half: half, unplaced: unplaced), store = try store(journal)
            if prepares { try journal.prepare() }
            let file = try store.create(ContentID(1))
            defer { try? store.remove(ContentID(1)) }
            try file.write([UInt8](repeating: 1, count: size), at: 0)
            return try journal.keep(ContentID(1), file)
        }
        #expect(try isKept(1) && isKept(32 << 10))
        #expect(try !isKept(0) && !isKept(32 << 10 + 1) && !isKept(1, unplaced: false))
        #expect(try !isKept(1, prepares: false) && !isKept(1000, half: 1000))
    }

    /// While one half is emptied, the journal writes to the other. When both are full, contents are synced directly.
    @Test func journalHalvesAlternate() throws {
        let journal = journal(half: 1000 + ContentJournal.forgettingRoom), store = try store(journal)
        try journal.prepare()
        var number: Int64 = 0
        func keepOne() throws -> Bool {
            number += 1
            let file = try store.create(ContentID(number))
            try file.write([UInt8](repeating: 1, count: 300), at: 0)
            return try journal.keep(ContentID(number), file)
        }
        var synced = [ContentID]()
        func settle() throws {
            try journal.settle(isGone: { $0 == ContentID(1) }, makeDurable: {}, sync: { synced.append($0) })
        }
        for _ in 0..<4 { #expect(try keepOne()) }
        #expect(try !keepOne())
        try settle()
        // Removed contents need no sync.
        #expect(synced.map(\.rawValue) == [2, 3, 4])
        for _ in 0..<3 {
            for _ in 0..<4 { #expect(try keepOne()) }
            try settle()
        }
        #expect(synced.count == 15)
        #expect(try restart().restored == [])
    }

    @Test func truncatedContentIsNotRestored() throws {
        let store = try kept([1: [1], 2: [2]])
        let journal = try #require(store.journal)
        try journal.giveUp(ContentID(1), #require(journal.mark(of: ContentID(1))))
        for id: Int64 in [1, 2] { try store.open(ContentID(id), writable: true).truncate(to: 0) }
        #expect(journal.isKept(ContentID(1)))
        #expect(try restart().restored == [2])
    }

    /// The content was truncated, written and synced directly, before the record was marked obsolete.
    @Test func truncatedAndSyncedContentKeepsNoOldEnd() throws {
        let store = try kept([1: [1, 1, 1]])
        let journal = try #require(store.journal), id = ContentID(1)
        let file = try store.open(id, writable: true)
        try journal.giveUp(id, #require(journal.mark(of: id)))
        try file.truncate(to: 0)
        let mark = try #require(journal.mark(of: id))
        try file.write([2], at: 0)
        try file.setTimes(accessed: nil, modified: Timestamp(nanoseconds: .max / 2))
        try file.syncData()
        try journal.forget(id, mark)
        #expect(!journal.isKept(id))
        #expect(try restart().restored == [])
        #expect(try bytes(1, store) == [2])
    }

    /// A content that cannot be written does not stop the restoration of the others, and its record stays.
    @Test func unrestorableRecordIsKept() throws {
        let before = try kept([1: [1], 2: [2]])
        for id: Int64 in [1, 2] { try before.remove(ContentID(id)) }
        let journal = journal(boot: 2), store = try store(journal)
        // True for the first of the two contents.
        let isFirst = Lock(true)
        FaultPoints.setHook { name in
            guard name == "content.sync", isFirst.withLock({ first in defer { first = false }; return first }) else {
                return nil
            }
            return UbiquityError(.io, "a bad disk")
        }
        defer { FaultPoints.setHook(nil) }
        let restoration = try journal.restore(into: store) { _ in true }
        #expect(restoration.failure != nil && restoration.restored.contains(ContentID(2)))
        // A start that accepts the loss drops the record.
        #expect(restoration.missing == [ContentID(1)])
        try journal.prepare()
        let file = try store.create(ContentID(3))
        try file.write([3], at: 0)
        #expect(try !journal.keep(ContentID(3), file))
        try store.remove(ContentID(1))
        // The restored content has changed since: it is not restored again.
        try store.open(ContentID(2), writable: true).write([9, 9], at: 0)
        let last = try restart(boot: 3)
        #expect(try bytes(1, last.store) == [1] && bytes(2, last.store) == [9, 9] && last.restored == [1])
    }

    /// The index is in the same file: its entries may reach the disk with a sync of the journal.
    @Test func replacementIsOnDiskBeforeTheJournal() throws {
        let store = try kept([1: [1, 1, 1]])
        let journal = try #require(store.journal), id = ContentID(1)
        try store.create(ContentID(2)).write([2], at: 0)
        #expect(try !store.noteReplacement(ContentID(2)))
        try journal.forget(id, #require(journal.mark(of: id)))
        #expect(store.replacements.withLock { $0.waiting.isEmpty && $0.indexSyncs == 0 })
        try FileSystem.symlink(store.path(of: ContentID(3)), at: store.path(of: ContentID(3)))
        try store.noteReplacement(ContentID(3))
        #expect(throws: Errno.EIO) { try journal.sync() }
        #expect(store.replacements.withLock { $0.indexSyncs == 0 })
    }

    /// The kernel reports a failed write once, and then treats the lost pages as written.
    @Test func failedSyncIsNotRepairedByAnother() throws {
        let store = try kept([:]), id = ContentID(1)
        try store.create(id).write([1, 2, 3], at: 0)
        let visits = Lock<[String]>([])
        FaultPoints.setHook { name in
            visits.withLock { $0.append(name) }
            return visits.withLock { $0 } == ["content.sync"] ? UbiquityError(.io, "failed on purpose", at: name) : nil
        }
        defer { FaultPoints.setHook(nil) }
        #expect(throws: UbiquityError.self) { try store.sync(id) }
        #expect(store.failure(of: id) != nil)
        // The repair would undo a writer's changes: with a writer the content stays failed.
        let writer = try store.open(id, writable: true)
        #expect(throws: UbiquityError.self) { try store.sync(id) }
        withExtendedLifetime(writer) {}
        #expect(visits.withLock { $0 } == ["content.sync"])
    }

    @Test func unsyncableContentStaysInTheJournal() throws {
        let store = try kept([1: [1]])
        let journal = try #require(store.journal)
        #expect(throws: Errno.EIO) {
            try journal.settle(isGone: { _ in false }, makeDurable: {}, sync: { _ in throw Errno.EIO })
        }
        #expect(journal.isKept(ContentID(1)))
        try store.remove(ContentID(1))
        #expect(try bytes(1, restart().store) == [1])
    }

    /// Reading ends at the first incomplete record. A damaged record never becomes a content.
    @Test func damagedRecordsRestoreNothing() throws {
        try kept([1: [1, 1], 2: [2, 2], 3: [3, 3]])
        let file = try FileDescriptor.open(folder("journal"), .readWrite)
        let second = Self.start + Int64(ContentRecord.headerSize) + 2
        try file.write([0xff], at: second + Int64(ContentRecord.headerSize))
        for id: Int64 in 1...3 { try store(journal()).remove(ContentID(id)) }
        #expect(try restart().restored == [1])
        // The restoration does not write beyond its area.
        #expect(try file.read(count: Int(Self.start), at: 0) == [UInt8](repeating: 7, count: Int(Self.start)))
    }

    /// Only where the kernel reports it: written bytes without a place on the disk, until the sync.
    @Test func kernelReportsAllocatedBlocks() throws {
        let file = try FileDescriptor.open(folder("f"), [.readWrite, .create])
        guard try file.sharedFlushes() != nil else { return }
        try file.write([UInt8](repeating: 1, count: 9000), at: 0)
        #expect(try file.isUnplaced(9000))
        #expect(try !file.isUnplaced(20_000))
        try file.syncData()
        #expect(try !file.isUnplaced(9000))
        let sparse = try FileDescriptor.open(folder("g"), [.readWrite, .create])
        try sparse.write([1], at: 8192)
        #expect(try !sparse.isUnplaced(8193))
    }
}
