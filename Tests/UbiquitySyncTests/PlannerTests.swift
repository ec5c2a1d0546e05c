import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquityTestSupport
import UbiquityWire

@Suite struct PlannerTests {
    private func ids(_ planner: Planner) -> [ItemID] { planner.group.map(\.change.id) }

    private func fields(_ change: PlannedChange?) throws -> ChangedFields {
        guard case .put(let fields) = try #require(change).change.action else { return ChangedFields() }
        return fields
    }

    @Test func changesAreSentInTheirOrder() throws {
        let fixture = try Fixture()
        for name in ["c", "a", "b"] { try fixture.make(name, .directory) }
        let group = try fixture.plan(fixture.dirty()).group
        #expect(try group.map { try fields($0).place?.name.description } == ["c", "a", "b"])
        #expect(group.allSatisfy { $0.change.baseRevision == .zero })
    }

    @Test func groupSizeIsLimited() throws {
        let fixture = try Fixture()
        for number in 0..<5 { try fixture.make("f\(number)", .directory) }
        let planner = try fixture.plan(Array(fixture.dirty().prefix(2)), limit: 2)
        #expect(planner.isFull)
        #expect(planner.group.count == 2)
    }

    @Test func newItemsFoldersAreIncluded() throws {
        let fixture = try Fixture()
        try fixture.make("a", .directory)
        try fixture.make("a/b", .directory)
        let link = try fixture.make("a/b/link", .symlink)
        let planner = try fixture.plan([link])
        #expect(try Set(ids(planner)) == Set(fixture.dirty().map(\.id)))
    }

    /// The file may be throttled longer than the link, or wait for a retry.
    @Test func linkWaitsForItsUnreadyFile() throws {
        let fixture = try Fixture()
        try fixture.make("f")
        let file = try fixture.edit("f")
        _ = try fixture.index.link(ino: file.ino, in: 1, named: ItemName("g"))
        let link = try #require(try fixture.dirty().first { $0.kind == .hardLink })
        #expect(try fixture.plan([link]).group.isEmpty)
        let rows = try fixture.dirty()
        #expect(try ids(fixture.plan(rows, prepared: fixture.prepared(rows))) == [file.id, link.id])
    }

