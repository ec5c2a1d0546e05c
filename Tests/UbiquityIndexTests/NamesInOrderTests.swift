import Testing
import UbiquityCore
@testable import UbiquityIndex
import UbiquitySystem

/// Read-ahead for lookups of names in their order.
@Suite(.timeLimit(.minutes(2))) struct NamesInOrderTests {
    private static let folder = ItemKey(7)

    private static func entry(_ number: Int) throws -> ItemRow.Entry {
        ItemRow.Entry(parent: folder, name: try name(number))
    }

    private static func name(_ number: Int) throws -> ItemName {
        try ItemName(String(number + 10_000))
    }

    @Test func readAheadGrowsWhileGuessesAreRight() throws {
        var order = NamesInOrder()
        #expect(try order.guess(Self.entry(0)) == nil)
        order.note(try Self.entry(0))
        var spans: [Int] = [], next = 1
        for _ in 0..<5 {
            let (after, span) = try #require(order.guess(try Self.entry(next)))
            #expect(try after == Self.name(next - 1))
            spans.append(span)
            next += span
            order.confirm(Self.folder, last: try Self.name(next - 1))
        }
        #expect(spans == [4, 16, 64, 64, 64])
        // An earlier name is no guess.
        #expect(try order.guess(Self.entry(3)) == nil)
    }

    @Test func unorderedLookupsAreGuessedRarely() throws {
        var order = NamesInOrder(), guesses = 0
        for number in 0..<2000 {
            // In rising order, so that each might be the next.
            let entry = try Self.entry(number * 3)
            if order.guess(entry) != nil {
                guesses += 1
                order.refute(Self.folder)
            }
            order.note(entry)
        }
        #expect((6...40).contains(guesses))
        // One right guess is enough to continue.
        var rest = 6000
        while try order.guess(Self.entry(rest)) == nil { rest += 1 }
        order.confirm(Self.folder, last: try Self.name(rest))
        #expect(try order.guess(Self.entry(rest + 1)) != nil)
    }

    @Test func trackedFoldersAreLimited() throws {
        var order = NamesInOrder()
        for folder in 1...Int64(1000) {
            order.note(ItemRow.Entry(parent: ItemKey(folder), name: try Self.name(1)))
        }
        #expect(order.guess(ItemRow.Entry(parent: ItemKey(1), name: try Self.name(2))) == nil)
        #expect(order.guess(ItemRow.Entry(parent: ItemKey(1000), name: try Self.name(2))) != nil)
    }

    /// A walk finds the existing entries, and the targets of hard links; the next ones are cached by then.
    @Test func orderedWalkReadsAhead() throws {
        let fixture = try Fixture()
        let index = fixture.index
        let folder = try fixture.directory("d")
        var inodes: [UInt64] = []
        for number in 0..<300 {
            inodes.append(try fixture.file("d/\(Self.name(number))").ino)
        }
        _ = try index.link(ino: inodes[0], in: folder.ino, named: ItemName("10150 link"))
        index.cache.rows.forgetAll()
        var asked = 0
        for number in 0..<300 {
            let entry = ItemRow.Entry(parent: folder.key, name: try Self.name(number))
            if case .unknown = index.cache.rows.child(at: entry) { asked += 1 }
            #expect(try index.child(of: folder.key, named: entry.name)?.ino == inodes[number])
            if number == 150 {
                #expect(try index.child(of: folder.key, named: ItemName("10150 link"))?.ino == inodes[0])
            }
        }
        // 1, 4, 16, and 64 each.
        #expect(asked == 8)
        fixture.check()
    }

    /// Entries read before a change are not cached after it.
    @Test func readAheadIsNeverStale() throws {
        let fixture = try Fixture()
        let index = fixture.index
        let folder = try fixture.directory("d"), file = try fixture.file("d/a")
        let epoch = try #require(index.cache.rows.epoch)
        let rows = try index.read { try $0.children(of: folder.key, after: nil, limit: 9) }
        _ = try fixture.rename("d/a", "d/b")
        index.cache.rows.remember(children: rows, if: epoch)
        #expect(try index.child(of: folder.key, named: ItemName("a")) == nil)
        #expect(try index.row(ino: file.ino)?.entry?.name == ItemName("b"))
        index.cache.rows.forgetAll()
        index.cache.rows.remember(children: rows, if: try #require(index.cache.rows.epoch))
        #expect(try index.child(of: folder.key, named: ItemName("a")) != nil)
    }

    /// While others change the items and their names, no walk sees an older state than before.
    @Test func walkNeverSeesAnOlderState() throws {
        let fixture = try Fixture()
        let index = fixture.index
        let folder = try fixture.directory("d")
        let inodes = try (0..<40).map { try fixture.file("d/\(Self.name($0))").ino }
        let walking = Lock(3)
        try onThreads(4) { thread in
            let random = SeededRandom(UInt64(thread))
            while thread == 0, walking.withLock({ $0 > 0 }) {
                _ = try index.noteWriting(
                    ino: random.pick(inodes), changed: true, size: 1, modifiedAt: .zero, stillOpen: true)
                let number = random.below(40)
                let (name, other) = (try Self.name(number), try ItemName("x\(number)"))
                _ = try index.rename(from: folder.ino, name, to: folder.ino, other, .exclusive)
                _ = try index.rename(from: folder.ino, other, to: folder.ino, name, .exclusive)
            }
            defer { walking.withLock { $0 -= 1 } }
            var last: [UInt64: Int64] = [:]
            for _ in 0..<(thread == 0 ? 0 : 200) {
                if thread == 1 { index.cache.rows.forgetAll() }
                for number in 0..<40 {
                    guard let row = try index.child(of: folder.key, named: Self.name(number)) else { continue }
                    #expect(row.ino == inodes[number])
                    #expect(row.generation >= last[row.ino, default: 0])
                    last[row.ino] = row.generation
                }
            }
        }
        fixture.check()
    }
}
