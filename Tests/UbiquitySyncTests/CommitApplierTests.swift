import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquityTestSupport
import UbiquityWire

@Suite struct CommitApplierTests {
    private func applied(_ item: RemoteItem) -> ChangeResult { ChangeResult(outcome: .applied, item: item) }

    @Test func sentFieldsAreClean() throws {
        let fixture = try Fixture()
        try fixture.make("folder", .directory)
        try fixture.make("folder/f")
        let rows = try fixture.dirty()
        let group = try fixture.plan(rows, prepared: fixture.prepared(rows)).group
        try fixture.apply(group, group.map { applied(try fixture.answer($0)) })
        #expect(try fixture.dirty().isEmpty)
        #expect(try fixture.paths() == ["folder", "folder/f"])
        #expect(try fixture.found("folder/f").version != nil)
    }

    /// An attribute set or removed is reverted during its upload: the revert is sent next, whichever comes first, the
    /// feed or the answer.
    @Test(arguments: [false, true], [false, true]) func revertedAttributeIsUploaded(
        feedComesFirst: Bool, isNew: Bool
    ) throws {
        let fixture = try Fixture(), names = ["a", "b", "c"].map { Array("user.\($0)".utf8) }
        func set(_ name: Int, _ value: UInt8?) throws {
            let ino = try fixture.found("f").ino
            guard let value else { return try fixture.index.removeXattr(ino: ino, named: names[name]) }
            try fixture.index.setXattr(ino: ino, Xattr(name: names[name], value: [value]), .any)
        }
        let old = [Xattr(name: names[0], value: [1]), Xattr(name: names[2], value: [1])]
        if isNew {
            try fixture.make("f", .directory)
        } else {
            var item = fixture.folder(1, "f")
            item.xattrs = old
            try fixture.receive(item)
        }
        try set(0, 2)
        try set(1, 1)
        if !isNew { try set(2, nil) }
        let group = try fixture.plan(fixture.dirty()).group
        fixture.time.advance(.seconds(1))
        try set(0, isNew ? nil : 1)
        try set(1, nil)
        try set(2, 1)
        let wanted = isNew ? [old[1]] : old
        let answer = try fixture.answer(group[0])
        if feedComesFirst { try fixture.receive(answer) }
        try fixture.apply(group, [applied(answer)])
        #expect(try fixture.found("f").xattrs == wanted && fixture.found("f").dirty == .xattrs)
        let next = try fixture.plan(fixture.dirty()).group
        var last = try fixture.answer(next[0], at: 60)
        #expect(last.xattrs == wanted)
        try fixture.apply(next, [applied(last)], revision: 60)
        #expect(try fixture.found("f").dirty.isEmpty && fixture.found("f").changedXattrs.isEmpty)
        // From then on others' changes are shown.
        last.xattrs = []
        last.revision = Revision(70)
        try fixture.receive(last)
        #expect(try fixture.found("f").xattrs.isEmpty)
    }

