import GRDB
import Testing
import UbiquityCore
import UbiquityIndex
import UbiquityTestSupport

/// The sync engine's data: the remote tree, the position in the feed, contents and the places of chunks.
@Suite struct RecordTests {
    let fixture: Fixture
    init() throws { fixture = try Fixture() }

    private func item(_ number: UInt64, revision: Int64 = 1, name: String = "a") throws -> RemoteItem {
        RemoteItem(
            id: ItemID(high: 9, low: number), kind: .file, revision: Revision(revision), parent: .root,
            name: try ItemName(name), mode: 0o644, createdAt: Timestamp(nanoseconds: -5),
            modifiedAt: Timestamp(nanoseconds: .max))
    }

    private func chunk(_ number: UInt8, length: Int = 1000) throws -> ChunkReference {
        ChunkReference(id: try #require(ChunkID(bytes: [UInt8](repeating: number, count: 32))), length: length)
    }

    private func version(_ number: UInt64) -> VersionID { VersionID(high: 3, low: number) }

    private func stored(_ item: RemoteItem) throws -> RemoteItem? {
        let isStored = try fixture.index.write(.remote) { try $0.setRemote(item, state: .settled) }
        #expect(isStored)
        return try fixture.index.read { try $0.remote(id: item.id) }
    }

    @Test func remoteRecordsAreReadBackWhole() throws {
        let file = try item(1)
        #expect(try stored(file) == file)
        var full = try item(2, revision: .max, name: String(repeating: "ä", count: 127) + "x")
        full.xattrs = [
            Xattr(name: [1], value: []), Xattr(name: Array("user.b".utf8), value: [UInt8](repeating: 0, count: 60_000)),
        ]
        full.content = RemoteContent(
            version: version(1), size: 1 << 43, isAvailable: true, device: DeviceID(high: .max, low: 1),
            deviceName: "Ärger \u{1F600}", manifest: [try chunk(1), try chunk(2, length: Limits.maximumChunkLength)])
        full.conflictCount = 3
        full.unknownFields = [0xF8, 0, 1]
        #expect(try stored(full) == full)
        full.content?.manifest = []
        full.content?.isAvailable = false
        #expect(try stored(full) == full)
        full.content?.manifest = nil
        #expect(try stored(full) == full)
        var link = try item(3)
        link.kind = .symlink
        link.linkTarget = [UInt8](repeating: 0x2F, count: Limits.maximumLinkLength)
        #expect(try stored(link) == link)
        var deleted = try item(4)
        deleted.kind = .directory
        deleted.isDeleted = true
        deleted.parent = full.id
        #expect(try stored(deleted) == deleted)
        #expect(try fixture.index.read { try $0.remote(id: ItemID(high: 0, low: 77)) } == nil)
    }

    /// A record lists only some conflicts, with the number of all.
    @Test func conflictsBeyondTheRecordAreCounted() throws {
        let folder = try fixture.directory("d"), file = try fixture.file("d/a"), other = try fixture.file("b")
        func record(_ row: ItemRow, count: Int, known: Range<UInt64>) throws {
            var item = RemoteItem(
                id: row.id, kind: .file, revision: Revision(7), parent: .root, name: try ItemName("a"), mode: 0o644,
                createdAt: .zero, modifiedAt: .zero, conflictCount: count)
            item.conflicts = known.map { number in
                RemoteVersion(
                    content: RemoteContent(
                        version: version(number), size: 3, isAvailable: true, device: DeviceID(high: 1, low: 1),
                        deviceName: "other", manifest: nil),
                    kind: .conflict, modifiedAt: .zero, savedAt: .zero, savedName: item.name, baseVersion: nil)
            }
            _ = try stored(item)
        }
        try record(file, count: 100, known: 1..<65)
        try record(other, count: 1, known: 70..<71)
        func counts() throws -> [Int] {
            try fixture.index.read { reader in
                let root = try #require(try reader.row(id: .root))
                return try [file, folder, root].map { try reader.conflictCount(of: $0) }
            }
        }
        func total() throws -> [Int] {
            let total = try fixture.index.read { try $0.conflictTotal() }
            return [total.items, total.versions, Int(total.bytes)]
        }
        #expect(try counts() == [100, 100, 101] && total() == [2, 101, 65 * 3])
        _ = try fixture.index.decide([(.resolve, version(1)), (.resolve, version(2))], of: file.key)
        #expect(try counts() == [98, 98, 99] && total() == [2, 99, 63 * 3])
        _ = try fixture.index.decide([(.resolve, version(70))], of: other.key)
        #expect(try counts() == [98, 98, 98] && total() == [1, 98, 62 * 3])
        try fixture.remove("d/a")
        #expect(try counts().dropFirst() == [0, 0] && total() == [0, 0, 0])
    }

    @Test func olderRecordChangesNothing() throws {
        let new = try item(1, revision: 5, name: "new")
        try fixture.index.write(.remote) { transaction in
            let old = try item(1, revision: 4, name: "old")
            #expect(try transaction.setRemote(new, state: .settled))
            #expect(try !transaction.setRemote(old, state: .waiting))
            #expect(try transaction.setRemote(new, state: .settled))
        }
        #expect(try fixture.index.read { try $0.remote(id: new.id) } == new)
        try fixture.index.write(.remote) { try $0.forgetRemote(new.id) }
        #expect(try fixture.index.read { try $0.remote(id: new.id) } == nil)
    }

    @Test func recordsAreListedByTheirState() throws {
        let ids = try fixture.index.write(.remote) { transaction in
            try (0..<10).map { number in
                let item = try item(UInt64(number), name: "\(number)")
                try transaction.setRemote(item, state: number == 0 ? .settled : .waiting)
                return item.id
            }
        }
        func listed(_ state: SettlingState, _ limit: Int = 100) throws -> [ItemID] {
            try fixture.index.read { try $0.records(state, limit: limit) }.sorted()
        }
        #expect(try listed(.waiting, 3).count == 3)
        #expect(try listed(.waiting) == Array(ids[1...]))
        try fixture.index.write(.remote) { try $0.setState(ids[5], .awaitingContent) }
        #expect(try listed(.awaitingContent) == [ids[5]])
        #expect(try !listed(.waiting).contains(ids[5]))
        try fixture.index.write(.remote) { try $0.setState(ids[0], .waiting) }
        #expect(try listed(.waiting).contains(ids[0]))
    }

    @Test func feedPositionIsKept() throws {
        #expect(
            try fixture.index.read { try $0.feedPosition() }
                == FeedPosition(revision: .zero, incarnation: nil, snapshotEpoch: 0))
        let position = FeedPosition(revision: Revision(41), incarnation: .max - 1, snapshotEpoch: 2)
        try fixture.index.write(.remote) { try $0.setFeedPosition(position) }
        try fixture.index.close()
        #expect(try fixture.reopened().read { try $0.feedPosition() } == position)
    }

