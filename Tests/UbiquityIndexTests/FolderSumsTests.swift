import Dispatch
import GRDB
import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityTestSupport

/// The stored totals of folders against a recursive count of the items.
@Suite(.timeLimit(.minutes(2))) struct FolderSumsTests {
    @Test(arguments: 1...10 as ClosedRange<UInt64>)
    func randomChangesKeepTheTotals(_ seed: UInt64) throws {
        let fixture = try Fixture(seed: seed, inMemory: seed > 6)
        let changes = RandomChanges(fixture, seed)
        for round in 0..<25 {
            for _ in 0..<(1 + round) { try changes.change() }
            #expect(throws: Never.self, "seed \(seed), round \(round)") { try fixture.index.check() }
            // During a recount nothing is compared.
            #expect(try fixture.index.hasCountedFolders)
        }
        try expectCounted(fixture.index)
    }

    @Test(arguments: 1...6 as ClosedRange<UInt64>)
    func journalReplayKeepsTheTotals(_ seed: UInt64) throws {
        let fixture = try Fixture(seed: seed)
        let changes = RandomChanges(fixture, seed)
        for _ in 0..<100 { try changes.change() }
        for _ in 0..<4 {
            for _ in 0..<60 { try changes.change(remote: false) }
            let copy = try TemporaryFolder()
            try fixture.copyFiles(["index.db", "index.db-wal", "index.journal"], to: copy)
            try whileBlocked { pool in
                let index = try ItemIndex(
                    path: copy("index.db"), timekeeper: fixture.time, random: fixture.random, owner: (1000, 1000),
                    statementThread: pool)
                // It needed no recount, and could not have made one.
                #expect(try index.hasCountedFolders)
                #expect(throws: Never.self, "seed \(seed)") { try index.check() }
                try expectCounted(index)
                try index.close()
            }
        }
    }

    @Test func earlierFormatIsCountedWhileInUse() throws {
        let fixture = try Fixture()
        let changes = RandomChanges(fixture, 3)
        for _ in 0..<200 { try changes.change() }
        for number in 0..<2500 { try fixture.make("many \(number)") }
        try makeFormer(fixture)
        try whileBlocked { pool in
            let index = try ItemIndex(
                path: fixture.folder("index.db"), timekeeper: fixture.time, random: fixture.random, owner: (1000, 1000),
                statementThread: pool)
            #expect(try !index.hasCountedFolders)
            let now = RandomChanges(fixture, 4, index: index)
            now.folders = changes.folders
            now.files = changes.files
            var pages = 0
            repeat {
                pages += 1
                for _ in 0..<30 { try now.change() }
                try expectCounted(index)
            } while try index.countFolderPage()
            #expect(pages > 2)
            #expect(try index.hasCountedFolders)
            #expect(throws: Never.self) { try index.check() }
            try index.close()
        }
    }

    /// Runs `body` while a pool's thread is blocked.
    private func whileBlocked(_ body: (BlockingPool) throws -> Void) throws {
        let pool = BlockingPool(name: "index", threads: 1), gate = DispatchSemaphore(value: 0)
        _ = pool.start { gate.wait() }
        defer { gate.signal() }
        try body(pool)
    }

    @Test func earlierFormatIsCountedAutomatically() async throws {
        let fixture = try Fixture()
        try fixture.directory("d")
        try fixture.file("d/a")
        try makeFormer(fixture)
        let index = try ItemIndex(
            path: fixture.folder("index.db"), timekeeper: fixture.time, random: fixture.random, owner: (1000, 1000),
            statementThread: BlockingPool(name: "index", threads: 1))
        let end = ContinuousClock.now + .seconds(60)
        while try !index.hasCountedFolders, ContinuousClock.now < end { try await Task.sleep(for: .milliseconds(2)) }
        #expect(try index.hasCountedFolders)
        #expect(try index.sums(below: .root).pending == 2)
        try index.close()
    }

    private func makeFormer(_ fixture: Fixture) throws {
        try fixture.index.close()
        let former = try DatabaseQueue(path: fixture.folder("index.db"))
        try former.writeWithoutTransaction { db in
            try db.execute(
                sql: "DROP TABLE folderSums; DELETE FROM meta WHERE name = 'sums'; PRAGMA user_version = 8;")
        }
        try former.close()
    }

    @Test(arguments: [
        "UPDATE folderSums SET pending = pending + 1 WHERE folder = 1", "DELETE FROM folderSums WHERE folder <> 1",
        "INSERT INTO folderSums VALUES (99, 1, 0, 0, 0, 0, 0, 0, 0)",
    ])
    func wrongTotalIsFoundAndRepaired(_ damage: String) throws {
        let fixture = try Fixture()
        try fixture.directory("d")
        try fixture.file("d/a")
        fixture.check()
        let database = try DatabaseQueue(path: fixture.folder("index.db"))
        try database.write { try $0.execute(sql: damage) }
        let error = #expect(throws: UbiquityError.self) { try fixture.index.check() }
        #expect(error?.message.contains("totals of a folder") == true, "\(error?.message ?? "")")
        try fixture.index.write(.startup) { try $0.repairContradictions() }
        try fixture.index.countFolders()
        fixture.check()
        #expect(try fixture.index.sums(below: .root).pending == 2)
    }

    @Test func totalsFollowAnItemThreeLevelsDown() throws {
        let fixture = try Fixture()
        for path in ["a", "a/b", "a/b/c"] { try fixture.directory(path) }
        try fixture.file("a/b/c/f")
        try fixture.file("a/g")
        for path in ["a", "a/b", "a/b/c", "a/b/c/f", "a/g"] { try fixture.confirm(path) }
        func sums(_ path: String) throws -> FolderSums { try fixture.index.sums(below: fixture.found(path).key) }
        #expect(try sums("a").pending == 0 && sums("a").files == 2 && sums("a").absent == 0)
        let ino = try fixture.found("a/b/c/f").ino
        _ = try fixture.index.setAttributes(ino: ino, AttributeChange(mode: 0o600))
        #expect(try ["a", "a/b", "a/b/c"].allSatisfy { try sums($0).pending == 1 })
        try fixture.confirm("a/b/c/f")
        try fixture.evict("a/b/c/f")
        #expect(try ["a", "a/b", "a/b/c"].allSatisfy { try sums($0).pending == 0 && sums($0).absent == 1 })
        try fixture.rename("a/b", "b")
        #expect(try sums("a").absent == 0 && sums("b").absent == 1 && sums("a").files == 1)
        fixture.check()
    }

    @Test func hardLinkCountsButAddsNoBytes() throws {
        let fixture = try Fixture()
        for path in ["a", "b"] { try fixture.directory(path) }
        let file = try fixture.file("a/f")
        _ = try fixture.index.noteWriting(
            ino: file.ino, changed: true, size: 9, modifiedAt: .zero, stillOpen: false)
        _ = try fixture.index.link(ino: file.ino, in: fixture.found("b").ino, named: ItemName("g"))
        let sums = try fixture.index.sums(below: fixture.found("b").key)
        #expect(sums.files == 1 && sums.bytes == 0 && sums.pending == 2)
        #expect(try fixture.index.sums(below: .root).bytes == 9)
        try fixture.confirm("a/f")
        try fixture.evict("a/f")
        #expect(try fixture.index.sums(below: fixture.found("b").key).absent == 1)
        fixture.check()
    }

    @Test func recordsOfAFileAndItsHardLinkCountOnce() throws {
        let fixture = try Fixture()
        try fixture.directory("b")
        let file = try fixture.file("f")
        _ = try fixture.index.link(ino: file.ino, in: fixture.found("b").ino, named: ItemName("g"))
        let name = try fixture.index.read { try $0.allLinks(to: file.id).first?.id }
        try fixture.confirm("f")
        let content = RemoteContent(
            version: VersionID(high: 6, low: 1), size: 0, isAvailable: true, device: DeviceID(high: 1, low: 1),
            deviceName: "laptop", manifest: nil)
        try fixture.index.write(.remote) { transaction in
            for (id, kind, content) in [(file.id, ItemKind.file, content), (try #require(name), .hardLink, nil)] {
                let record = RemoteItem(
                    id: id, kind: kind, revision: Revision(8), parent: .root, name: try ItemName("f"), mode: 0o644,
                    createdAt: .zero, modifiedAt: .zero, linkTarget: file.id.bytes, content: content)
                try transaction.setRemote(record, state: .settled)
            }
        }
        #expect(try fixture.index.sums(below: fixture.found("b").key).outdated == 1)
        fixture.check()
    }

    @Test func failedTransactionLeavesTheTotals() throws {
        let fixture = try Fixture()
        let file = try fixture.file("f")
        for origin in [IndexEvent.Origin.local, .remote] {
            #expect(throws: CancellationError.self) {
                try fixture.index.write(origin) { transaction in
                    var row = file
                    row.size = 99
                    try transaction.update(row, before: file)
                    throw CancellationError()
                }
            }
        }
        #expect(try fixture.index.sums(below: .root).bytes == 0)
        fixture.check()
    }

    /// The second change is made from the earlier row: only its own columns are written.
    @Test func changesFromOneRowAreCountedTogether() throws {
        for inMemory in [false, true] {
            let fixture = try Fixture(inMemory: inMemory)
            let file = try fixture.file("f")
            try fixture.index.write(.local) { transaction in
                var first = file
                first.size = 7
                try transaction.update(first, before: file)
                var second = file
                second.flags.insert(.downloadRequested)
                try transaction.update(second, before: file)
            }
            let sums = try fixture.index.sums(below: .root)
            #expect(sums.bytes == 7 && sums.requested == 1)
            fixture.check()
        }
    }

    @Test func hugeSizesDoNotTrap() throws {
        let fixture = try Fixture()
        for name in ["a", "b", "c"] {
            let file = try fixture.file(name)
            _ = try fixture.index.noteWriting(
                ino: file.ino, changed: true, size: .max, modifiedAt: .zero, stillOpen: false)
        }
        _ = try fixture.index.sums(below: .root)
        fixture.check()
    }

    /// Counts by a walk through the rows, and compares with the index's totals of each folder.
    private func expectCounted(_ index: ItemIndex, _ location: SourceLocation = #_sourceLocation) throws {
        try index.read { reader in
            func count(_ folder: ItemKey) throws -> [Int64] {
                var total: [Int64] = [0, 0, 0, 0, 0, 0]
                for row in try reader.children(of: folder, after: nil, limit: .max) {
                    var parts = [try share(row, reader)]
                    if row.kind == .directory { parts.append(try count(row.key)) }
                    if row.kind == .hardLink, !row.staysHere, let linked = try reader.named(row) {
                        parts.append(try share(linked, reader))
                        parts[1][1] = 0
                        parts[1][3] = 0
                    }
                    for part in parts { total = zip(total, part).map { $0 + $1 } }
                }
                let sums = try reader.sums(below: folder)
                let found = [sums.files, sums.bytes, sums.absent, sums.absentBytes, sums.outdated, sums.pending]
                #expect(found == total, "folder \(folder)", sourceLocation: location)
                return total
            }
            _ = try count(.root)
        }
    }

    private func share(_ row: ItemRow, _ reader: IndexReader) throws -> [Int64] {
        guard !row.staysHere else { return [0, 0, 0, 0, 0, 0] }
        let remote = try reader.remote(id: row.id)
        let file: Int64 = row.kind == .file ? 1 : 0, absent: Int64 = row.isPlaceholder ? 1 : 0
        return [
            file, file * row.size, absent, absent * row.size, row.isOutdated(remote) ? 1 : 0,
            row.isUploaded(remote) ? 0 : 1,
        ]
    }
}

