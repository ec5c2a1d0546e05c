import Testing
import UbiquityCore
import UbiquityIndex
@testable import UbiquitySync
import UbiquityTestSupport

@Suite struct SettlerTests {
    // MARK: Order

    @Test func childMayPrecedeItsParents() throws {
        let fixture = try Fixture()
        let outer = Fixture.id(1), inner = Fixture.id(2)
        try fixture.receive(
            fixture.file(3, "f", in: inner), fixture.folder(2, "inner", in: outer), fixture.folder(1, "outer"))
        #expect(try fixture.paths() == ["outer", "outer/inner", "outer/inner/f"])
        #expect(try fixture.waiting == 0)
    }

    @Test func childWaitsForAParentOnALaterPage() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.file(2, "f", in: Fixture.id(1)))
        #expect(try fixture.paths() == [])
        #expect(try fixture.waiting == 1)
        try fixture.receive(fixture.folder(1, "folder", at: 2))
        #expect(try fixture.paths() == ["folder", "folder/f"])
        #expect(try fixture.waiting == 0)
    }

    /// No record of the cloud contains its times, unlike other folders.
    @Test func topFolderChangesWithItsChildren() throws {
        let fixture = try Fixture()
        func times(after change: () throws -> Void) throws -> [Bool] {
            let before = try #require(try fixture.index.row(key: .root))
            fixture.time.advance(.seconds(1))
            try change()
            let after = try #require(try fixture.index.row(key: .root))
            #expect(after.dirty.isEmpty && after.modifiedAt == after.changedAt)
            return [after.modifiedAt > before.modifiedAt, after.modifiedAt == fixture.time.now()]
        }
        let moved = [true, true], same = [false, false]
        #expect(try times { try fixture.receive(fixture.folder(1, "a"), fixture.file(2, "f")) } == moved)
        #expect(try times { try fixture.receive(fixture.file(3, "inner", in: Fixture.id(1))) } == same)
        #expect(try times { try fixture.receive(fixture.file(2, "g", at: 2)) } == moved)
        #expect(try times { try fixture.receive(fixture.file(2, "g", at: 3, version: 2)) } == same)
        #expect(try times { try fixture.receive(fixture.file(2, "g", in: Fixture.id(1), at: 4)) } == moved)
        #expect(try times { try fixture.receive(fixture.file(2, "g", at: 5)) } == moved)
        var deleted = fixture.file(2, "g", at: 6)
        deleted.isDeleted = true
        #expect(try times { try fixture.receive(deleted) } == moved)
    }

    /// Seed 120023234 of the simulator: a local folder was merged with the cloud's, whose record is staged.
    @Test func childWaitsForAStagedParent() throws {
        let fixture = try Fixture()
        let folder = fixture.folder(1, "folder"), child = fixture.folder(2, "child", in: folder.id, at: 2)
        try fixture.receive(fixture.folder(3, "folder"), fixture.folder(2, "child", in: Fixture.id(3)))
        try fixture.index.write(.remote) { transaction in
            var settler = Settler(transaction, owner: (0, 0), now: fixture.time.now())
            try settler.hold(folder)
            try settler.receive(child)
            let row = try #require(try transaction.row(id: Fixture.id(3)))
            var next = row
            next.id = folder.id
            try transaction.update(next, before: row)
            try transaction.forgetRemote(Fixture.id(3))
            try settler.review(folder.id)
        }
        #expect(try fixture.waiting == 1)
        try fixture.index.write(.remote) { transaction in
            var settler = Settler(transaction, owner: (0, 0), now: fixture.time.now())
            try settler.release([folder.id])
        }
        #expect(try fixture.waiting == 0)
        #expect(try fixture.paths() == ["folder", "folder/child"])
    }

    /// Seeds 130022794 and 160033647 of the simulator: the package's other state won. The cloud waits for one of its
    /// contents that is only here, or for one that changed before its upload.
    @Test(arguments: [(false, false), (true, false), (false, true)])
    func contentAwaitedByCloudIsKept(isUnheard: Bool, isChanged: Bool) throws {
        let fixture = try Fixture()
        let package = fixture.folder(1, "d.rtfd")
        var file = fixture.file(2, "f", in: package.id)
        file.content?.isAvailable = false
        try fixture.receive(package, file)
        let content = try #require(try fixture.materialize("d.rtfd/f").content)
        try fixture.index.write(.remote) { transaction in
            let row = try #require(try transaction.row(id: file.id))
            var next = row
            next.dirty = isUnheard ? [.content, .created, .mode] : [.content, .mode]
            next.dirtyOrder = try transaction.newDirtyOrder()
            next.nextVersion = isChanged ? Fixture.version(2) : file.content?.version
            try transaction.update(next, before: row)
            let key = try #require(try transaction.row(id: package.id)).key
            let meeting = try #require(try transaction.meeting(of: key, fixture.index))
            let settler = Settler(transaction, owner: (0, 0), now: fixture.time.now())
            var reversal = PackageReversal(settler, device: DeviceID(high: 1, low: 1))
            try reversal.revert(meeting, holding: [])
            #expect(reversal.settler.dropped.isEmpty)
        }
        let row = try fixture.found("d.rtfd/f")
        #expect(row.content == content && row.contentState == .complete)
        #expect(row.dirty == .content && row.nextVersion == (isChanged ? Fixture.version(2) : file.content?.version))
    }

    @Test func olderRecordChangesNothing() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.file(1, "new", at: 5))
        try fixture.receive(fixture.file(1, "old", at: 4))
        #expect(try fixture.paths() == ["new"])
    }

    @Test func repeatedRecordChangesNothing() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.file(1, "a", at: 5))
        let row = try fixture.found("a")
        try fixture.receive(fixture.file(1, "a", at: 5))
        #expect(try fixture.found("a") == row)
    }

    // MARK: Names

    @Test(arguments: [false, true]) func twoItemsSwapTheirNames(reversed: Bool) throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.file(1, "a"), fixture.file(2, "b"))
        let moves = [fixture.file(1, "b", at: 2), fixture.file(2, "a", at: 2)]
        try fixture.receive(moves[reversed ? 1 : 0], moves[reversed ? 0 : 1])
        #expect(try fixture.found("a").id == Fixture.id(2))
        #expect(try fixture.found("b").id == Fixture.id(1))
        #expect(try fixture.waiting == 0)
    }

    @Test func threeItemsChangeNamesInACircle() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.folder(1, "a"), fixture.folder(2, "b"), fixture.folder(3, "c"))
        try fixture.receive(fixture.folder(1, "b", at: 2), fixture.folder(2, "c", at: 2), fixture.folder(3, "a", at: 2))
        #expect(try ["a", "b", "c"].map { try fixture.found($0).id } == [3, 1, 2].map(Fixture.id))
    }

    /// Seed 6600880 of the simulator: the file's deletion is being sent, and the cloud may refuse it.
    @Test func nameWaitsForItsFilesReturn() throws {
        let fixture = try Fixture()
        let link = RemoteItem(
            id: Fixture.id(2), kind: .hardLink, revision: Revision(1), parent: .root, name: try ItemName("b"), mode: 0o644,
            createdAt: .zero, modifiedAt: .zero, linkTarget: Fixture.id(1).bytes)
        try fixture.receive(fixture.file(1, "a"), link)
        try fixture.index.write(.remote) { try $0.giveUp(try #require(try $0.row(id: Fixture.id(1)))) }
        try fixture.receive(fixture.file(1, "a", at: 2, version: 2))
        #expect(try fixture.paths() == [])
        try fixture.index.write(.remote) { transaction in
            try transaction.delete(try #require(try transaction.row(id: Fixture.id(1))))
            var settler = Settler(transaction, owner: (0, 0), now: fixture.time.now())
            try settler.review(Fixture.id(1))
        }
        try fixture.check()
        #expect(try fixture.paths() == ["a", "b"])
        #expect(try fixture.found("a").isLinked)
        #expect(try fixture.waiting == 0)
    }

    /// Seed 15004100 of the simulator: a power loss dropped the record that an excluded file was included and uploaded,
    /// and another device has given it a link.
    @Test(arguments: [false, true]) func nameWaitsForItsFileBesideAnExcludedOne(isInOnePage: Bool) throws {
        let fixture = try Fixture()
        _ = try fixture.make(".a.swp")
        try fixture.index.write(.remote) { transaction in
            let before = try #require(try transaction.child(of: .root, named: try ItemName(".a.swp")))
            #expect(before.isExcluded)
            var row = before
            row.id = Fixture.id(1)
            try transaction.update(row, before: before)
        }
        let link = RemoteItem(
            id: Fixture.id(2), kind: .hardLink, revision: Revision(1), parent: .root, name: try ItemName("b"), mode: 0o644,
            createdAt: .zero, modifiedAt: .zero, linkTarget: Fixture.id(1).bytes)
        let file = fixture.file(1, "a", at: 2)
        if isInOnePage {
            try fixture.receive(link, file)
        } else {
            try fixture.receive(link)
            try fixture.receive(file)
        }
        try fixture.check()
        #expect(try fixture.paths() == [".a.swp", "a", "b"])
        #expect(try fixture.found("a").isLinked && !fixture.found(".a.swp").isLinked)
        #expect(try fixture.waiting == 0)
    }

    @Test func nameClashWithANewItemIsLeftToTheCloud() throws {
        let fixture = try Fixture()
        let local = try fixture.make("a")
        try fixture.receive(fixture.file(1, "a"))
        #expect(try fixture.found("a").key == local.key)
        #expect(try fixture.waiting == 1)
    }

    @Test func deletionFreesTheNameForTheNextItem() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.file(1, "a"))
        var gone = fixture.file(1, "a", at: 2)
        gone.isDeleted = true
        try fixture.receive(fixture.file(2, "a", at: 2), gone)
        #expect(try fixture.found("a").id == Fixture.id(2))
        #expect(try fixture.waiting == 0)
    }

    // MARK: Excluded items

    private func deleted(_ item: RemoteItem, at revision: Int64 = 2) -> RemoteItem {
        var item = item
        item.isDeleted = true
        item.revision = Revision(revision)
        return item
    }

    @Test func deletedFolderStaysForExcludedItems() throws {
        let fixture = try Fixture()
        let outer = fixture.folder(1, "outer"), inner = fixture.folder(2, "inner", in: Fixture.id(1))
        try fixture.receive(outer, inner, fixture.file(3, "f", in: Fixture.id(2)))
        try fixture.make("outer/inner/a~")
        try fixture.receive(deleted(outer), deleted(inner), deleted(fixture.file(3, "f", in: Fixture.id(2))))
        #expect(try fixture.paths() == ["outer", "outer/inner", "outer/inner/a~"] && fixture.waiting == 0)
        let (folder, name) = try fixture.place("outer/inner/a~")
        _ = try fixture.index.remove(from: folder, named: name, directory: false)
        for _ in 0..<2 {
            try fixture.index.write(.remote) {
                try Settler($0, owner: (0, 0), now: .zero).removeLingering(limit: 10)
            }
        }
        #expect(try fixture.paths() == [])
        try fixture.check()
    }

    @Test func recreatedFolderKeepsExcludedItems() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.folder(1, "folder"))
        try fixture.make("folder/a~")
        try fixture.receive(deleted(fixture.folder(1, "folder")))
        try fixture.receive(fixture.folder(2, "folder", at: 3), fixture.file(3, "new", in: Fixture.id(2), at: 3))
        #expect(try fixture.paths() == ["folder", "folder/a~", "folder/new"] && fixture.waiting == 0)
        #expect(try fixture.found("folder").id == Fixture.id(2))
    }

    @Test func restoredFolderIsOrdinaryAgain() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.folder(1, "folder"))
        try fixture.make("folder/a~")
        try fixture.receive(deleted(fixture.folder(1, "folder")))
        #expect(try fixture.found("folder").flags.contains(.lingering))
        try fixture.receive(fixture.folder(1, "folder", at: 3))
        #expect(try !fixture.found("folder").flags.contains(.lingering) && fixture.waiting == 0)
    }

    /// Seed 442524750 of the simulator: a change in it restores the folder, and the commit's answer contains only the
    /// folder. By then another folder has its name.
    @Test(arguments: [false, true]) func restoredFolderStaysSeparateFromItsNamesake(answerComesLater: Bool) throws {
        let fixture = try Fixture()
        let outer = fixture.folder(1, "outer"), inner = fixture.folder(2, "inner", in: outer.id)
        try fixture.receive(outer, inner)
        try fixture.make("outer/inner/a~")
        try fixture.receive(deleted(outer), deleted(inner))
        let answer = fixture.folder(2, "inner", in: outer.id, at: 5), other = fixture.folder(3, "outer", at: 4)
        if answerComesLater { try fixture.receive(other, answer) } else { try fixture.receive(answer, other) }
        try fixture.receive(fixture.folder(1, "outer 2", at: 5))
        #expect(try fixture.paths() == ["outer", "outer 2", "outer 2/inner", "outer 2/inner/a~"])
        #expect(try fixture.found("outer").id == other.id && fixture.found("outer 2").id == outer.id)
        #expect(try fixture.waiting == 0)
    }

    /// The file waits for the name, the folder for the file's departure.
    @Test func fileGetsTheNameOfItsDeletedFolder() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.folder(1, "name"), fixture.file(2, "f", in: Fixture.id(1)))
        try fixture.make("name/a~")
        try fixture.receive(deleted(fixture.folder(1, "name")), fixture.file(2, "name", at: 2))
        #expect(try fixture.found("name").id == Fixture.id(2))
        #expect(try fixture.paths() == ["name", "name 2", "name 2/a~"] && fixture.waiting == 0)
        #expect(try fixture.found("name 2").flags.contains(.lingering))
        try fixture.check()
    }

    // MARK: Folders

    @Test func folderMovesIntoItsFormerChild() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.folder(1, "a"), fixture.folder(2, "b", in: Fixture.id(1)))
        // The cloud moved b to the top, then a into b; the feed brings a first.
        try fixture.receive(fixture.folder(1, "a", in: Fixture.id(2), at: 3), fixture.folder(2, "b", at: 2))
        #expect(try fixture.paths() == ["b", "b/a"])
        #expect(try fixture.waiting == 0)
    }

    @Test func localMoveLosesToTheOppositeRemoteMove() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.folder(1, "a"), fixture.folder(2, "b"))
        try fixture.rename("a", "b/a")
        try fixture.receive(fixture.folder(2, "b", in: Fixture.id(1), at: 2))
        #expect(try fixture.paths() == ["a", "a/b"])
        #expect(try fixture.waiting == 0)
        #expect(try !fixture.found("a").dirty.contains(.place))
    }

    @Test func localMoveIsNotOverwritten() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.folder(1, "folder"), fixture.file(2, "f"))
        try fixture.rename("f", "folder/f")
        try fixture.receive(fixture.file(2, "other", at: 2))
        #expect(try fixture.paths() == ["folder", "folder/f"])
    }

    // MARK: Deletions

    private func gone(_ item: RemoteItem) -> RemoteItem {
        var item = item
        item.isDeleted = true
        return item
    }

    @Test func folderIsDeletedWithChildrenInAnyOrder() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.folder(1, "a"), fixture.folder(2, "b", in: Fixture.id(1)))
        try fixture.receive(fixture.file(3, "f", in: Fixture.id(2)))
        try fixture.receive(
            gone(fixture.folder(1, "a", at: 2)), gone(fixture.folder(2, "b", in: Fixture.id(1), at: 2)),
            gone(fixture.file(3, "f", in: Fixture.id(2), at: 2)))
        #expect(try fixture.paths() == [])
        #expect(try fixture.waiting == 0)
    }

    /// The folder cannot be removed while it contains the child, and the child cannot leave while the folder has the
    /// name.
    @Test(arguments: [false, true]) func childTakesTheNameOfItsDeletedFolder(reversed: Bool) throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.folder(1, "a"), fixture.folder(2, "b", in: Fixture.id(1)))
        let news = [gone(fixture.folder(1, "a", at: 2)), fixture.folder(2, "a", at: 2)]
        try fixture.receive(news[reversed ? 1 : 0], news[reversed ? 0 : 1])
        #expect(try fixture.paths() == ["a"])
        #expect(try fixture.found("a").id == Fixture.id(2))
        #expect(try fixture.waiting == 0)
    }

    /// A new item in a deleted folder keeps the folder, and its name, until the cloud has decided.
    @Test func deletedFolderWithANewItemKeepsItsName() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.folder(1, "a"), fixture.folder(2, "b"))
        try fixture.make("a/new")
        try fixture.receive(gone(fixture.folder(1, "a", at: 2)), fixture.folder(2, "a", at: 2))
        #expect(try fixture.paths() == ["a", "a/new", "b"])
        #expect(try fixture.found("a").id == Fixture.id(1))
    }

    @Test func folderWithANewItemStays() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.folder(1, "a"))
        try fixture.make("a/new")
        try fixture.receive(gone(fixture.folder(1, "a", at: 2)))
        #expect(try fixture.paths() == ["a", "a/new"])
    }

    @Test func editWinsOverADeletion() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.file(1, "f"))
        try fixture.materialize("f")
        try fixture.edit("f")
        try fixture.receive(gone(fixture.file(1, "f", at: 2)))
        #expect(try fixture.found("f").dirty.contains(.content))
    }

    @Test func openWriterKeepsADeletedFile() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.file(1, "f"))
        let row = try fixture.materialize("f")
        _ = try fixture.index.beginWriting(ino: row.ino)
        try fixture.receive(gone(fixture.file(1, "f", at: 2)))
        #expect(try fixture.paths() == ["f"])
        _ = try fixture.index.noteWriting(ino: row.ino, changed: false, size: 10, modifiedAt: .zero, stillOpen: false)
        try fixture.receive()
        #expect(try fixture.paths() == [])
    }

    @Test func localRenameDoesNotPreventARemoteDeletion() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.file(1, "f"))
        try fixture.rename("f", "g")
        try fixture.receive(gone(fixture.file(1, "f", at: 2)))
        #expect(try fixture.paths() == [])
    }

    // MARK: Content

    @Test func placeholderShowsTheNewestVersion() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.file(1, "f", version: 1, size: 10))
        try fixture.receive(fixture.file(1, "f", at: 2, version: 2, size: 20))
        let row = try fixture.found("f")
        #expect(row.size == 20)
        #expect(row.version == Fixture.version(2))
        #expect(try fixture.waiting == 0)
    }

    @Test func contentStaysUntilTheNextIsDownloaded() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.file(1, "f", version: 1, size: 10))
        let row = try fixture.materialize("f")
        try fixture.receive(fixture.file(1, "f", at: 2, version: 2, size: 20))
        #expect(try fixture.found("f").size == 10)
        #expect(try fixture.found("f").content == row.content)
        #expect(try fixture.index.read { try $0.records(.awaitingContent, limit: 10) } == [Fixture.id(1)])
    }

    @Test func oldPartialContentIsDroppedWithANewInode() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.file(1, "f", version: 1, size: 10))
        let row = try fixture.materialize("f")
        try fixture.index.write(.remote) { transaction in
            var next = row
            next.contentState = .partial
            try transaction.update(next, before: row)
        }
        try fixture.receive(fixture.file(1, "f", at: 2, version: 2, size: 20))
        let after = try fixture.found("f")
        #expect(after.content == nil)
        #expect(after.ino != row.ino)
    }

    @Test func versionsFolderNameIsNeverShown() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.folder(1, "d"), fixture.folder(2, ".versions", in: Fixture.id(1)))
        try fixture.receive(fixture.file(3, ".versions"), fixture.file(4, "in", in: Fixture.id(2)))
        #expect(try fixture.paths() == ["d"])
        try fixture.receive(fixture.folder(2, "renamed", in: Fixture.id(1), at: 5))
        #expect(try fixture.paths() == ["d", "d/renamed", "d/renamed/in"])
    }
}