    @Test func recordsMissingFromTheSnapshotAreListed() throws {
        let kept = try item(1), missing = try item(2), deletedBefore = try item(3)
        try fixture.index.write(.remote) { transaction in
            for item in [kept, missing] { try transaction.setRemote(item, state: .settled) }
            var deleted = deletedBefore
            deleted.isDeleted = true
            try transaction.setRemote(deleted, state: .settled)
            #expect(try transaction.remotesMissingFromSnapshot(limit: 10) == [])
            try transaction.setFeedPosition(FeedPosition(revision: .zero, incarnation: 1, snapshotEpoch: 1))
            try transaction.setRemote(kept, state: .settled)
            #expect(try transaction.remotesMissingFromSnapshot(limit: 10) == [missing])
        }
    }

    // MARK: Contents

    /// For contents that are pending or being written, the set to sync is not known yet.
    @Test func unsyncedContentsAreCompleteCloudVersions() throws {
        for (number, name) in ["clean", "dirty", "writing", "partial"].enumerated() {
            let content = ContentID(Int64(1000 + number)), file = try fixture.file(name)
            try fixture.index.write(.remote) { transaction in
                let before = try #require(try transaction.row(ino: file.ino))
                var row = before
                row.content = content
                row.contentState = name == "partial" ? .partial : .complete
                row.dirty = name == "dirty" ? [.content] : []
                row.flags = name == "writing" ? [.writing] : []
                try transaction.update(row, before: before)
                try transaction.setContent(
                    ContentRecord(
                        content: content, version: version(1), size: 0, manifest: [], unsyncedBoot: [1]))
            }
        }
        #expect(try fixture.index.read { try $0.unsyncedContents(limit: 9) } == [ContentID(1000)])
    }

    /// An unreadable record does not prevent a start.
    @Test func damagedRecordsOfReplacementsAreLeftOut() throws {
        for name in ["a", "b"] {
            try fixture.file(name)
            try fixture.file(name + ".new")
            try fixture.rename(name + ".new", name)
        }
        #expect(try fixture.index.read { try $0.replacedContents() }.count == 2)
        try fixture.index.close()
        let database = try DatabaseQueue(path: fixture.folder("index.db"))
        try database.writeWithoutTransaction { db in
            try db.execute(
                sql: "UPDATE replacements SET manifest = x'01' WHERE content = (SELECT min(content) FROM replacements)")
        }
        try database.close()
        #expect(try fixture.reopened().read { try $0.replacedContents() }.count == 1)
    }