/// Changes of all kinds in one tree, by a seed. Refused changes do not count.
private final class RandomChanges {
    private let fixture: Fixture
    private let index: ItemIndex
    private let random: SeededRandom
    var folders: [UInt64] = [1]
    var files: [UInt64] = []

    init(_ fixture: Fixture, _ seed: UInt64, index: ItemIndex? = nil) {
        self.fixture = fixture
        self.index = index ?? fixture.index
        random = SeededRandom(seed &* 104_729)
    }

    private func name() throws -> ItemName {
        let number = random.below(14)
        return try ItemName(number < 2 ? "x\(number).tmp" : number < 4 ? "x\(number).nosync" : "n\(random.below(6))")
    }

    /// - Parameter remote: Whether also changes that commit the batch.
    func change(remote: Bool = true) throws {
        fixture.time.advance()
        do {
            try random.below(4) == 0 && remote ? changeRemotely() : changeLocally()
        } catch is UbiquityError {
            // Refused.
        }
    }

    private func changeLocally() throws {
        let folder = random.pick(folders), other = random.pick(folders)
        switch random.below(16) {
        case 0...3:
            let content = ContentID(try index.newContentNumber())
            let new = NewItem(kind: .file, mode: 0o644, uid: 1, gid: 2, content: content, isWriting: random.below(3) == 0)
            files.append(try index.create(in: folder, named: name(), new).ino)
        case 4, 5:
            let new = NewItem(kind: .directory, mode: 0o755, uid: 1, gid: 2)
            folders.append(try index.create(in: folder, named: name(), new).ino)
        case 6:
            let new = NewItem(kind: .symlink, mode: 0o777, uid: 1, gid: 2, linkTarget: [1])
            files.append(try index.create(in: folder, named: name(), new).ino)
        case 7...10:
            let mode = random.pick([RenameMode.replacing, .replacing, .exclusive, .exchanging])
            _ = try index.rename(from: folder, name(), to: other, name(), mode)
        case 11: _ = try index.remove(from: folder, named: name(), directory: random.below(2) == 0)
        case 12:
            guard !files.isEmpty else { return }
            _ = try index.link(ino: random.pick(files), in: folder, named: name())
        case 13, 14:
            guard !files.isEmpty else { return }
            let ino = random.pick(files)
            guard let row = try index.row(ino: ino), row.kind == .file, !row.isPlaceholder else { return }
            _ = try index.noteWriting(
                ino: ino, changed: true, size: Int64(random.below(100)), modifiedAt: .zero,
                stillOpen: random.below(3) == 0)
        default: _ = try index.setAttributes(ino: random.pick(folders + files), AttributeChange(mode: 0o700))
        }
    }

