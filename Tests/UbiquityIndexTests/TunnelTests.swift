import Testing
import UbiquityCore
import UbiquityIndex
import UbiquityTestSupport

/// Saving by releasing a name and using it again: the name keeps its document.
@Suite struct TunnelTests {
    let fixture: Fixture
    init() throws { fixture = try Fixture() }

    /// A document that the cloud knows, with an attribute.
    private func document(_ name: String = "doc") throws -> ItemRow {
        try fixture.file(name)
        let tag = Xattr(name: Array("user.tag".utf8), value: [1])
        try fixture.index.setXattr(ino: fixture.found(name).ino, tag, .any)
        return try fixture.confirm(name)
    }

    private func write(_ name: String, size: Int64) throws {
        fixture.time.advance()
        _ = try fixture.index.noteWriting(
            ino: fixture.found(name).ino, changed: true, size: size, modifiedAt: fixture.time.now(), stillOpen: false)
    }

    private func expectNextVersion(
        of document: ItemRow, at name: String = "doc", _ location: SourceLocation = #_sourceLocation
    ) throws {
        let saved = try fixture.found(name, location)
        #expect(saved.key == document.key && saved.id == document.id, sourceLocation: location)
        #expect(saved.version == document.version && saved.xattrs == document.xattrs, sourceLocation: location)
        #expect(saved.createdAt == document.createdAt && saved.dirty.contains(.content), sourceLocation: location)
        #expect(saved.contentState == .complete && saved.content != document.content, sourceLocation: location)
        fixture.check(location)
    }

    // MARK: A recently renamed document

    @Test(arguments: ["doc~", "doc.bak"]) func renamedDocumentIsSavedUnderItsNewName(_ backup: String) throws {
        let document = try document("before")
        try fixture.rename("before", "doc", process: 1)
        try fixture.rename("doc", backup, process: 2)
        try fixture.file("doc", isWriting: true, process: 2)
        try write("doc", size: 9)
        try fixture.remove(backup, process: 2)
        try expectNextVersion(of: document)
        #expect(!fixture.index.isHeld(document.key))
        #expect(try fixture.file("before").id != document.id)
    }

