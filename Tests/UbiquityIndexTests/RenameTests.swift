import Testing
import UbiquityCore
import UbiquityIndex
import UbiquityTestSupport

@Suite struct RenameTests {
    let fixture: Fixture
    init() throws { fixture = try Fixture() }

    @Test func moveChangesOnlyThePlace() throws {
        try fixture.directory("d")
        try fixture.file("a")
        let file = try fixture.confirm("a")
        try fixture.confirm("d")
        fixture.time.advance()
        let result = try fixture.rename("a", "d/b")
        #expect(result.replaced == nil && result.exchanged == nil)
        let moved = try fixture.found("d/b")
        #expect(moved == result.moved)
        #expect(moved.ino == file.ino && moved.id == file.id && moved.content == file.content)
        #expect(moved.dirty == .place && moved.dirtyBase == Revision(7) && moved.modifiedAt == file.modifiedAt)
        #expect(moved.changedAt == fixture.time.now())
        #expect(try fixture.row("a") == nil)
        #expect(try fixture.found("d").dirty == .times)
        #expect(try fixture.found("d").modifiedAt == fixture.time.now())
        fixture.check()
    }

    @Test func placeholdersAndFoldersMoveWithoutContent() throws {
        try fixture.directory("d")
        try fixture.directory("d/e")
        try fixture.file("d/e/p")
        try fixture.confirm("d/e/p")
        let placeholder = try fixture.evict("d/e/p")
        try fixture.rename("d/e", "e2")
        #expect(try fixture.found("e2/p") == placeholder)
        try fixture.rename("e2/p", "p")
        #expect(try fixture.found("p").contentState == .none)
        fixture.check()
    }

    @Test func ontoItselfDoesNothing() throws {
        try fixture.file("a")
        let file = try fixture.confirm("a")
        #expect(try fixture.rename("a", "a").moved == file)
        #expect(try fixture.rename("a", "a", .exchanging).exchanged == file)
        expect(.alreadyExists) { try fixture.rename("a", "a", .exclusive) }
        #expect(try fixture.found("a") == file)
    }

    @Test func exclusiveRefusesATakenName() throws {
        try fixture.file("a")
        try fixture.file("b")
        expect(.alreadyExists) { try fixture.rename("a", "b", .exclusive) }
        try fixture.rename("a", "c", .exclusive)
        #expect(try fixture.row("c") != nil)
    }

    @Test func invalidRenamesAreRefused() throws {
        try fixture.directory("d")
        try fixture.directory("d/e")
        try fixture.file("f")
        try fixture.directory("full")
        try fixture.file("full/x")
        expect(.notFound) { try fixture.rename("none", "x") }
        expect(.invalid) { try fixture.rename("d", "d/x") }
        expect(.invalid) { try fixture.rename("d", "d/e/x") }
        expect(.isDirectory) { try fixture.rename("f", "d") }
        expect(.notDirectory) { try fixture.rename("d", "f") }
        expect(.directoryNotEmpty) { try fixture.rename("d", "full") }
        expect(.directoryNotEmpty) { try fixture.rename("d/e", "d") }
        expect(.notFound) { try fixture.rename("f", "none", .exchanging) }
        let file = try fixture.found("f")
        expect(.notDirectory) {
            _ = try fixture.index.rename(from: 1, ItemName("d"), to: file.ino, ItemName("x"), .replacing)
        }
        expect(.notFound) {
            _ = try fixture.index.rename(from: 1 << 40, ItemName("d"), to: 1, ItemName("x"), .replacing)
        }
        fixture.check()
    }

    @Test func folderReplacesAnEmptyFolder() throws {
        try fixture.directory("d")
        try fixture.file("d/x")
        let empty = try fixture.directory("empty")
        let result = try fixture.rename("d", "empty")
        #expect(result.replaced?.ino == empty.ino)
        #expect(try fixture.row("empty/x") != nil)
        #expect(try fixture.row("d") == nil)
        #expect(try fixture.index.read { try $0.row(key: empty.key) }?.isDeleted == true)
        fixture.check()
    }

    @Test func filesAreExchanged() throws {
        try fixture.directory("d")
        let a = try fixture.file("a"), b = try fixture.file("d/b")
        try fixture.confirm("a")
        try fixture.confirm("d/b")
        let result = try fixture.rename("a", "d/b", .exchanging)
        #expect(result.moved.ino == a.ino && result.exchanged?.ino == b.ino && result.replaced == nil)
        #expect(try fixture.found("d/b").ino == a.ino)
        #expect(try fixture.found("a").ino == b.ino)
        #expect(try fixture.found("d/b").dirty == .place)
        #expect(try fixture.found("a").dirty == .place)
        fixture.check()
    }

    @Test func itemExchangedIntoAPinnedFolderIsPinned() throws {
        try fixture.directory("p")
        try fixture.file("p/a")
        try fixture.directory("d")
        try fixture.file("d/b")
        let pinned = try fixture.found("p")
        try fixture.index.write(.local) { transaction in
            var next = pinned
            next.flags.insert(.pinned)
            try transaction.update(next, before: pinned)
        }
        try fixture.rename("p/a", "d", .exchanging)
        #expect(try fixture.found("p/a").isPinned && fixture.found("p/a/b").isPinned)
        fixture.check()
    }

    @Test func folderAndFileAreExchanged() throws {
        try fixture.directory("d")
        try fixture.file("d/x")
        let file = try fixture.file("f")
        try fixture.rename("d", "f", .exchanging)
        #expect(try fixture.row("f/x") != nil)
        #expect(try fixture.found("d").ino == file.ino)
        try fixture.directory("e")
        try fixture.rename("e", "f", .exchanging)
        #expect(try fixture.row("e/x") != nil)
        fixture.check()
    }

    @Test func exchangeWithAFolderAboveIsRefused() throws {
        try fixture.directory("d")
        try fixture.directory("d/e")
        try fixture.directory("d/e/f")
        for (one, other) in [("d", "d/e"), ("d/e", "d"), ("d", "d/e/f"), ("d/e/f", "d")] {
            expect(.invalid) { try fixture.rename(one, other, .exchanging) }
        }
        fixture.check()
    }

    @Test func deletedFolderTakesNothing() throws {
        let gone = try fixture.directory("gone")
        try fixture.file("a")
        try fixture.remove("gone", directory: true)
        expect(.notFound) {
            _ = try fixture.index.rename(from: 1, ItemName("a"), to: gone.ino, ItemName("a"), .replacing)
        }
    }
}
