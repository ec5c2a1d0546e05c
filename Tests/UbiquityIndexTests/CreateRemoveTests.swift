import Testing
import UbiquityCore
import UbiquityIndex
import UbiquityTestSupport

@Suite struct CreateRemoveTests {
    let fixture: Fixture
    init() throws { fixture = try Fixture() }

    @Test func createdItemsHaveTheRequestedProperties() throws {
        let folder = try fixture.directory("Documents")
        fixture.time.advance()
        let file = try fixture.file("Documents/a.txt", mode: 0o100640, isWriting: true)
        #expect(file.kind == .file && file.mode == 0o640 && file.uid == 1 && file.gid == 2 && file.size == 0)
        #expect(file.contentState == .complete && file.isWriting && !file.isPlaceholder && file.version == nil)
        #expect(file.dirty == [.created, .content] && file.dirtyBase == .zero)
        #expect(file.createdAt == fixture.time.now() && file.modifiedAt == file.createdAt)
        #expect(file.ino == UInt64(file.key.rawValue))
        #expect(try fixture.row("Documents/a.txt") == file)
        #expect(try fixture.row(ino: file.ino) == file)
        #expect(folder.dirty == .created && folder.content == nil)
        let link = try fixture.symlink("Documents/link", "../où")
        #expect(link.linkTarget == Array("../où".utf8) && link.size == 6 && link.dirty == .created)
        #expect(try fixture.row("Documents/link") == link)
        #expect(Set([folder, file, link].map(\.id)).count == 3)
        fixture.check()
    }

    @Test func invalidCreationsAreRefused() throws {
        try fixture.directory("d")
        let file = try fixture.file("d/a")
        for path in ["d", "d/a"] {
            expect(.alreadyExists) { try fixture.directory(path) }
            expect(.alreadyExists) { try fixture.file(path) }
        }
        let new = NewItem(kind: .directory, mode: 0o755, uid: 0, gid: 0)
        expect(.notDirectory) { _ = try fixture.index.create(in: file.ino, named: ItemName("x"), new) }
        expect(.notFound) { _ = try fixture.index.create(in: 1 << 40, named: ItemName("x"), new) }
        let gone = try fixture.directory("gone")
        try fixture.remove("gone", directory: true)
        expect(.notFound) { _ = try fixture.index.create(in: gone.ino, named: ItemName("x"), new) }
        #expect(try fixture.index.read { try $0.itemCount() } == 2)
        fixture.check()
    }

    @Test func namesAreBytes() throws {
        let composed = "caf\u{E9}", decomposed = "cafe\u{301}"
        let first = try fixture.file(composed)
        let second = try fixture.file(decomposed)
        #expect(first.ino != second.ino)
        #expect(try fixture.found(composed).ino == first.ino)
        #expect(try fixture.found(decomposed).ino == second.ino)
        let longest = String(repeating: "x", count: Limits.maximumNameLength)
        try fixture.file(longest)
        #expect(try fixture.found(longest).entry?.name.bytes.count == Limits.maximumNameLength)
    }

    @Test func removedCloudItemLeavesATombstone() throws {
        let made = try fixture.file("a")
        try fixture.confirm("a", revision: 9)
        fixture.time.advance()
        let removed = try fixture.remove("a")
        #expect(removed.ino == made.ino && removed.content == made.content)
        #expect(try fixture.row("a") == nil)
        #expect(try fixture.row(ino: made.ino) == nil)
        let tombstone = try #require(try fixture.index.read { try $0.row(key: made.key) })
        #expect(tombstone.isDeleted && tombstone.entry == nil && tombstone.content == nil)
        #expect(tombstone.flags == .madeHere)
        #expect(tombstone.id == made.id && tombstone.dirty == .deleted && tombstone.dirtyBase == Revision(9))
        #expect(tombstone.dirtyAt == fixture.time.now())
        #expect(tombstone.ino != made.ino)
        #expect(try fixture.file("a").id != made.id)
        fixture.check()
    }

    @Test func removedExcludedItemLeavesNothing() throws {
        let made = try fixture.file("a~")
        try fixture.remove("a~")
        #expect(try fixture.index.read { try $0.row(key: made.key) } == nil)
        #expect(try fixture.index.read { try $0.dirtyCount() } == 0)
    }

