import Testing
import UbiquityCore
import UbiquityIndex
import UbiquityTestSupport
import UbiquityWire
@testable import UbiquitySync

/// Records that no sound cloud sends. The device ignores them, finishes the page, and keeps everything else right.
@Suite(.timeLimit(.minutes(1))) struct HostileFeedTests {
    private func link(_ number: UInt64, _ name: String, to target: UInt64, at revision: Int64 = 1) throws -> RemoteItem {
        RemoteItem(
            id: Fixture.id(number), kind: .hardLink, revision: Revision(revision), parent: .root,
            name: try ItemName(name), mode: 0o644, createdAt: .zero, modifiedAt: .zero,
            linkTarget: Fixture.id(target).bytes)
    }

    @Test func newLinkToItselfIsIgnored() throws {
        let fixture = try Fixture()
        try fixture.receive(link(1, "loop", to: 1), fixture.file(2, "f"))
        #expect(try fixture.paths() == ["f"])
        try fixture.check()
    }

    @Test func knownLinkThatIsRetargetedToItselfStaysAsItWas() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.file(1, "a"), link(2, "b", to: 1))
        try fixture.receive(link(2, "b", to: 2, at: 2), fixture.file(3, "f", at: 2))
        #expect(try fixture.paths() == ["a", "b", "f"])
        #expect(try fixture.row("b")?.id == Fixture.id(1))
        try fixture.check()
    }

    @Test func linksToEachOtherAreNeverShown() throws {
        let fixture = try Fixture()
        try fixture.receive(link(1, "a", to: 2), link(2, "b", to: 1), link(3, "c", to: 2))
        #expect(try fixture.paths() == [])
        try fixture.check()
    }

    @Test func linkThatIsRetargetedToALinkLeadsWhereItDid() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.file(1, "a"), link(2, "b", to: 1), link(3, "c", to: 1))
        try fixture.receive(link(2, "b", to: 3, at: 2), link(3, "c", to: 2, at: 2))
        #expect(try fixture.row("b")?.id == Fixture.id(1))
        #expect(try fixture.row("c")?.id == Fixture.id(1))
        try fixture.check()
    }

    @Test func linkToAFolderIsNeverShown() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.folder(1, "d"), link(2, "b", to: 1))
        #expect(try fixture.paths() == ["d"])
        try fixture.check()
    }

    @Test func recordsBeyondTheStepLimitAreDropped() throws {
        let fixture = try Fixture()
        let folders = (1...4).map { fixture.folder($0, "\($0)") }
        func receive(stepLimit: Int) throws {
            try fixture.index.write(.remote) { transaction in
                var settler = Settler(transaction, owner: (0, 0), now: .zero, stepLimit: stepLimit)
                for folder in folders { try settler.receive(folder) }
            }
        }
        #expect(throws: UbiquityError.self) { try receive(stepLimit: 3) }
        #expect(try fixture.paths() == [])
        try fixture.check()
        try receive(stepLimit: 4)
        #expect(try fixture.paths() == ["1", "2", "3", "4"])
    }

    @Test func impossibleCommitNumberLeavesTheNumbersAsTheyAre() throws {
        let fixture = try Fixture()
        let before = try fixture.index.nextCommitNumber()
        for last in [Int64.max, Int64.max - 2000] {
            #expect(throws: UbiquityError.self) { try fixture.index.raiseCommitNumbers(above: last) }
        }
        #expect(try fixture.index.nextCommitNumber() == before + 1)
        try fixture.index.raiseCommitNumbers(above: before + 1_000_000)
        #expect(try fixture.index.nextCommitNumber() > before + 1_000_000)
    }

    @Test func folderInItselfIsIgnored() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.folder(1, "d"), fixture.folder(2, "x", in: Fixture.id(2)))
        try fixture.receive(fixture.folder(1, "d", in: Fixture.id(1), at: 2))
        #expect(try fixture.paths() == ["d"])
        try fixture.check()
    }

    @Test func foldersInACircleKeepTheirPlaces() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.folder(1, "a"), fixture.folder(2, "b"), fixture.folder(3, "c"))
        try fixture.receive(
            fixture.folder(1, "a", in: Fixture.id(3), at: 2), fixture.folder(2, "b", in: Fixture.id(1), at: 2),
            fixture.folder(3, "c", in: Fixture.id(2), at: 2))
        #expect(try fixture.paths().count == 3)
        try fixture.check()
        try fixture.receive(fixture.folder(4, "p", in: Fixture.id(5)), fixture.folder(5, "q", in: Fixture.id(4)))
        #expect(try fixture.paths().count == 3)
        try fixture.check()
    }

    @Test func itemThatBecomesAnotherKindStaysWhatItWas() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.file(1, "a"), fixture.folder(2, "d"), fixture.file(3, "in", in: Fixture.id(2)))
        try fixture.receive(fixture.folder(1, "a", at: 2), fixture.file(2, "d", at: 2))
        #expect(try fixture.row("a")?.kind == .file)
        #expect(try fixture.row("d")?.kind == .directory)
        #expect(try fixture.paths() == ["a", "d", "d/in"])
        try fixture.check()
    }

    /// The cloud is another one, and uses the ids of local items for items of other kinds.
    private func startOver(_ fixture: Fixture) throws { try fixture.index.write(.remote) { try $0.startOver() } }

    @Test func localFileKeepsItsNameBesideAFolderWithItsID() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.file(1, "f"), link(2, "l", to: 1))
        try fixture.materialize("f")
        try startOver(fixture)
        try fixture.receive(fixture.folder(1, "d"))
        #expect(try fixture.paths() == ["d", "f", "l"])
        let file = try fixture.found("f")
        #expect(try file.id != Fixture.id(1) && fixture.found("d").id == Fixture.id(1))
        #expect(file.dirty == [.created, .content] && file.contentState == .complete)
        #expect(try fixture.found("l").id == file.id)
        try fixture.check()
    }

    @Test func localFolderKeepsItsItemsBesideAFileWithItsID() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.folder(1, "d"), fixture.file(2, "in", in: Fixture.id(1)))
        try fixture.materialize("d/in")
        try startOver(fixture)
        try fixture.receive(fixture.file(1, "f"))
        #expect(try fixture.paths() == ["d", "d/in", "f"])
        #expect(try fixture.found("d").id != Fixture.id(1) && fixture.found("d").dirty == .created)
        try fixture.check()
    }

    @Test func localSymlinkKeepsItsTextBesideAFileWithItsID() throws {
        let fixture = try Fixture()
        let old = try fixture.make("l", .symlink)
        var record = fixture.file(1, "f")
        record.id = old.id
        try fixture.receive(record)
        #expect(try fixture.paths() == ["f", "l"])
        let row = try fixture.found("l")
        #expect(row.id != old.id && row.linkTarget == old.linkTarget && row.dirty.contains(.created))
        try fixture.check()
    }

    @Test func placeholderIsReplacedByAFolderWithItsID() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.file(1, "f"), link(2, "l", to: 1))
        try startOver(fixture)
        try fixture.receive(fixture.folder(1, "d"))
        #expect(try fixture.paths() == ["d"])
        #expect(try fixture.waiting == 0)
        try fixture.check()
    }

    @Test func deletionOfAnotherKindOfItemLeavesTheLocalItem() throws {
        let fixture = try Fixture()
        let old = try fixture.make("l", .symlink)
        var record = fixture.folder(1, "d")
        (record.id, record.isDeleted) = (old.id, true)
        try fixture.receive(record)
        #expect(try fixture.paths() == ["l"])
        #expect(try fixture.found("l").id != old.id)
        try fixture.check()
    }

    @Test func answerAboutAnotherKindOfItemIsRefused() throws {
        let fixture = try Fixture()
        let old = try fixture.make("l", .symlink)
        let group = try fixture.plan(fixture.dirty()).group
        var record = fixture.file(1, "l")
        record.id = old.id
        #expect(throws: UbiquityError.self) {
            try fixture.apply(group, [ChangeResult(outcome: .applied, item: record)])
        }
        #expect(try fixture.found("l").linkTarget == old.linkTarget)
        try fixture.check()
    }

    /// The name is freed once the listing has had time to report the placeholder's own item.
    @Test func recordGetsTheNameOfAnotherCloudsPlaceholder() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.file(1, "f"))
        try startOver(fixture)
        try fixture.receive(fixture.file(2, "f"))
        #expect(try fixture.paths() == ["f"])
        #expect(try fixture.waiting == 1)
        try fixture.index.write(.remote) { transaction in
            var settler = Settler(transaction, owner: (0, 0), now: .zero)
            settler.movesLocalAside = true
            try settler.settle(Fixture.id(2))
        }
        #expect(try fixture.paths() == ["f", "f 2"])
        #expect(try fixture.found("f").id == Fixture.id(2))
        #expect(try fixture.found("f 2").id == Fixture.id(1) && fixture.found("f 2").dirty == [])
        #expect(try fixture.waiting == 0)
        try fixture.check()
        // Its own cloud is back.
        try fixture.receive(fixture.file(1, "g", at: 2))
        #expect(try fixture.paths() == ["f", "g"])
    }

    @Test func itemThatWaitsForItsPlaceGetsOneWhenTheCloudIsAnotherOne() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.folder(1, "a"), fixture.folder(2, "b"))
        // The folder that the second one moves into is unknown, and the first one gets its name.
        try fixture.receive(fixture.folder(2, "c", in: Fixture.id(9), at: 2), fixture.folder(1, "b", at: 3))
        #expect(try fixture.paths() == ["b"])
        try startOver(fixture)
        #expect(try fixture.paths() == ["b", "c"])
        #expect(try fixture.found("c").id == Fixture.id(2) && fixture.found("c").dirty == .created)
        try fixture.check()
    }

    @Test func itemThatWaitsForTheNameOfTheVersionsFolderGetsAnother() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.file(1, "f"))
        try fixture.materialize("f")
        try fixture.receive(fixture.file(1, ".versions", at: 2), fixture.file(2, "f", at: 3))
        #expect(try fixture.paths() == ["f"])
        try startOver(fixture)
        #expect(try fixture.paths() == ["Recovered", "f"])
        #expect(try fixture.found("Recovered").id == Fixture.id(1))
        try fixture.check()
    }

    @Test func linkWithoutAPlaceGoesWithItsTargetWhenTheCloudIsAnotherOne() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.file(1, "f"), link(2, "l", to: 1))
        // The folder that the link moves into is unknown, and a file gets its name.
        var moved = try link(2, "x", to: 1, at: 2)
        moved.parent = Fixture.id(9)
        try fixture.receive(moved, fixture.file(3, "l", at: 3))
        #expect(try fixture.paths() == ["f", "l"])
        try fixture.remove("f")
        try startOver(fixture)
        #expect(try fixture.paths() == ["l"])
        try fixture.check()
    }

    @Test func deletedFolderTakesAlongThePlaceholdersOfAnotherCloud() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.folder(1, "d"), fixture.file(2, "in", in: Fixture.id(1)))
        try startOver(fixture)
        let group = try fixture.plan(fixture.dirty()).group
        try fixture.apply(group, try group.map { ChangeResult(outcome: .applied, item: try fixture.answer($0)) })
        #expect(try fixture.paths() == ["d", "d/in"])
        var deletion = fixture.folder(1, "d", at: 1000)
        deletion.isDeleted = true
        try fixture.receive(deletion)
        #expect(try fixture.paths() == [])
        #expect(try fixture.waiting == 0)
        try fixture.check()
    }

    /// Applied, the answer would make the link lead to itself.
    @Test func answerThatMergesAFileIntoItsLinkIsRefused() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.file(1, "f"), link(2, "l", to: 1))
        try fixture.make("new")
        let rows = try fixture.dirty()
        let group = try fixture.plan(rows, prepared: fixture.prepared(rows)).group
        let error = #expect(throws: UbiquityError.self) {
            try fixture.apply(group, [ChangeResult(outcome: .merged(into: Fixture.id(2)), item: nil)])
        }
        #expect(error?.code == .invalid)
        #expect(try fixture.row("l")?.id == Fixture.id(1))
        try fixture.check()
    }

    /// The other item waits for its folder: the device has its record, and no row.
    @Test func answerThatMergesALinkIntoAFileWithoutARowIsRefused() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.file(1, "f"), fixture.file(2, "g", in: Fixture.id(9)))
        let link = try fixture.index.link(ino: fixture.found("f").ino, in: 1, named: ItemName("l"))
        #expect(link.id == Fixture.id(1))
        let group = try fixture.plan(fixture.dirty()).group
        let error = #expect(throws: UbiquityError.self) {
            try fixture.apply(group, [ChangeResult(outcome: .merged(into: Fixture.id(2)), item: nil)])
        }
        #expect(error?.code == .invalid)
        #expect(try fixture.row("l")?.id == Fixture.id(1))
        try fixture.check()
    }

    @Test func folderMovedDeeperThanAnyPathDoesNotStopTheFeed() throws {
        let fixture = try Fixture(), count = UInt64(Limits.maximumDepth + 20)
        try fixture.index.write(.remote) { transaction in
            var settler = Settler(transaction, owner: (0, 0), now: fixture.time.now())
            for number in 1...count {
                try settler.receive(
                    fixture.folder(number, "d", in: number == 1 ? .root : Fixture.id(number - 1)))
            }
            try settler.receive(fixture.folder(count + 1, "m"))
            try settler.receive(fixture.folder(count + 1, "m", in: Fixture.id(count), at: 2))
            try settler.receive(fixture.file(count + 2, "f", at: 2))
        }
        #expect(try fixture.row("f") != nil)
    }
}
