import Testing
import UbiquityCore
import UbiquityIndex
import UbiquityTestSupport

/// Saving by rename, and moves between synced and excluded places.
@Suite struct SavingTests {
    let fixture: Fixture
    init() throws { fixture = try Fixture() }

    private func xattr(_ name: String, _ value: String) -> Xattr {
        Xattr(name: Array(name.utf8), value: Array(value.utf8))
    }

    @Test func fileRenamedOverADocumentIsItsNewContent() throws {
        try fixture.file("doc")
        try fixture.index.setXattr(ino: fixture.found("doc").ino, xattr("user.tag", "red"), .any)
        let document = try fixture.confirm("doc")
        let temporary = try fixture.file(".goutputstream-XY", mode: 0o600)
        _ = try fixture.index.noteWriting(
            ino: temporary.ino, changed: true, size: 12, modifiedAt: Timestamp(seconds: 5, nanoseconds: 5),
            stillOpen: false)
        fixture.time.advance()
        let result = try fixture.rename(".goutputstream-XY", "doc")
        let saved = try fixture.found("doc")
        #expect(result.moved == saved)
        #expect(result.replaced == document)
        #expect(saved.key == document.key && saved.id == document.id && saved.version == document.version)
        #expect(saved.xattrs == document.xattrs && saved.createdAt == document.createdAt)
        #expect(saved.ino == temporary.ino && saved.content == temporary.content && saved.mode == 0o600)
        #expect(saved.size == 12 && saved.modifiedAt == Timestamp(seconds: 5, nanoseconds: 5))
        #expect(saved.dirty == [.content, .times, .mode] && saved.dirtyBase == Revision(7))
        #expect(saved.generation == document.generation + 1)
        #expect(try fixture.row(ino: document.ino) == nil)
        #expect(try fixture.index.read { try $0.row(key: temporary.key) } == nil)
        #expect(try fixture.index.row(ino: temporary.ino) == saved)
        fixture.check()
    }

    /// The same transaction records the written content, whatever becomes of the file.
    @Test(arguments: [(false, RenameMode.replacing), (true, .replacing), (true, .exchanging)], [false, true])
    func renameRecordsEarlierWrites(_ way: (takesPlace: Bool, mode: RenameMode), stillOpen: Bool) throws {
        try fixture.file("written")
        let written = try fixture.confirm("written", revision: 3)
        if way.takesPlace {
            try fixture.file("other")
            try fixture.confirm("other", revision: 4)
        }
        _ = try fixture.index.beginWriting(ino: written.ino)
        fixture.time.advance()
        let time = Timestamp(seconds: 5, nanoseconds: 5)
        let note = WritingNote(
            ino: written.ino, isChange: true, size: 12, modifiedAt: time, changedAt: time, stillOpen: stillOpen)
        _ = try fixture.index.rename(
            from: 1, ItemName("written"), to: 1, ItemName("other"), way.mode, noting: note)
        let moved = try fixture.found("other")
        #expect(moved.ino == written.ino && moved.size == 12 && moved.modifiedAt == time)
        #expect(moved.isWriting == stillOpen)
        #expect(moved.dirty.isSuperset(of: [.content, .times]))
        #expect(moved.dirty.contains(.place) == (!way.takesPlace || way.mode == .exchanging))
        #expect(try fixture.index.read { try $0.row(ino: written.ino) } == moved)
        fixture.check()
    }