    @Test func contentRecordsAreReadBack() throws {
        let boot = Array("a-boot".utf8)
        let record = ContentRecord(
            content: ContentID(5), version: version(1), size: 1 << 40, manifest: [try chunk(1), try chunk(2)],
            unsyncedBoot: boot)
        try fixture.index.write(.remote) { try $0.setContent(record) }
        #expect(try fixture.index.read { try $0.contentRecord(ContentID(5)) } == record)
        try fixture.index.write(.remote) { try $0.markSynced([ContentID(5), ContentID(6)]) }
        #expect(try fixture.index.read { try $0.contentRecord(ContentID(5)) }?.unsyncedBoot == nil)
        #expect(try fixture.index.read { try $0.contentRecord(ContentID(6)) } == nil)
        try fixture.index.write(.remote) { try $0.forgetContent(ContentID(5)) }
        #expect(try fixture.index.read { try $0.contentRecord(ContentID(5)) } == nil)
    }

    @Test func chunksAreFoundAtTheirPositions() throws {
        let one = try chunk(1, length: 100), two = try chunk(2, length: 200), three = try chunk(3, length: 300)
        try fixture.index.write(.remote) { transaction in
            try transaction.setLocations([one, two, one], in: ContentID(5))
            try transaction.setLocations([two, three], in: ContentID(6))
        }
        func places(_ chunk: ChunkReference) throws -> Set<[Int64]> {
            let found = try fixture.index.read { try $0.locations(of: chunk) }
            return Set(found.map { [$0.content.rawValue, $0.position, Int64($0.length)] })
        }
        #expect(try places(one) == [[5, 0, 100], [5, 300, 100]])
        #expect(try places(two) == [[5, 100, 200], [6, 0, 200]])
        #expect(try places(three) == [[6, 200, 300]])
        #expect(try places(chunk(1, length: 101)) == [])
        #expect(try places(chunk(200)) == [])
        try fixture.index.write(.remote) { try $0.setLocations([three], in: ContentID(5)) }
        #expect(try places(one) == [])
        #expect(try places(three) == [[5, 0, 300], [6, 200, 300]])
        try fixture.index.write(.remote) { try $0.forgetContent(ContentID(6)) }
        #expect(try places(three) == [[5, 0, 300]])
    }

    @Test func chunkIDsOfTheUpperHalfAreFound() throws {
        let chunk = try chunk(0xFF, length: 7)
        try fixture.index.write(.remote) { try $0.setLocations([chunk], in: ContentID(1)) }
        #expect(try fixture.index.read { try $0.locations(of: chunk) }.count == 1)
    }

    /// At the first start, and at each later one.
    @Test func unusedContentsAreForgotten() throws {
        let used = try #require(fixture.file("a").content)
        let one = try chunk(1)
        for _ in 1...3 {
            let unused = ContentID(try fixture.index.newContentNumber())
            try fixture.index.write(.remote) { transaction in
                for content in [used, unused] {
                    try transaction.setContent(
                        ContentRecord(
                            content: content, version: version(1), size: 1, manifest: [one], unsyncedBoot: nil))
                    try transaction.setLocations([one], in: content)
                }
            }
            #expect(try fixture.index.read { try $0.locations(of: one) }.count == 2)
            try fixture.index.write(.startup) { try $0.forgetUnusedContents() }
            #expect(try fixture.index.read { try $0.contentRecord(unused) } == nil)
            #expect(try fixture.index.read { try $0.contentRecord(used) } != nil)
            #expect(try fixture.index.read { try $0.locations(of: one) }.map(\.content) == [used])
        }
    }

    /// The database is not queried for numbers above all recorded ones. Recorded contents are removed all the same, in
    /// any order, by their record or their chunks alone, and after a reopening.
    @Test(arguments: [false, true])
    func contentRecordsAreDeletedWithTheContent(isReopened: Bool) throws {
        var index = fixture.index
        let one = try chunk(1)
        let contents = try (0..<6).map { _ in ContentID(try index.newContentNumber()) }
        func record(_ content: ContentID) -> ContentRecord {
            ContentRecord(content: content, version: version(1), size: 1, manifest: [one], unsyncedBoot: nil)
        }
        try index.write(.local) { try $0.setContent(record(contents[1])) }
        try index.write(.remote) { try $0.setLocations([one], in: contents[4]) }
        // A rolled back deletion counts for nothing.
        #expect(throws: UbiquityError.self) {
            try index.write(.remote) { transaction in
                try transaction.setContent(record(contents[5]))
                throw UbiquityError(.io, "undone")
            }
        }
        if isReopened { index = try fixture.reopened() }
        for content in [contents[5], contents[1], contents[0], contents[4]] {
            try index.write(.local) { try $0.forgetContent(content) }
        }
        for content in contents { #expect(try index.read { try $0.contentRecord(content) } == nil) }
        #expect(try index.read { try $0.locations(of: one) }.isEmpty)
    }