    @Test func formerOwnerOfNameIsSentAlong() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.folder(1, "a"), fixture.folder(2, "b"))
        try fixture.rename("a", "c")
        try fixture.rename("b", "a")
        let second = try fixture.found("a")
        #expect(try Set(ids(fixture.plan([second]))) == [Fixture.id(1), Fixture.id(2)])
    }

    @Test func deletedOwnerOfNameIsSentAlong() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.folder(1, "a"))
        try fixture.remove("a")
        let new = try fixture.make("a", .directory)
        let planner = try fixture.plan([new])
        #expect(Set(ids(planner)) == [Fixture.id(1), new.id])
        #expect(planner.group.contains { $0.change.action == .delete })
    }

    /// The deletions in the folder changed it, and the row was read before the folder's deletion.
    @Test func deletionAfterTheLimitWaits() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.folder(1, "a"), fixture.file(2, "f", in: Fixture.id(1)))
        try fixture.remove("a/f")
        let rows = try fixture.dirty()
        #expect(rows.contains { $0.kind == .directory && !$0.isDeleted })
        let decided = try #require(rows.map(\.dirtyOrder).max())
        try fixture.remove("a")
        #expect(try ids(fixture.plan(rows, deletionsUpTo: decided)) == [Fixture.id(2)])
        #expect(try fixture.plan(rows, deletionsUpTo: 0).group.isEmpty)
        // An item that needs its name waits with it.
        let new = try fixture.make("a", .directory)
        #expect(try fixture.plan([new], deletionsUpTo: decided).group.isEmpty)
        #expect(try Set(ids(fixture.plan([new]))).isSuperset(of: [Fixture.id(1), new.id]))
    }

    /// The cloud keeps a file with another known name, and it would reappear here.
    @Test func fileIsDeletedAfterItsNames() throws {
        let fixture = try Fixture()
        var link = fixture.file(2, "g")
        (link.kind, link.content, link.linkTarget) = (.hardLink, nil, Fixture.id(1).bytes)
        try fixture.receive(fixture.file(1, "f"), link, fixture.file(3, "d", version: 3))
        for name in ["f", "d"] { try fixture.materialize(name) }
        let decided = try fixture.edit("f").dirtyOrder
        try fixture.remove("f")
        // A saved document: the file becomes its next content.
        let (folder, name) = try fixture.place("d")
        _ = try fixture.index.remove(from: folder, named: name, directory: false, process: 1)
        _ = try fixture.index.rename(from: folder, fixture.place("g").1, to: folder, name, .replacing, process: 1)
        let rows = try fixture.dirty().filter { $0.kind != .directory && $0.dirtyOrder <= decided }
        #expect(rows.map(\.id) == [Fixture.id(1)] && rows.allSatisfy(\.isDeleted))
        #expect(try fixture.plan(rows, deletionsUpTo: decided).group.isEmpty)
        #expect(try Set(ids(fixture.plan(rows))) == [Fixture.id(1), Fixture.id(2)])
    }

    /// Otherwise the cloud has two items of one name, and renames the new one.
    @Test func itemWaitsForNameWhileItsOwnerWaits() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.folder(1, "a"), fixture.folder(2, "b"))
        try fixture.remove("b")
        try fixture.rename("a", "b")
        let new = try fixture.make("a", .directory)
        #expect(try fixture.plan([new], deletionsUpTo: 0).group.isEmpty)
        #expect(try Set(ids(fixture.plan([new]))) == [Fixture.id(1), Fixture.id(2), new.id])
        // Two items that exchange their names wait for nobody else.
        let other = try Fixture()
        try other.receive(other.folder(1, "a"), other.folder(2, "b"))
        for (from, to) in [("a", "c"), ("b", "a"), ("c", "b")] { try other.rename(from, to) }
        #expect(try Set(ids(other.plan([other.found("a")], deletionsUpTo: 0))) == [Fixture.id(1), Fixture.id(2)])
    }

    /// One of two items that exchange their names may have another reason to wait.
    @Test(arguments: [["b", "a"], ["a", "b"]]) func cycleIsSentAsAWholeOrNotAtAll(order: [String]) throws {
        let fixture = try Fixture()
        var link = fixture.file(3, "h")
        (link.kind, link.content, link.linkTarget) = (.hardLink, nil, Fixture.id(1).bytes)
        try fixture.receive(fixture.file(1, "a"), link, fixture.file(2, "b"), fixture.file(4, "c"))
        for name in ["a", "b"] { try fixture.materialize(name) }
        try fixture.rename("a", "b", .exchanging)
        let (one, two) = (try fixture.edit("b"), try fixture.edit("a"))
        let decided = max(one.dirtyOrder, two.dirtyOrder)
        // The content of one must not show under a name that was removed here.
        try fixture.remove("h")
        try fixture.rename("c", "e")
        let rows = try order.map { try fixture.found($0) } + [fixture.found("e")]
        let prepared = fixture.prepared(rows.dropLast())
        func planned(_ deletionsUpTo: Int64) throws -> Set<ItemID> {
            let planner = try fixture.plan(
                rows, prepared: prepared, deletionsUpTo: deletionsUpTo, isAwaited: { _, _ in true })
            return Set(ids(planner))
        }
        #expect(try planned(decided) == [Fixture.id(4)])
        #expect(try planned(.max) == [1, 2, 3, 4].map(Fixture.id).reduce(into: []) { $0.insert($1) })
    }

    /// Otherwise the cloud does not know the folder, and the same is sent again for ever.
    @Test func itemInWaitingFolderWaitsToo() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.folder(1, "a"))
        try fixture.remove("a")
        let folder = try fixture.make("a", .directory)
        let inner = try fixture.make("a/b", .directory)
        #expect(try fixture.plan([inner], deletionsUpTo: 0).group.isEmpty)
        #expect(try Set(ids(fixture.plan([inner]))) == [Fixture.id(1), folder.id, inner.id])
        // The item with the folder's name, now in the folder, waits for nothing else.
        let other = try Fixture()
        try other.receive(other.folder(1, "a"))
        let new = try other.make("t", .directory)
        try other.rename("a", "t/a")
        try other.rename("t", "a")
        for order in [["a", "a/a"], ["a/a", "a"]] {
            let rows = try order.map { try other.found($0) }
            #expect(try Set(ids(other.plan(rows))) == [Fixture.id(1), new.id])
        }
    }

    /// Each takes the name of the next: a chain too long for any stack. In a circle too long for one commit, one item
    /// takes another name first, and the others are a chain.
    @Test(arguments: [(1500, true), (1500, false), (3100, true), (3100, false)])
    func longRenameChainsAreSent(count: Int, isCircle: Bool) throws {
        let fixture = try Fixture()
        try fixture.index.write(.remote) { transaction in
            var settler = Settler(transaction, owner: (0, 0), now: fixture.time.now())
            for number in 0..<count { try settler.receive(fixture.folder(UInt64(number + 1), "f\(number)")) }
        }
        for number in 0..<count { try fixture.rename("f\(number)", "t\(number)") }
        for number in 0..<count {
            let isLast = number == count - 1
            try fixture.rename("t\(number)", isLast ? isCircle ? "f0" : "last" : "f\(number + 1)")
        }
        var rows = try fixture.dirty()
        guard count > Limits.maximumChangesPerCommit else {
            #expect(try fixture.plan(rows, limit: Limits.maximumChangesPerCommit).group.count == count)
            return
        }
        // Another change meanwhile is not marked as sent.
        try fixture.index.setXattr(
            ino: fixture.found("f1").ino, Xattr(name: Array("user.a".utf8), value: [1]), .any)
        rows = try fixture.dirty()
        var group = try fixture.plan(rows).group
        let first = try fixture.found("f1")
        if isCircle {
            #expect(try group.map { try fields($0).place?.name.description } == ["f1 2"])
            try fixture.apply(group, group.map { ChangeResult(outcome: .applied, item: try fixture.answer($0)) })
            // It is the same item here, and its own change is still to be sent.
            #expect(try fixture.found("f1").dirty == [.place, .xattrs] && fixture.found("f1").xattrs == first.xattrs)
            #expect(try fixture.row("f1 2") == nil)
            group = try fixture.plan(rows).group
        }
        // Whichever is examined first, the end of the chain is sent; and finally all.
        var sent = Set<ItemKey>(), revision: Int64 = 50
        while !group.isEmpty {
            let last = group
            revision += 1
            let results = try last.map { ChangeResult(outcome: .applied, item: try fixture.answer($0, at: revision)) }
            try fixture.apply(last, results, revision: revision)
            sent.formUnion(last.map(\.row.key))
            rows = try fixture.dirty()
            group = try rows.isEmpty ? [] : fixture.plan(rows).group
        }
        #expect(try sent.count == count && fixture.dirty().isEmpty)
        #expect(try fixture.index.read { try $0.remote(id: first.id) }?.xattrs == first.xattrs)
    }

    @Test func deletionIsSentWithItsKnownRevision() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.file(1, "f", at: 7))
        try fixture.remove("f")
        let change = try #require(try fixture.plan(fixture.dirty()).group.first?.change)
        #expect(change.action == .delete)
        #expect(change.baseRevision == Revision(7))
    }

    @Test func deletionUnknownToCloudIsForgotten() throws {
        let fixture = try Fixture()
        try fixture.make("f")
        try fixture.remove("f")
        let planner = try fixture.plan(fixture.dirty())
        #expect(planner.group.isEmpty)
        #expect(planner.forgettable.count == 1)
    }

    /// Its creation was sent and the answer is missing: the cloud may have it.
    @Test func deletionPossiblyKnownToCloudIsSent() throws {
        let fixture = try Fixture()
        let row = try fixture.make("f")
        try fixture.index.write(.remote) { transaction in
            var sent = row
            sent.flags.insert(.creationSent)
            try transaction.update(sent, before: row)
        }
        try fixture.remove("f")
        let planner = try fixture.plan(fixture.dirty())
        #expect(planner.group.map(\.change.action) == [.delete])
        #expect(planner.forgettable.isEmpty)
    }

    @Test func newFileIsAnnouncedBeforeItsContent() throws {
        let fixture = try Fixture()
        let row = try fixture.make("f")
        let announced = try fields(fixture.plan([row]).group.first)
        #expect(announced.content?.manifest == nil)
        #expect(announced.content?.version != nil)
        let again = try fixture.dirty()
        let ready = try fields(fixture.plan(again, prepared: fixture.prepared(again)).group.first)
        #expect(ready.content?.manifest?.count == 1)
        #expect(ready.content?.version == announced.content?.version)
    }

    @Test func fileDuringItsFirstWriteIsNotAnnounced() throws {
        let fixture = try Fixture()
        let row = try fixture.make("f")
        _ = try fixture.index.beginWriting(ino: row.ino)
        #expect(try fixture.plan(fixture.dirty()).group.isEmpty)
    }

    @Test func timesAreUploadedWithTheirContent() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.file(1, "f"))
        try fixture.materialize("f")
        try fixture.edit("f")
        #expect(try fixture.plan(fixture.dirty()).group.isEmpty)
        _ = try fixture.index.setAttributes(ino: fixture.found("f").ino, AttributeChange(mode: 0o600))
        let early = try fields(fixture.plan(fixture.dirty()).group.first)
        #expect(early.mode == 0o600)
        #expect(early.modifiedAt == nil)
        let rows = try fixture.dirty()
        let ready = try fields(fixture.plan(rows, prepared: fixture.prepared(rows)).group.first)
        #expect(ready.modifiedAt != nil)
        #expect(ready.content?.baseVersion == Fixture.version(1))
    }

    @Test func onlyTheAttributesThatChangedAreSent() throws {
        let fixture = try Fixture()
        var item = fixture.file(1, "f")
        item.xattrs = [Xattr(name: Array("user.a".utf8), value: [1]), Xattr(name: Array("user.b".utf8), value: [1])]
        try fixture.receive(item)
        let ino = try fixture.found("f").ino
        try fixture.index.setXattr(ino: ino, Xattr(name: Array("user.c".utf8), value: [2]), .any)
        try fixture.index.removeXattr(ino: ino, named: Array("user.a".utf8))
        let sent = try fields(fixture.plan(fixture.dirty()).group.first)
        #expect(sent.xattrsSet.map(\.value) == [[2]])
        #expect(sent.xattrsRemoved == [Array("user.a".utf8)])
    }

    /// It lost its name to another item, is not placed, and the cloud deletes it: the edit restores it.
    @Test func editOfAnItemWithoutAnEntryIsSent() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.file(1, "f"))
        try fixture.materialize("f")
        let row = try fixture.edit("f")
        let elsewhere = Fixture.id(99)
        try fixture.receive(fixture.file(1, "f", in: elsewhere, at: 2), fixture.file(2, "f", at: 2))
        #expect(try fixture.found("f").id == Fixture.id(2))
        let rows = try fixture.dirty()
        #expect(rows.map(\.key) == [row.key])
        let sent = try fields(fixture.plan(rows, prepared: fixture.prepared(rows)).group.first)
        #expect(sent.content != nil)
        #expect(sent.place == nil)
    }

    @Test func revertedChangeIsCleanWithoutCommit() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.file(1, "f"))
        let ino = try fixture.found("f").ino
        try fixture.index.setXattr(ino: ino, Xattr(name: Array("user.c".utf8), value: [2]), .any)
        try fixture.index.removeXattr(ino: ino, named: Array("user.c".utf8))
        let planner = try fixture.plan(fixture.dirty())
        #expect(planner.group.isEmpty)
        #expect(planner.unchanged.map(\.id) == [Fixture.id(1)])
    }
}