    /// Renamed to and fro, it is as if nothing had happened.
    @Test func documentBackAtAFormerNameGivesNothingUp() throws {
        let document = try document("first")
        try fixture.rename("first", "second", process: 1)
        try fixture.rename("second", "third", process: 1)
        try fixture.rename("third", "first", process: 1)
        for name in ["second", "third"] { #expect(try fixture.file(name, process: 1).id != document.id) }
        #expect(try fixture.found("first").id == document.id)
    }

    // MARK: The backup's name is ignored

    @Test func fileCreatedAtABackedUpNameIsTheNextVersion() throws {
        let document = try document()
        try fixture.rename("doc", "doc~")
        #expect(fixture.index.isHeld(document.key))
        let made = try fixture.file("doc", isWriting: true)
        #expect(made.isFresh && made.isWriting && !fixture.index.isHeld(document.key))
        try write("doc", size: 9)
        try expectNextVersion(of: document)
        #expect(try !fixture.found("doc").isFresh)
        let backup = try fixture.found("doc~")
        #expect(backup.isExcluded && backup.id != document.id && backup.dirty == [])
        #expect(backup.ino == document.ino && backup.content == document.content && backup.xattrs == document.xattrs)
        try fixture.remove("doc~")
        try expectNextVersion(of: document)
        #expect(try fixture.index.read { try $0.dirtyRows(after: 0, limit: 9) }.map(\.id) == [document.id])
    }

    @Test func fileRenamedToABackedUpNameIsTheNextVersion() throws {
        let document = try document()
        let temporary = try fixture.file("temporary")
        try write("temporary", size: 4)
        try fixture.rename("doc", "doc~")
        try fixture.rename("temporary", "doc")
        try expectNextVersion(of: document)
        #expect(try fixture.found("doc").content == temporary.content && fixture.found("doc").size == 4)
        #expect(try fixture.found("doc~").isExcluded)
        #expect(try fixture.index.read { try $0.row(id: temporary.id) }?.isDeleted == true)
    }

    /// Created and edited without the cloud, for example. The creation may be dropped silently meanwhile.
    @Test(arguments: [true, false]) func unsentDocumentKeepsItsIdentity(_ isForgotten: Bool) throws {
        try fixture.file("doc")
        let tag = Xattr(name: Array("user.tag".utf8), value: [1])
        try fixture.index.setXattr(ino: fixture.found("doc").ino, tag, .any)
        let document = try fixture.found("doc")
        try fixture.rename("doc", "doc~")
        #expect(try fixture.found("doc~").isExcluded)
        if isForgotten {
            try fixture.index.write(.remote) { transaction in
                try transaction.delete(try #require(try transaction.row(id: document.id)))
            }
        }
        try fixture.file("doc")
        let saved = try fixture.found("doc")
        #expect(saved.id == document.id && saved.xattrs == document.xattrs)
        #expect(saved.dirty.isSuperset(of: [.created, .content]) && !saved.dirty.contains(.deleted))
        #expect(try fixture.found("doc~").content == document.content && fixture.found("doc~").isExcluded)
        fixture.check()
    }

    @Test func unsentDocumentStaysPinned() throws {
        let new = try fixture.file("doc")
        try fixture.index.write(.local) { transaction in
            var row = new
            row.flags.insert(.pinned)
            try transaction.update(row, before: new)
        }
        try fixture.rename("doc", "doc~")
        try fixture.file("doc")
        #expect(try fixture.found("doc").isPinned)
    }

    @Test func unsentDocumentRenamedBackIsNotTunnelled() throws {
        let document = try fixture.file("doc")
        try fixture.rename("doc", "doc~")
        try fixture.rename("doc~", "doc")
        let back = try fixture.found("doc")
        #expect(back.content == document.content && !fixture.index.isHeld(back.key))
        try fixture.rename("doc", "other")
        #expect(try fixture.file("doc").id != back.id)
        #expect(try fixture.index.read { try $0.row(id: document.id) }?.entry == nil)
        fixture.check()
    }

    @Test func itemLeavingSyncKeepsItsIdentity() throws {
        let document = try document()
        try fixture.rename("doc", "doc~", process: 1)
        try fixture.rename("doc~", "x.nosync", process: 1)
        #expect(try fixture.file("doc", process: 2).id != document.id)
        fixture.check()
    }

    @Test func olderBackupIsReplaced() throws {
        let document = try document()
        try fixture.file("doc~")
        for size in 1...3 {
            try fixture.rename("doc", "doc~")
            try fixture.file("doc")
            try write("doc", size: Int64(size))
        }
        try expectNextVersion(of: document)
        #expect(try fixture.found("doc~").size == 2)
    }

    @Test func failedSaveRestoresTheBackup() throws {
        let document = try document()
        try fixture.rename("doc", "doc~")
        try fixture.file("doc")
        try fixture.rename("doc~", "doc")
        let saved = try fixture.found("doc")
        #expect(saved.id == document.id && saved.key == document.key && saved.content == document.content)
        #expect(try fixture.row("doc~") == nil)
        fixture.check()
    }

    @Test func revertedRenameIsNotTunnelled() throws {
        let document = try document()
        try fixture.rename("doc", "doc~")
        try fixture.rename("doc~", "doc")
        #expect(!fixture.index.isHeld(document.key))
        #expect(try fixture.found("doc").id == document.id)
    }

    @Test func backupAfterTheWindowIsARename() throws {
        let document = try document()
        try fixture.rename("doc", "doc~")
        #expect(fixture.index.timeUntilHoldEnds() == .seconds(15))
        fixture.time.advance(seconds: 15)
        #expect(!fixture.index.isHeld(document.key) && fixture.index.timeUntilHoldEnds() == nil)
        let made = try fixture.file("doc")
        #expect(made.id != document.id && made.xattrs == [])
        let renamed = try fixture.found("doc~")
        #expect(renamed.id == document.id && renamed.dirty == .place && !renamed.isExcluded)
        fixture.check()
    }

    @Test func placeholderIsNoBackup() throws {
        let document = try document()
        try fixture.evict("doc")
        try fixture.rename("doc", "doc~")
        #expect(try fixture.file("doc").id != document.id)
        #expect(try fixture.found("doc~").id == document.id)
        try fixture.remove("doc~")
        try expectNextVersion(of: document)
    }

    @Test func folderAtTheNameIsNoNextVersion() throws {
        let document = try document()
        try fixture.rename("doc", "doc~")
        #expect(try fixture.directory("doc").id != document.id)
        #expect(try fixture.found("doc~").id == document.id)
        fixture.check()
    }

    @Test func unsentEditIsInTheBackupAndTheBaseStays() throws {
        let document = try document()
        try write("doc", size: 3)
        try fixture.rename("doc", "doc~")
        try fixture.file("doc")
        try write("doc", size: 5)
        let saved = try fixture.found("doc")
        #expect(saved.id == document.id && saved.version == document.version && saved.size == 5)
        #expect(try fixture.found("doc~").size == 3)
        fixture.check()
    }

    @Test func backupOfAnyNameByOneProcessMakesTheNextVersion() throws {
        let document = try document()
        try fixture.rename("doc", "doc.orig", process: 1)
        try fixture.file("doc", process: 1)
        try expectNextVersion(of: document)
        let backup = try fixture.found("doc.orig")
        #expect(backup.dirty == [.created, .content] && backup.content == document.content)
    }

    /// Like perl with `-i.bak`.
    @Test(arguments: [false, true]) func hardLinkedBackupLeavesTheDocumentItsName(_ isKnown: Bool) throws {
        let document = try document()
        _ = try fixture.index.link(ino: document.ino, in: 1, named: ItemName("doc.bak"))
        if isKnown { try fixture.confirm("doc.bak") }
        let link = try fixture.entry("doc.bak")
        let temporary = try fixture.file("XX")
        try fixture.rename("XX", "doc")
        try expectNextVersion(of: document)
        #expect(try fixture.found("doc").ino == temporary.ino && !fixture.found("doc").isLinked)
        let backup = try fixture.entry("doc.bak")
        #expect(backup.kind == .file && backup.id != document.id && backup.dirty == [.created, .content])
        #expect(backup.content == document.content && backup.ino == document.ino && !backup.isLinked)
        // The cloud is sent the removal of the link, if it knows the link.
        #expect(try fixture.index.read { try $0.row(id: link.id)?.isDeleted } == true)
        fixture.check()
    }

    /// Saved aside, and linked to the document's name instead of renamed.
    @Test(arguments: ["XX", "XX~"], [false, true])
    func fileLinkedToAFreedNameIsTheNextVersion(_ aside: String, isBackedUp: Bool) throws {
        let document = try document()
        let temporary = try fixture.file(aside, process: 1)
        try write(aside, size: 4)
        if isBackedUp { try fixture.rename("doc", "doc~", process: 1) } else { try fixture.remove("doc", process: 1) }
        _ = try fixture.index.link(ino: temporary.ino, in: 1, named: ItemName("doc"))
        #expect(try fixture.found("doc").ino == temporary.ino, "both names are there")
        fixture.check()
        fixture.time.advance()
        try fixture.remove(aside, process: 1)
        // That changes the folder twice.
        #expect(try fixture.index.row(ino: 1)?.modifiedAt == fixture.time.now())
        try fixture.index.check()
        try expectNextVersion(of: document)
        let saved = try fixture.found("doc")
        #expect(saved.ino == temporary.ino && saved.content == temporary.content && saved.size == 4 && !saved.isLinked)
        #expect(try fixture.index.read { try $0.children(of: .root, after: nil, limit: 9) }.count == (isBackedUp ? 2 : 1))
        if isBackedUp { #expect(try fixture.found("doc~").content == document.content) }
    }

    /// Each by its own process, as in a shell: an ordinary link.
    @Test func fileLinkedToAnotherProcessesNameStaysSeparate() throws {
        let document = try document()
        let other = try fixture.file("other")
        try fixture.remove("doc", process: 1)
        _ = try fixture.index.link(ino: other.ino, in: 1, named: ItemName("doc"))
        try fixture.remove("other", process: 3)
        #expect(try fixture.found("doc").id == other.id && fixture.found("doc").id != document.id)
        #expect(try !fixture.found("doc").isLinked)
        fixture.check()
    }

    @Test func olderHardLinkStaysTheDocuments() throws {
        let document = try document()
        _ = try fixture.index.link(ino: document.ino, in: 1, named: ItemName("other"))
        fixture.time.advance(seconds: 16)
        try fixture.file("XX")
        #expect(try fixture.rename("XX", "doc").moved.id != document.id)
        #expect(try fixture.entry("other").id == document.id)
        fixture.check()
    }

    // MARK: The backup is deleted

    @Test(arguments: ["doc.bak", "d/doc"]) func deletedBackupReturnsTheDocument(_ backup: String) throws {
        try fixture.directory("d")
        try fixture.confirm("d")
        let document = try document()
        try fixture.rename("doc", backup)
        #expect(!fixture.index.isHeld(document.key))
        let made = try fixture.file("doc")
        #expect(made.id != document.id)
        try write("doc", size: 6)
        let removed = try fixture.remove(backup)
        #expect(removed.content == document.content)
        try expectNextVersion(of: document)
        let saved = try fixture.found("doc")
        #expect(saved.content == made.content && saved.ino == made.ino && saved.size == 6)
        #expect(try fixture.row(backup) == nil)
    }

    @Test func uploadedSuccessorIsDeletedAtTheCloud() throws {
        let document = try document()
        try fixture.rename("doc", "doc.bak")
        try fixture.file("doc")
        let announced = try fixture.confirm("doc", revision: 8)
        try fixture.remove("doc.bak")
        #expect(try fixture.found("doc").id == document.id && fixture.found("doc").content == announced.content)
        let tombstone = try #require(try fixture.index.read { try $0.row(id: announced.id) })
        #expect(tombstone.isDeleted && tombstone.content == nil)
        fixture.check()
    }

    @Test func backupDeletedLateIsADeletion() throws {
        let document = try document()
        try fixture.rename("doc", "doc.bak")
        let made = try fixture.file("doc")
        fixture.time.advance(seconds: 16)
        try fixture.remove("doc.bak")
        #expect(try fixture.found("doc").id == made.id)
        #expect(try fixture.index.read { try $0.row(id: document.id) }?.isDeleted == true)
    }

    @Test func existingFileIsNoSuccessor() throws {
        _ = try document()
        try fixture.rename("doc", "other")
        try fixture.remove("other")
        #expect(try fixture.row("doc") == nil)
        fixture.check()
    }

    /// Saving by an exchange: the new file and the document exchange names, and the old document is deleted.
    @Test(arguments: [true, false], [true, false])
    func deletedExchangePartnerReturnsTheDocument(_ isSourceNew: Bool, _ isKnown: Bool) throws {
        let document = try document()
        fixture.time.advance(seconds: 60)
        let made = try fixture.file("doc.new")
        try write("doc.new", size: 6)
        if isKnown { try fixture.confirm("doc.new", revision: 8) }
        try fixture.rename(isSourceNew ? "doc.new" : "doc", isSourceNew ? "doc" : "doc.new", .exchanging)
        let removed = try fixture.remove("doc.new")
        #expect(removed.content == document.content)
        try expectNextVersion(of: document)
        #expect(try fixture.found("doc").content == made.content && fixture.found("doc").ino == made.ino)
    }

    @Test func exchangedDocumentsKeepTheirIdentities() throws {
        let document = try document()
        let other = try self.document("other")
        fixture.time.advance(seconds: 60)
        try fixture.rename("doc", "other", .exchanging)
        try fixture.remove("other")
        #expect(try fixture.found("doc").id == other.id)
        #expect(try fixture.index.read { try $0.row(id: document.id) }?.isDeleted == true)
        fixture.check()
    }

    // MARK: The document is deleted

    @Test func deleteAndCreateByOneProcessMakesTheNextVersion() throws {
        let document = try document()
        try fixture.remove("doc", process: 1)
        try fixture.file("doc", process: 1)
        try write("doc", size: 2)
        try expectNextVersion(of: document)
    }

    @Test func deleteAndRenameByOneProcessMakesTheNextVersion() throws {
        let document = try document()
        try fixture.file("temporary")
        try fixture.remove("doc", process: 1)
        try fixture.rename("temporary", "doc", process: 1)
        try expectNextVersion(of: document)
    }

    @Test(arguments: [0, 2] as [Int32]) func otherProcessMakesANewItem(_ process: Int32) throws {
        let document = try document()
        try fixture.remove("doc", process: 1)
        #expect(try fixture.file("doc", process: process).id != document.id)
        fixture.check()
    }

    /// The cloud has confirmed the deletion before the name is used again.
    private func confirmDeletion(of document: ItemRow) throws {
        try fixture.index.write(.remote) { transaction in
            try transaction.delete(try #require(try transaction.row(id: document.id)))
            try transaction.forgetRemote(document.id)
        }
    }

    @Test(arguments: [true, false]) func documentReturnsAfterAConfirmedDeletion(_ isRenamed: Bool) throws {
        let document = try document()
        if isRenamed { try fixture.file("temporary") }
        try fixture.remove("doc", process: 1)
        try confirmDeletion(of: document)
        if isRenamed {
            try fixture.rename("temporary", "doc", process: 1)
        } else {
            try fixture.file("doc", process: 1)
            try write("doc", size: 2)
        }
        try expectNextVersion(of: document)
        let back = try fixture.found("doc")
        #expect(back.dirty.isSuperset(of: [.content, .place]) && !back.dirty.contains(.created))
        #expect(back.flags.contains(.returned))
    }

    @Test func unsentChangesAreUploadedAfterTheReturn() throws {
        let document = try document()
        try fixture.index.write(.local) { transaction in
            var row = document
            row.mode = 0o600
            try transaction.markDirty(&row, [.mode, .xattrs], now: fixture.time.now())
            try transaction.update(row, before: document)
        }
        try fixture.remove("doc", process: 1)
        try confirmDeletion(of: document)
        let back = try fixture.make(
            "doc", NewItem(kind: .file, mode: 0o600, uid: 1, gid: 2, content: ContentID(77), process: 1))
        #expect(back.id == document.id && back.mode == 0o600 && back.dirty.isSuperset(of: [.mode, .xattrs]))
    }

    @Test func documentReturnsFromARemovedBackup() throws {
        let document = try document()
        try fixture.rename("doc", "doc.bak", process: 1)
        try fixture.confirm("doc.bak", revision: 8)
        try fixture.remove("doc.bak", process: 1)
        try confirmDeletion(of: document)
        #expect(try fixture.file("doc", process: 1).id == document.id)
        fixture.check()
    }

    @Test func confirmedDeletionHoldsForOtherProcesses() throws {
        let document = try document()
        try fixture.remove("doc", process: 1)
        try confirmDeletion(of: document)
        #expect(try fixture.file("doc", process: 2).id != document.id)
        fixture.check()
    }

    /// Another device has restored it meanwhile, under another name.
    @Test func restoredDocumentDoesNotReturnTwice() throws {
        let document = try document()
        try fixture.remove("doc", process: 1)
        try confirmDeletion(of: document)
        try fixture.file("other")
        let other = try fixture.found("other")
        try fixture.index.write(.remote) { transaction in
            var row = other
            row.id = document.id
            try transaction.update(row, before: other)
        }
        #expect(try fixture.file("doc", process: 1).id != document.id)
        fixture.check()
    }

    @Test func oldNamesAreForgotten() throws {
        let document = try document()
        try fixture.remove("doc", process: 1)
        for number in 0..<1024 {
            try fixture.file("f\(number)")
            try fixture.confirm("f\(number)")
            try fixture.remove("f\(number)", process: 1)
        }
        #expect(try fixture.file("doc", process: 1).id != document.id)
    }

    /// The name's own document returns by itself: nothing is merged, and nothing is left behind.
    @Test(arguments: [["doc", "other", "doc"], ["doc", "doc~", "other", "doc"], ["doc", "doc~", "doc"]])
    func documentRenamedBackIsTheSameItem(_ names: [String]) throws {
        let document = try document()
        for (old, new) in zip(names, names.dropFirst()) { try fixture.rename(old, new, process: 1) }
        let row = try fixture.found("doc")
        #expect(row.id == document.id)
        #expect(row.content == document.content)
        #expect(try fixture.index.read { try $0.children(of: .root, after: nil, limit: 9) }.count == 1)
        fixture.check()
    }

    /// The cloud knows, or is being sent, another name: the return to the old place must be sent.
    @Test(arguments: [true, false]) func documentReturningFromAnotherNameSendsItsPlace(_ isKnown: Bool) throws {
        let document = try document()
        try fixture.rename("doc", "other", process: 1)
        if isKnown { try fixture.confirm("other", revision: 8) }
        try fixture.remove("other", process: 1)
        let back = try fixture.file("doc", process: 1)
        #expect(back.id == document.id)
        #expect(back.dirty.contains(.place))
        fixture.check()
    }

    /// A program that saves aside and renames, twice in a row: its first file is the document, not a backup.
    @Test func reusedTemporaryNameIsNoDocument() throws {
        let document = try fixture.file("doc.new", process: 1)
        try fixture.rename("doc.new", "doc", process: 1)
        let temporary = try fixture.file("doc.new", process: 1)
        #expect(temporary.id != document.id)
        #expect(try fixture.found("doc").id == document.id)
        try fixture.rename("doc.new", "doc", process: 1)
        let saved = try fixture.found("doc")
        #expect(saved.id == document.id && saved.content == temporary.content)
        #expect(try fixture.row("doc.new") == nil)
        fixture.check()
    }
}