    /// Applied, it would damage other items.
    @Test func answerAboutAnotherItemIsRefused() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.file(1, "other"))
        try fixture.make("folder", .directory)
        let group = try fixture.plan(fixture.dirty()).group
        let answer = try fixture.answer(group[0])
        let results = [
            ChangeResult(outcome: .merged(into: .root), item: nil), applied(fixture.file(1, "other", at: 50)),
            ChangeResult(outcome: .merged(into: Fixture.id(1)), item: fixture.file(1, "other", at: 50)),
        ]
        for result in results {
            let error = #expect(throws: UbiquityError.self) { try fixture.apply(group, [result]) }
            #expect(error?.code == .invalid)
        }
        try fixture.apply(group, [applied(answer)])
        #expect(try fixture.paths() == ["folder", "other"] && fixture.dirty().isEmpty)
    }

    @Test func fieldsChangedMeanwhileStayDirty() throws {
        let fixture = try Fixture()
        try fixture.make("f")
        let rows = try fixture.dirty()
        let group = try fixture.plan(rows, prepared: fixture.prepared(rows)).group
        let answers = try group.map { applied(try fixture.answer($0)) }
        try fixture.rename("f", "g")
        fixture.time.advance(.seconds(1))
        try fixture.edit("g")
        try fixture.apply(group, answers)
        let row = try fixture.found("g")
        #expect(row.dirty == [.place, .content, .times])
        #expect(row.dirtyBase == Revision(50))
        #expect(row.version != nil, "what is here is made from the version that went up")
    }

    /// A package's files are sent again with it, changed or not. A file that has left it may have got the cloud's
    /// earlier content.
    @Test func contentDownloadedMeanwhileIsNotTakenForSentOne() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.file(1, "f"))
        try fixture.rename("f", "g")
        var group = try fixture.plan(fixture.dirty()).group
        guard case .put(var fields) = group[0].change.action else { throw UbiquityError(.invalid, "no change") }
        let sent = Fixture.version(7), other = Fixture.version(8)
        fields.content = ContentChange(version: sent, baseVersion: other, size: 10, manifest: [])
        group[0].change.action = .put(fields)
        let answer = applied(try fixture.answer(group[0]))
        try fixture.index.write(.remote) { transaction in
            let before = try #require(try transaction.row(id: Fixture.id(1)))
            var row = before
            (row.content, row.contentState, row.version) = (ContentID(99), .complete, other)
            try transaction.update(row, before: before)
        }
        try fixture.apply(group, [answer])
        let row = try fixture.found("g")
        #expect(row.content == ContentID(99) && row.version == other)
        #expect(try fixture.index.read { try $0.remote(id: row.id)?.content?.version } == sent)
    }

    /// The commit was repeated, and another device has changed the package since: its files are exchanged together.
    /// (Seed 460001877.)
    @Test func newerPackageStateIsStagedUntilComplete() throws {
        let fixture = try Fixture()
        try fixture.make("d.rtfd", .directory)
        for name in ["one", "two"] { try fixture.make("d.rtfd/\(name)") }
        let rows = try fixture.dirty()
        let group = try fixture.plan(rows, prepared: fixture.prepared(rows)).group
        try fixture.apply(
            group,
            group.map { planned in
                var item = try fixture.answer(planned)
                if item.kind == .file {
                    item.content?.version = Fixture.version(90)
                    item.content?.manifest = nil
                }
                item.revision = Revision(60)
                return applied(item)
            })
        for name in ["one", "two"] {
            let row = try fixture.found("d.rtfd/\(name)")
            #expect(row.contentState == .complete && row.dirty.isEmpty)
            #expect(try fixture.index.read { try $0.isRecord(row.id, .awaitingPackage) })
        }
    }

    @Test func losingFieldFollowsTheRecord() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.folder(1, "a"))
        _ = try fixture.index.setAttributes(ino: fixture.found("a").ino, AttributeChange(mode: 0o700))
        let group = try fixture.plan(fixture.dirty()).group
        var winner = fixture.folder(1, "a", at: 50)
        winner.mode = 0o711
        try fixture.apply(group, [applied(winner)])
        #expect(try fixture.found("a").mode == 0o711)
    }

    /// The feed may bring a commit's outcome before its answer.
    @Test func losingFieldFollowsAnEarlierFeedRecord() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.folder(1, "a"))
        _ = try fixture.index.setAttributes(ino: fixture.found("a").ino, AttributeChange(mode: 0o700))
        let group = try fixture.plan(fixture.dirty()).group
        var winner = fixture.folder(1, "a", at: 50)
        winner.mode = 0o711
        try fixture.receive(winner)
        try fixture.apply(group, [applied(winner)])
        #expect(try fixture.found("a").mode == 0o711)
        #expect(try fixture.dirty().isEmpty)
    }

    /// The feed has brought the item's later deletion before the commit's answer.
    @Test func lateAnswerRestoresNoDeletedItem() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.file(1, "f"))
        _ = try fixture.index.setAttributes(ino: fixture.found("f").ino, AttributeChange(mode: 0o700))
        let group = try fixture.plan(fixture.dirty()).group
        let answer = try fixture.answer(group[0])
        var gone = answer
        gone.isDeleted = true
        gone.revision = Revision(60)
        try fixture.receive(gone)
        try fixture.index.write(.remote) {
            try $0.setFeedPosition(FeedPosition(revision: Revision(60), incarnation: 1, snapshotEpoch: 0))
        }
        try fixture.apply(group, [applied(answer)])
        #expect(try fixture.paths() == [])
    }

    @Test func unknownItemIsUploadedAsNew() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.folder(1, "a"))
        _ = try fixture.index.setAttributes(ino: fixture.found("a").ino, AttributeChange(mode: 0o700))
        let group = try fixture.plan(fixture.dirty()).group
        try fixture.apply(group, [ChangeResult(outcome: .unknownItem, item: nil)])
        #expect(try fixture.found("a").dirty.contains(.created))
        #expect(try fixture.plan(fixture.dirty()).group.first?.change.baseRevision == .zero)
    }

    /// The cloud may not know the folder, so it is sent too. Usually it knows it.
    @Test func reuploadOfKnownFolderKeepsIt() throws {
        let fixture = try Fixture()
        let known = fixture.folder(1, "a", at: 5)
        try fixture.receive(known)
        try fixture.index.write(.remote) { try $0.setFeedPosition(FeedPosition(revision: Revision(9), incarnation: 1, snapshotEpoch: 0)) }
        try fixture.make("a/link", .symlink)
        let folder = { try fixture.dirty().filter { $0.kind == .directory } }
        try fixture.apply(fixture.plan(folder()).group, [applied(known)])
        let unknown = ChangeResult(outcome: .unknownItem, item: nil)
        try fixture.apply(fixture.plan(fixture.dirty()).group, [unknown])
        try fixture.apply(fixture.plan(folder()).group, [applied(known)])
        #expect(try fixture.paths() == ["a", "a/link"])
        #expect(try fixture.index.read { try $0.remote(id: known.id)?.isDeleted } == false)
    }

    @Test func mergedItemTakesIdentity() throws {
        let fixture = try Fixture()
        try fixture.make("a", .directory)
        try fixture.make("a/inner", .directory)
        let group = try fixture.plan(Array(fixture.dirty().prefix(1))).group
        let other = fixture.folder(1, "a", at: 50)
        try fixture.receive(other)
        try fixture.apply(group, [ChangeResult(outcome: .merged(into: other.id), item: other)])
        #expect(try fixture.found("a").id == other.id)
        #expect(try fixture.paths() == ["a", "a/inner"])
        #expect(try fixture.plan(fixture.dirty()).group.count == 1)
    }

    /// The cloud has renamed a folder to the name of a new one, and this device has not followed yet.
    @Test func mergedFolderTakesChildren() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.folder(1, "old"), fixture.file(2, "f", in: Fixture.id(1)))
        try fixture.make("new", .directory)
        try fixture.make("new/f", .directory)
        try fixture.make("old/g", .directory)
        let new = try fixture.found("new")
        let group = try fixture.plan([new]).group
        let renamed = fixture.folder(1, "new", at: 50)
        try fixture.apply(group, [ChangeResult(outcome: .merged(into: renamed.id), item: renamed)])
        #expect(try fixture.paths() == ["new", "new/f", "new/g"])
        #expect(try fixture.found("new").id == renamed.id)
        // The cloud's file of the name waits until the cloud has decided about the new folder.
        #expect(try fixture.waiting == 1)
    }

    /// Seed 444138435 of the simulator: the new folder was moved into the folder that it is merged with, which the
    /// cloud has renamed. By now another item has the name here.
    @Test func folderMergedWithItsParentTakesParentsPlace() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.folder(1, "old"), fixture.file(2, "f", in: Fixture.id(1)))
        try fixture.make("new", .directory)
        try fixture.make("new/g", .directory)
        let group = try fixture.plan([fixture.found("new")]).group
        try fixture.rename("new", "old/new")
        try fixture.rename("old/f", "new")
        let renamed = fixture.folder(1, "new", at: 50)
        try fixture.apply(group, [ChangeResult(outcome: .merged(into: renamed.id), item: renamed)])
        try fixture.check()
        #expect(try fixture.paths() == ["new", "old", "old/g"])
        #expect(try fixture.found("old").id == renamed.id && fixture.found("new").id == Fixture.id(2))
        #expect(try !fixture.found("old").dirty.contains(.place))
    }

    @Test func mergeKeepsEditOfKnownFile() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.file(1, "old"))
        try fixture.materialize("old")
        let edited = try fixture.edit("old")
        try fixture.make("new")
        let rows = try [fixture.found("new")]
        let group = try fixture.plan(rows, prepared: fixture.prepared(rows)).group
        let renamed = fixture.file(1, "new", at: 50, version: 2)
        try fixture.apply(group, [ChangeResult(outcome: .merged(into: renamed.id), item: renamed)])
        #expect(try fixture.found("new").id == renamed.id)
        let kept = try fixture.found("old")
        #expect(kept.content == edited.content)
        #expect(kept.dirty.isSuperset(of: [.created, .content]))
    }

    @Test func mergedFolderPlacesWaitingChildren() throws {
        let fixture = try Fixture()
        try fixture.make("a", .directory)
        try fixture.make("a/inner", .directory)
        let group = try fixture.plan(fixture.dirty()).group
        let other = fixture.folder(1, "a", at: 50)
        var inner = try fixture.answer(group[1])
        inner.parent = other.id
        try fixture.apply(group, [ChangeResult(outcome: .merged(into: other.id), item: other), applied(inner)])
        #expect(try fixture.paths() == ["a", "a/inner"])
        #expect(try fixture.waiting == 0)
    }

    /// A new file is merged with another whose edit was sent in the same commit, and won.
    @Test func answerIsNotAppliedToAMergedItem() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.file(1, "old"))
        try fixture.materialize("old")
        try fixture.make("new")
        try fixture.edit("new")
        try fixture.edit("old")
        let rows = try [fixture.found("new"), fixture.found("old")]
        let group = try fixture.plan(rows, prepared: fixture.prepared(rows)).group
        var winner = try fixture.answer(group[1])
        winner.name = try ItemName("new")
        try fixture.apply(group, [ChangeResult(outcome: .merged(into: winner.id), item: winner), applied(winner)])
        let row = try fixture.found("new")
        #expect(row.id == winner.id)
        #expect(row.version != winner.content?.version, "what is here is the content that lost")
        #expect(try fixture.index.read { try $0.records(.awaitingContent, limit: 10) } == [winner.id])
        #expect(try fixture.paths() == ["new"])
    }

    @Test func numberedNameOfTheCloudIsApplied() throws {
        let fixture = try Fixture()
        try fixture.make("f")
        let rows = try fixture.dirty()
        let group = try fixture.plan(rows, prepared: fixture.prepared(rows)).group
        var answer = try fixture.answer(group[0])
        answer.name = try ItemName("f 2")
        try fixture.apply(group, [applied(answer)])
        #expect(try fixture.paths() == ["f 2"])
    }

    @Test func refusedDeletionRestoresTheItem() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.file(1, "f"))
        try fixture.remove("f")
        let group = try fixture.plan(fixture.dirty()).group
        try fixture.apply(group, [applied(fixture.file(1, "f", at: 50, version: 2, size: 20))])
        #expect(try fixture.found("f").size == 20)
        #expect(try fixture.dirty().filter { $0.id == Fixture.id(1) }.isEmpty)
    }

    @Test func acceptedDeletionLeavesNothing() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.file(1, "f"))
        try fixture.remove("f")
        let group = try fixture.plan(fixture.dirty()).group
        try fixture.apply(group, [applied(try fixture.answer(group[0]))])
        #expect(try fixture.dirty().isEmpty)
        #expect(try fixture.index.read { try $0.remote(id: Fixture.id(1)) } == nil)
    }

    @Test func answerOfAnotherLengthIsRefused() throws {
        let fixture = try Fixture()
        try fixture.make("a", .directory)
        let group = try fixture.plan(fixture.dirty()).group
        #expect(throws: UbiquityError.self) { try fixture.apply(group, []) }
        #expect(try !fixture.dirty().isEmpty)
    }

    /// A file at the cloud, and an edit of it that is being sent.
    private func sentEdit(_ fixture: Fixture) throws -> (known: RemoteItem, sent: PlannedChange) {
        func next() throws -> PlannedChange {
            let rows = try fixture.dirty()
            return try #require(try fixture.plan(rows, prepared: fixture.prepared(rows)).group.first)
        }
        try fixture.make("f")
        let made = try next(), known = try fixture.answer(made)
        try fixture.apply([made], [applied(known)])
        fixture.time.advance(.seconds(1))
        try fixture.edit("f")
        return (known, try next())
    }

    /// Seed 200122311 of the simulator: it has the bytes of its base, whatever version the feed has brought meanwhile.
    /// But its later replacement was deliberately based on another one.
    @Test(arguments: [false, true]) func passedOverVersionKeepsItsBase(isReplaced: Bool) throws {
        let fixture = try Fixture()
        let (_, sent) = try sentEdit(fixture)
        let base = try fixture.found("f").version, other = VersionID(high: 9, low: 9)
        try fixture.index.write(.remote) { transaction in
            let before = try #require(try transaction.row(key: sent.row.key))
            var row = before
            row.version = other
            if isReplaced { row.generation += 1 }
            try transaction.update(row, before: before)
        }
        var answer = try fixture.answer(sent)
        answer.content?.version = other
        answer.content?.manifest = []
        try fixture.apply([sent], [applied(answer)])
        let row = try fixture.found("f")
        #expect(base != nil && row.version == (isReplaced ? other : base))
        #expect(row.dirty.contains(.content) == isReplaced)
    }

    /// An edit won over a deletion; the feed's page with the item's later state has not arrived yet.
    @Test func answerOfEditRestoresDeletedItem() throws {
        let fixture = try Fixture()
        let (known, sent) = try sentEdit(fixture)
        var gone = known
        gone.isDeleted = true
        gone.revision = Revision(60)
        try fixture.receive(gone)
        var answer = try fixture.answer(sent)
        answer.revision = Revision(70)
        try fixture.index.write(.remote) {
            try $0.setFeedPosition(FeedPosition(revision: Revision(90), incarnation: 1, snapshotEpoch: 0))
        }
        try fixture.apply([sent], [applied(answer)])
        #expect(try fixture.paths() == ["f"])
        #expect(try fixture.found("f").contentState == .complete)
    }
}
