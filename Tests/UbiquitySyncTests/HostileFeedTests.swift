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