    @Test func failedRenameRecordsNothing() throws {
        let written = try fixture.file("written")
        try fixture.directory("folder")
        let note = WritingNote(
            ino: written.ino, isChange: true, size: 12, modifiedAt: .zero, changedAt: .zero, stillOpen: false)
        #expect(throws: UbiquityError.self) {
            try fixture.index.rename(
                from: 1, ItemName("written"), to: 1, ItemName("folder"), .replacing, noting: note)
        }
        #expect(try fixture.found("written") == written)
        fixture.check()
    }

    @Test func documentRenamedOverAnotherIsDeletedAtTheCloud() throws {
        try fixture.file("a")
        try fixture.file("b")
        let a = try fixture.confirm("a", revision: 3), b = try fixture.confirm("b", revision: 4)
        try fixture.rename("a", "b")
        let tombstone = try #require(try fixture.index.read { try $0.row(id: a.id) })
        #expect(tombstone.isDeleted && tombstone.dirtyBase == Revision(3) && tombstone.content == nil)
        let saved = try fixture.found("b")
        #expect(saved.id == b.id && saved.ino == a.ino && saved.content == a.content && tombstone.ino != a.ino)
        #expect(saved.dirtyBase == Revision(4))
        fixture.check()
    }

    @Test func attributesOfBothAreKept() throws {
        let target = try fixture.file("doc")
        try fixture.index.setXattr(ino: target.ino, xattr("user.a", "old"), .any)
        try fixture.index.setXattr(ino: target.ino, xattr("user.b", "old"), .any)
        for name in ["security.x", "security.capability"] {
            try fixture.index.setXattr(ino: target.ino, xattr(name, "old"), .any)
        }
        try fixture.confirm("doc")
        let source = try fixture.file("new")
        try fixture.index.setXattr(ino: source.ino, xattr("user.b", "new"), .any)
        try fixture.index.setXattr(ino: source.ino, xattr("security.x", "new"), .any)
        try fixture.index.setXattr(ino: source.ino, xattr("security.y", "new"), .any)
        let saved = try fixture.rename("new", "doc").moved
        #expect(saved.xattrs == [xattr("user.a", "old"), xattr("user.b", "new")])
        #expect(saved.dirty.contains(.xattrs))
        #expect(saved.localXattrs == [xattr("security.x", "new"), xattr("security.y", "new")])
    }

    @Test func tooManyJoinedAttributesKeepTheNewOnes() throws {
        let half = Limits.maximumXattrBytes / 2 + 100
        let target = try fixture.file("doc"), source = try fixture.file("new")
        let old = Xattr(name: Array("user.a".utf8), value: [UInt8](repeating: 1, count: half))
        let new = Xattr(name: Array("user.b".utf8), value: [UInt8](repeating: 2, count: half))
        try fixture.index.setXattr(ino: target.ino, old, .any)
        try fixture.index.setXattr(ino: source.ino, new, .any)
        #expect(try fixture.rename("new", "doc").moved.xattrs == [new])
    }

    @Test func savingEndsAnOldDownloadRequest() throws {
        try fixture.file("doc")
        try fixture.confirm("doc")
        let placeholder = try fixture.evict("doc")
        try fixture.index.write(.local) { transaction in
            var row = placeholder
            row.flags.formUnion([.downloadRequested, .pinned])
            try transaction.update(row, before: placeholder)
        }
        try fixture.file("new", isWriting: true)
        let saved = try fixture.rename("new", "doc").moved
        #expect(saved.flags == [.pinned, .keptCurrent, .writing, .madeHere] && saved.contentState == .complete)
        fixture.check()
    }

    @Test func placeholderReplacesTheWholeItem() throws {
        try fixture.file("p")
        try fixture.confirm("p")
        let source = try fixture.evict("p")
        try fixture.file("doc")
        let target = try fixture.confirm("doc")
        let result = try fixture.rename("p", "doc")
        #expect(result.moved.id == source.id && result.replaced == target)
        #expect(try fixture.index.read { try $0.row(id: target.id) }?.isDeleted == true)
        fixture.check()
    }

    @Test func leavingSyncDeletesAtTheCloudAndChangesTheIdentity() throws {
        try fixture.file("doc")
        let document = try fixture.confirm("doc")
        try fixture.index.write(.local) { transaction in
            try transaction.setContent(
                ContentRecord(
                    content: try #require(document.content), version: try #require(document.version), size: 0,
                    manifest: [], unsyncedBoot: nil))
        }
        let kept = try fixture.rename("doc", "doc.nosync").moved
        #expect(kept.ino == document.ino && kept.content == document.content && kept.key == document.key)
        #expect(kept.id != document.id && kept.version == nil && kept.isExcluded && kept.dirty == [])
        let tombstone = try #require(try fixture.index.read { try $0.row(id: document.id) })
        #expect(tombstone.isDeleted && tombstone.dirtyBase == Revision(7))
        // Later writes belong to no version, so nothing may be compared with the old version's chunks.
        #expect(try fixture.index.read { try $0.contentRecord(document.content ?? ContentID(0)) } == nil)
        fixture.check()
    }

    @Test func enteringSyncCreatesTheItem() throws {
        let draft = try fixture.file("draft~")
        let row = try fixture.rename("draft~", "draft").moved
        #expect(row.ino == draft.ino && row.dirty == [.created, .content] && !row.isExcluded && row.dirtyBase == .zero)
        try fixture.symlink("l~", "x")
        #expect(try fixture.rename("l~", "l").moved.dirty == .created)
        fixture.check()
    }

    @Test func syncedFileStaysSyncedUnderAnIgnoredName() throws {
        try fixture.directory("d")
        try fixture.file("d/p")
        let folder = try fixture.confirm("d")
        try fixture.confirm("d/p")
        let placeholder = try fixture.evict("d/p")
        let moved = try fixture.rename("d/p", "d/p~").moved
        #expect(moved.id == placeholder.id && !moved.isExcluded && moved.dirty == .place)
        #expect(try fixture.rename("d", "d~").moved.id == folder.id)
        #expect(try !fixture.file("d~/new").isExcluded)
        fixture.check()
    }

    @Test func foldersAndPlaceholdersDoNotLeaveSync() throws {
        try fixture.directory("d")
        try fixture.directory("x.nosync")
        try fixture.file("p")
        try fixture.confirm("p")
        try fixture.evict("p")
        expect(.crossesContainers) { try fixture.rename("d", "d.nosync") }
        expect(.crossesContainers) { try fixture.rename("d", "x.nosync/d") }
        expect(.crossesContainers) { try fixture.rename("p", "x.nosync/p") }
        try fixture.file("f")
        try fixture.file("x.nosync/g")
        expect(.crossesContainers) { try fixture.rename("f", "x.nosync/g", .exchanging) }
        expect(.crossesContainers) { try fixture.rename("x.nosync/g", "f", .exchanging) }
        try fixture.rename("f", "x.nosync/f")
        try fixture.rename("x.nosync/g", "g")
        fixture.check()
    }

    @Test func folderEntersSyncWithItsMembers() throws {
        try fixture.directory("x.nosync")
        try fixture.directory("x.nosync/in")
        try fixture.file("x.nosync/in/f")
        try fixture.file("x.nosync/in/f~")
        try fixture.rename("x.nosync/in", "in")
        #expect(try fixture.found("in").dirty == .created)
        #expect(try fixture.found("in/f").dirty == [.created, .content])
        #expect(try fixture.found("in/f~").isExcluded)
        try fixture.rename("x.nosync", "x")
        #expect(try fixture.found("x").dirty == .created)
        fixture.check()
    }

    @Test func formerFolderOfADocumentIsTouched() throws {
        try fixture.directory("d")
        try fixture.file("d/doc")
        try fixture.confirm("d")
        try fixture.confirm("d/doc")
        try fixture.rename("d/doc", "d/doc.nosync")
        #expect(try fixture.found("d").dirty == .times)
        try fixture.confirm("d")
        try fixture.rename("d/doc.nosync", "d/doc.swp")
        #expect(try fixture.found("d").dirty == [])
        try fixture.rename("d/doc.swp", "d/doc")
        #expect(try fixture.found("d").dirty == .times)
    }
}
