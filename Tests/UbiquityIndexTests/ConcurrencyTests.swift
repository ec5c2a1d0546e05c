import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySystem

/// Concurrent use of one index by many threads.
@Suite(.timeLimit(.minutes(2))) struct ConcurrencyTests {
    let fixture: Fixture
    init() throws { fixture = try Fixture() }

    /// A thread reads back its own changes, whatever others do to the same rows. In the end the cache equals the
    /// database.
    @Test func cacheIsNeverOlderThanTheLastCommit() throws {
        let inodes = try (0..<8).map { try fixture.file("f\($0)").ino }
        let index = fixture.index
        try onThreads(4) { thread in
            let random = SeededRandom(UInt64(thread))
            for step in 1...400 {
                let ino = random.pick(inodes)
                // Each thread owns one attribute of every file, and only increases it.
                let name = Array("user.\(thread)".utf8)
                let value = [UInt8(truncatingIfNeeded: step >> 8), UInt8(truncatingIfNeeded: step)]
                try index.setXattr(ino: ino, Xattr(name: name, value: value), .any)
                let row = try #require(try index.row(ino: ino))
                #expect(row.xattrs.contains(Xattr(name: name, value: value)))
                _ = try index.row(ino: random.pick(inodes))
            }
        }
        for ino in inodes {
            let fresh = try fixture.row(ino: ino)
            #expect(try index.row(ino: ino) == fresh)
            #expect(try index.row(ino: ino) == fresh)
        }
    }

    /// A reader never sees a growing value shrink, cached or not.
    @Test func readerNeverSeesAnOlderState() throws {
        let ino = try fixture.file("a").ino
        let index = fixture.index
        try onThreads(4) { thread in
            var last: Int64 = 0
            for _ in 0..<1500 {
                if thread == 0 {
                    _ = try index.noteWriting(ino: ino, changed: true, size: 1, modifiedAt: .zero, stillOpen: true)
                } else {
                    let isFresh = thread == 1
                    let row = try isFresh ? index.read { try $0.row(ino: ino) } : index.row(ino: ino)
                    let seen = try #require(row).generation
                    #expect(seen >= last)
                    last = seen
                }
                if thread == 2 {
                    let fresh = try #require(try index.child(of: .root, named: ItemName("a"))).generation
                    #expect(try #require(try index.row(ino: ino)).generation >= fresh)
                }
            }
        }
    }

    /// To the cloud, a revision with the mark of another one looks like an unknown history.
    @Test func feedPositionIsOfOneCommit() throws {
        let index = fixture.index
        try onThreads(3) { thread in
            for number in 1...2000 as ClosedRange<Int64> {
                if thread == 0 {
                    let position = FeedPosition(
                        revision: Revision(number), incarnation: 1, snapshotEpoch: 0, mark: UInt64(number))
                    try index.write(.remote) { try $0.setFeedPosition(position) }
                } else {
                    let position = try index.read { try $0.feedPosition() }
                    #expect(position.mark == UInt64(position.revision.number))
                }
            }
        }
    }

    /// Random creations, removals and renames in shared folders by several threads. Nothing breaks, events come in the
    /// order of the commits, and replayed events give the tree.
    @Test func eventsReplayedGiveTheTree() throws {
        let folders = try (0..<3).map { try fixture.directory("d\($0)").ino }
        let index = fixture.index
        try onThreads(3) { thread in
            let random = SeededRandom(UInt64(100 + thread))
            for _ in 0..<400 {
                try step(index, random, folders)
            }
        }
        fixture.check()
        var replayed = [ItemKey: ItemRow]()
        for event in fixture.events() {
            if let before = event.before {
                #expect(replayed.removeValue(forKey: before.key) == before || before.key == .root)
            }
            if let after = event.after { replayed[after.key] = after }
        }
        let stored = try index.read { try $0.dirtyRows(after: 0, limit: .max) }.filter { !$0.isDeleted }
        #expect(stored.count > 8)
        for row in stored { #expect(replayed[row.key] == row) }
        #expect(replayed.values.count { $0.key != .root && !$0.isExcluded } == stored.count)
    }

    private func step(_ index: ItemIndex, _ random: SeededRandom, _ folders: [UInt64]) throws {
        func name() throws -> ItemName { try ItemName("n\(random.below(12))" + (random.below(4) == 0 ? "~" : "")) }
        do {
            switch random.below(4) {
            case 0:
                let content = ContentID(try index.newContentNumber())
                _ = try index.create(
                    in: random.pick(folders), named: name(),
                    NewItem(kind: .file, mode: 0o644, uid: 0, gid: 0, content: content))
            case 1: _ = try index.remove(from: random.pick(folders), named: name(), directory: false)
            default:
                _ = try index.rename(
                    from: random.pick(folders), name(), to: random.pick(folders), name(),
                    random.pick([.replacing, .replacing, .exclusive, .exchanging]))
            }
        } catch let error as UbiquityError {
            let expected: [UbiquityError.Code] = [.alreadyExists, .notFound, .crossesContainers]
            #expect(expected.contains(error.code), "\(error)")
        }
    }
}
