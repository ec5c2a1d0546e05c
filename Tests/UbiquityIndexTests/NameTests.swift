import GRDB
import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityTestSupport

/// The cache of names: it equals the index, whatever happens to names.
@Suite(.timeLimit(.minutes(2))) struct NameTests {
    let fixture: Fixture
    init() throws { fixture = try Fixture() }

    private func name(_ text: String) throws -> ItemName { try ItemName(text) }

    private func item(_ text: String, in folder: ItemKey = .root) throws -> ItemKey? {
        try fixture.index.child(of: folder, named: name(text))?.key
    }

    /// A lookup before caches the absence; then the name is created, renamed, and removed.
    @Test func freeNameIsFoundOnceTaken() throws {
        #expect(try item("a") == nil)
        let made = try fixture.file("a")
        #expect(try item("a") == made.key)
        #expect(try item("b") == nil)
        _ = try fixture.index.rename(from: 1, name("a"), to: 1, name("b"), .replacing)
        #expect(try item("a") == nil)
        #expect(try item("b") == made.key)
        _ = try fixture.index.remove(from: 1, named: name("b"), directory: false)
        #expect(try item("b") == nil)
        try fixture.index.check()
    }

    /// All names of a new folder are cached, and later ones join them, local or remote.
    @Test func newFolderCachesAllItsNames() throws {
        let folder = try fixture.directory("F")
        #expect(try item("x", in: folder.key) == nil)
        let inside = try fixture.file("F/x")
        let moved = try fixture.file("y")
        _ = try fixture.index.rename(from: 1, name("y"), to: folder.ino, name("y"), .replacing)
        #expect(try item("x", in: folder.key) == inside.key)
        #expect(try item("y", in: folder.key) == moved.key)
        #expect(try item("y") == nil)
        try fixture.index.check()
    }

    /// A failed transaction, which rolls the whole batch back, leaves the cache as it was.
    @Test func failedCommitLeavesTheNameCache() throws {
        struct Failed: Error {}
        let folder = try fixture.directory("F")
        let kept = try fixture.file("F/kept")
        #expect(throws: (any Error).self) {
            try fixture.index.write(.local) { transaction in
                _ = try transaction.child(of: folder.key, named: name("kept"))
                try transaction.unlink(ItemRow.Entry(parent: folder.key, name: name("kept")))
                #expect(try transaction.child(of: folder.key, named: name("kept")) == nil)
                throw Failed()
            }
        }
        #expect(try item("kept", in: folder.key) == kept.key)
        #expect(try item("other", in: folder.key) == nil)
        try fixture.index.check()
    }

    /// More names than the cache keeps, in new folders and an old one: some are dropped, and all are found.
    @Test func namesBeyondTheCacheAreFound() throws {
        let fixture = try Fixture(inMemory: true)
        let index = fixture.index
        let folders = try (0..<3).map { try fixture.directory("F\($0)") }
        var keys: [ItemKey: [ItemName: ItemKey]] = [:]
        let new = NewItem(kind: .symlink, mode: 0o777, uid: 0, gid: 0, linkTarget: [120])
        for number in 0..<21_000 {
            let folder = folders[number % 3]
            let name = try ItemName("n\(number)")
            keys[folder.key, default: [:]][name] = try index.create(in: folder.ino, named: name, new).key
        }
        for folder in folders {
            for (name, key) in keys[folder.key] ?? [:] where name.bytes.last == UInt8(ascii: "7") {
                #expect(try index.child(of: folder.key, named: name)?.key == key)
                let absent = try ItemName(name.bytes + [0x78])
                #expect(try index.child(of: folder.key, named: absent) == nil)
            }
        }
        try index.check()
    }

    /// Threads that create, rename and remove names in one folder, and look up those of the others. Each finds its own
    /// names, and in the end the cache is right.
    @Test func threadsFindTheirNames() throws {
        let folder = try fixture.directory("F")
        let index = fixture.index
        let new = NewItem(kind: .symlink, mode: 0o777, uid: 0, gid: 0, linkTarget: [120])
        try onThreads(4) { thread in
            let random = SeededRandom(UInt64(thread))
            let own = try (0..<8).map { try ItemName("t\(thread)-\($0)") }
            var keys: [ItemName: ItemKey] = [:]
            for _ in 0..<400 {
                let name = random.pick(own), other = random.pick(own)
                if let key = keys[name] {
                    if random.below(2) == 0, keys[other] == nil {
                        _ = try index.rename(from: folder.ino, name, to: folder.ino, other, .exclusive)
                        keys[other] = key
                    } else {
                        _ = try index.remove(from: folder.ino, named: name, directory: false)
                    }
                    keys[name] = nil
                } else {
                    keys[name] = try index.create(in: folder.ino, named: name, new).key
                }
                #expect(try index.child(of: folder.key, named: name)?.key == keys[name])
                #expect(try index.child(of: folder.key, named: other)?.key == keys[other])
                _ = try index.child(of: folder.key, named: ItemName("t\((thread + 1) % 4)-\(random.below(8))"))
            }
        }
        try index.check()
    }

    /// A lost top folder is recreated: its entries are found, though it was not created as a new folder.
    @Test func recreatedTopFolderKeepsItsMembers() throws {
        let made = try fixture.file("a")
        try fixture.index.close()
        try DatabaseQueue(path: fixture.folder("index.db")).write {
            try $0.execute(sql: "DELETE FROM items WHERE key = 1")
        }
        let index = try fixture.reopened()
        #expect(try index.child(of: .root, named: name("a"))?.key == made.key)
        try index.close()
    }

    /// A repair of the table invalidates the cache, also for a lookup during the repair.
    @Test func repairedEntriesLeaveTheCache() throws {
        let folder = try fixture.directory("F")
        try fixture.file("F/lost")
        let kept = try fixture.file("F/kept")
        try fixture.index.close()
        // An entry of an absent item.
        try DatabaseQueue(path: fixture.folder("index.db")).write {
            try $0.execute(sql: "UPDATE entries SET item = 1 << 40 WHERE name = CAST('lost' AS BLOB)")
        }
        let index = try fixture.reopened()
        #expect(try index.child(of: folder.key, named: name("kept"))?.key == kept.key)
        try index.write(.startup) { transaction in
            try transaction.repairContradictions()
            // As a concurrent reader does.
            _ = try index.row(ino: kept.ino)
        }
        #expect(try index.child(of: folder.key, named: name("lost")) == nil)
        #expect(try index.child(of: folder.key, named: name("kept"))?.key == kept.key)
        try index.check()
        try index.close()
    }
}