    // MARK: Lists

    @Test func changesWaitInTheirOrder() throws {
        try fixture.file("b")
        try fixture.file("a")
        try fixture.directory("d")
        try fixture.confirm("a")
        #expect(try dirtyNames() == ["b", "d"])
        _ = try fixture.index.setAttributes(ino: fixture.found("b").ino, AttributeChange(mode: 0o600))
        _ = try fixture.index.setAttributes(ino: fixture.found("a").ino, AttributeChange(mode: 0o600))
        #expect(try dirtyNames() == ["b", "d", "a"])
        #expect(try fixture.found("a").dirtyBase == Revision(7))
        let first = try #require(try fixture.index.read { try $0.dirtyRows(after: 0, limit: 1) }.first)
        let rest = try fixture.index.read { try $0.dirtyRows(after: first.dirtyOrder, limit: 9) }
        #expect(rest.map(\.entry?.name.description) == ["d", "a"])
        #expect(try fixture.index.read { try $0.dirtyCount() } == 3)
    }

    /// A reader that remembers its position must not miss rows that become dirty after the last upload.
    @Test func dirtyOrderOnlyGrows() throws {
        let first = try fixture.file("a").dirtyOrder
        try fixture.confirm("a")
        let second = try fixture.file("b").dirtyOrder
        #expect(second > first)
        try fixture.confirm("b")
        try fixture.index.close()
        let index = try fixture.reopened()
        let third = try index.create(
            in: 1, named: ItemName("c"), NewItem(kind: .directory, mode: 0o755, uid: 0, gid: 0))
        #expect(third.dirtyOrder > second)
    }

    private func dirtyNames() throws -> [String] {
        try fixture.index.read { try $0.dirtyRows(after: 0, limit: 100) }.compactMap(\.entry?.name.description)
    }

    @Test func onlyUploadedContentIsEvictable() throws {
        for (name, size) in [
            ("old", 5), ("new", 5), ("dirty", 5), ("pinned", 5), ("writing", 5), ("empty", 0), ("lost", 5),
        ] {
            let file = try fixture.file(name)
            _ = try fixture.index.noteWriting(
                ino: file.ino, changed: true, size: Int64(size), modifiedAt: .zero, stillOpen: false)
            if name != "dirty" { try fixture.confirm(name) }
        }
        _ = try fixture.index.beginWriting(ino: fixture.found("writing").ino)
        let pinned = try fixture.found("pinned")
        try fixture.index.write(.local) { transaction in
            var row = pinned
            row.flags.insert(.pinned)
            try transaction.update(row, before: pinned)
            let lost = try transaction.row(path: [ItemName("lost")])
            try transaction.forgetRemote(try #require(lost).id)
        }
        try fixture.file("excluded~")
        fixture.time.advance()
        try fixture.index.noteUses([(ino: fixture.found("new").ino, time: fixture.time.now())])
        let names = try fixture.index.read { try $0.evictable(limit: 10) }.map(\.entry?.name.description)
        #expect(names == ["old", "new"])
        let pages = try fixture.index.read { reader in
            let first = try reader.evictable(limit: 1), second = try reader.evictable(after: first.last, limit: 1)
            return [first, second, try reader.evictable(after: second.last, limit: 1)]
        }
        #expect(pages.map { $0.map(\.entry?.name.description) } == [["old"], ["new"], []])
    }

    @Test func wantedPlaceholdersAreListed() throws {
        for name in ["plain", "pinned", "here"] {
            try fixture.file(name)
            try fixture.confirm(name)
        }
        try fixture.evict("plain")
        try fixture.evict("pinned")
        let pinned = try fixture.found("pinned")
        try fixture.index.write(.local) { transaction in
            var row = pinned
            row.flags.insert(.pinned)
            try transaction.update(row, before: pinned)
        }
        func wanted(_ all: Bool, after: ItemKey = ItemKey(0)) throws -> [String?] {
            try fixture.index.read { try $0.wanted(eager: all ? .max : 0, after: after, limit: 9) }.map(\.entry?.name.description)
        }
        #expect(try wanted(false) == ["pinned"])
        #expect(try wanted(true) == ["plain", "pinned"])
        #expect(try wanted(true, after: fixture.found("plain").key) == ["pinned"])
        #expect(try fixture.index.read { try $0.completeBytes(ofAtMost: .max) } == 0)
    }
}