    @Test func invalidRemovalsAreRefused() throws {
        try fixture.directory("d")
        try fixture.file("d/a")
        expect(.directoryNotEmpty) { try fixture.remove("d", directory: true) }
        expect(.isDirectory) { try fixture.remove("d") }
        expect(.notDirectory) { try fixture.remove("d/a", directory: true) }
        expect(.notFound) { try fixture.remove("d/b") }
        let file = try fixture.found("d/a")
        expect(.notDirectory) { _ = try fixture.index.remove(from: file.ino, named: ItemName("x"), directory: false) }
        try fixture.remove("d/a")
        try fixture.remove("d", directory: true)
        #expect(try fixture.index.read { try $0.itemCount() } == 0)
        fixture.check()
    }

    @Test func excludedItemIsNeverDirty() throws {
        for name in ["x.swp", "4913", "a~", ".goutputstream-AB12", ".~lock.a.odt#", ".#a", "~$a.docx"] {
            let file = try fixture.file(name)
            #expect(file.isExcluded && file.dirty == [], "\(name)")
        }
        let folder = try fixture.directory("build.nosync")
        let inside = try fixture.file("build.nosync/a.txt")
        let deep = try fixture.directory("build.nosync/d")
        let deeper = try fixture.symlink("build.nosync/d/l", "x")
        for row in [folder, inside, deep, deeper] { #expect(row.isExcluded && row.dirty == []) }
        _ = try fixture.index.setAttributes(ino: inside.ino, AttributeChange(mode: 0o600, modifiedAt: .zero))
        try fixture.index.setXattr(ino: inside.ino, Xattr(name: Array("user.a".utf8), value: [1]), .any)
        _ = try fixture.index.noteWriting(
            ino: inside.ino, changed: true, size: 5, modifiedAt: .zero, stillOpen: false)
        #expect(try fixture.index.read { try $0.dirtyCount() } == 0)
        fixture.check()
    }

    @Test func folderTimesFollowTheirEntries() throws {
        try fixture.directory("d")
        try fixture.confirm("d")
        fixture.time.advance()
        try fixture.file("d/a")
        var folder = try fixture.found("d")
        #expect(folder.modifiedAt == fixture.time.now() && folder.changedAt == fixture.time.now())
        #expect(folder.dirty == .times && folder.dirtyBase == Revision(7))
        try fixture.confirm("d")
        fixture.time.advance()
        let modified = folder.modifiedAt
        try fixture.file("d/a~")
        folder = try fixture.found("d")
        #expect(folder.modifiedAt == modified && folder.changedAt == fixture.time.now() && folder.dirty == [])
        fixture.time.advance()
        try fixture.remove("d/a")
        folder = try fixture.found("d")
        #expect(folder.modifiedAt == fixture.time.now() && folder.dirty == .times)
        fixture.time.advance()
        try fixture.file("b")
        let top = try #require(try fixture.row(ino: 1))
        #expect(top.modifiedAt == fixture.time.now() && top.dirty == [])
        fixture.check()
    }

    /// Seed 6600880 of the simulator: no name may lead to a removed file.
    @Test func lostItemIsRemovedWithItsHardLinks() throws {
        try fixture.file("f")
        let file = try fixture.confirm("f")
        try fixture.evict("f")
        _ = try fixture.index.link(ino: file.ino, in: 1, named: ItemName("g"))
        let known = try fixture.confirm("g")
        _ = try fixture.index.link(ino: file.ino, in: 1, named: ItemName("h"))
        let new = try fixture.entry("h")
        try fixture.index.write(.remote) { try $0.giveUp(try #require(try $0.row(id: file.id))) }
        for name in ["f", "g", "h"] { #expect(try fixture.row(name) == nil, "\(name)") }
        fixture.check()
        // The cloud may still have the file: then the name returns with it.
        #expect(try fixture.index.read { try $0.linksWaiting(for: file.id) } == [known.id])
        #expect(try fixture.index.read { try $0.row(id: new.id)?.isDeleted } == true)
    }
}