    private func changeRemotely() throws {
        let ino = random.pick(folders + files), what = random.below(6)
        try index.write(.remote) { transaction in
            guard let before = try transaction.row(ino: ino), before.key != .root, !before.isDeleted else { return }
            // The cloud has no record of items kept on this device.
            guard !before.isExcluded else { return }
            var row = before
            switch what {
            case 0, 1:
                row.dirty = []
                row.flags.remove(.writing)
                row.flags.remove(.fresh)
                if row.kind == .file { row.version = VersionID(high: 5, low: random.next()) }
                try transaction.update(row, before: before)
                try transaction.setRemote(record(of: row, row.version), state: .settled)
            case 2:
                guard row.kind == .file, row.dirty.isEmpty, row.version != nil else { return }
                row.content = nil
                row.contentState = .none
                try transaction.update(row, before: before)
            case 3:
                let version = row.kind == .file ? VersionID(high: 6, low: random.next()) : nil
                try transaction.setRemote(record(of: row, version), state: .settled)
            case 4: try transaction.forgetRemote(row.id)
            default:
                guard row.kind == .file else { return }
                row.flags.formSymmetricDifference(.downloadRequested)
                try transaction.update(row, before: before)
            }
        }
    }

    private func record(of row: ItemRow, _ version: VersionID?) throws -> RemoteItem {
        let content = version.map {
            RemoteContent(
                version: $0, size: row.size, isAvailable: random.below(3) > 0, device: DeviceID(high: 1, low: 1),
                deviceName: "laptop", manifest: nil)
        }
        return RemoteItem(
            id: row.id, kind: row.kind, revision: Revision(1), parent: .root,
            name: try row.entry?.name ?? ItemName("none"), mode: row.mode, createdAt: .zero, modifiedAt: .zero,
            linkTarget: row.linkTarget, content: content)
    }
}
