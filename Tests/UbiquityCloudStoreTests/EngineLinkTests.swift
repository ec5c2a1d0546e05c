import Testing
import UbiquityCloudStore
import UbiquityCore
import UbiquityWire

/// Hard links at the cloud.
struct EngineLinkTests {
    @Test func deletionWithoutKnowledgeOfANameIsRefused() throws {
        let bench = EngineBench()
        try bench.commit(EngineBench.here, Make.file(1, "a", version: 1))
        try bench.commit(EngineBench.there, Make.hardLink(2, "b", to: 1))
        try bench.commit(EngineBench.here, Make.delete(1, base: 1))
        #expect(try #require(bench.items[.number(1)]).isLive)
        // A device that knows both deletes both, in any order.
        try bench.commit(EngineBench.here, Make.delete(1, base: 3), Make.delete(2, .hardLink, base: 3))
        #expect(try #require(bench.items[.number(1)]).isLive == false)
        #expect(try #require(bench.items[.number(2)]).isLive == false)
    }

    @Test func newNameRestoresAFile() throws {
        let bench = EngineBench()
        try bench.commit(EngineBench.here, Make.file(1, "a", version: 1))
        try bench.commit(EngineBench.here, Make.delete(1, base: 1))
        try bench.commit(EngineBench.there, Make.hardLink(2, "b", to: 1))
        #expect(try #require(bench.items[.number(1)]).isLive)
        #expect(try #require(bench.items[.number(2)]).isLive)
    }

    @Test func deletedEntryMovesToAnotherName() throws {
        let bench = EngineBench()
        try bench.commit(EngineBench.here, Make.file(1, "a", version: 1), Make.hardLink(2, "b", to: 1))
        try bench.commit(
            EngineBench.here, Make.move(1, base: 1, to: "b"), Make.delete(2, .hardLink, base: 1))
        #expect(try #require(bench.items[.number(1)]).name == ItemName("b"))
        // The first of a file's two names was deleted: the trash shows that one.
        let deleted = try #require(bench.items[.number(2)])
        #expect(try deleted.name == ItemName("a") && !deleted.isLive)
        try bench.commit(
            EngineBench.there,
            ItemChange(
                id: .number(2), kind: .hardLink, baseRevision: bench.revision, changedAt: .at(600),
                action: .undelete(nil)))
        #expect(try bench.items[.number(2)]?.isLive == true && bench.items[.number(2)]?.name == ItemName("a"))
        #expect(try bench.items[.number(1)]?.name == ItemName("b"))
    }

    @Test func linkToUnknownItemIsDropped() throws {
        let bench = EngineBench()
        let plan = try bench.commit(EngineBench.here, Make.hardLink(2, "b", to: 1))
        #expect(plan.outcomes == [.unknownItem])
        #expect(bench.items[.number(2)] == nil)
    }

    /// A record that leads to itself, to a link or to a folder would block every device that reads it.
    @Test(arguments: [2, 3, 4]) func retargetOfALinkToAnythingButAFileIsRefused(target: UInt64) throws {
        let bench = EngineBench()
        try bench.commit(
            EngineBench.here, Make.file(1, "a", version: 1), Make.hardLink(2, "b", to: 1), Make.hardLink(3, "c", to: 1),
            Make.folder(4, "d"))
        let retarget = Make.put(2, kind: .hardLink, base: 1, ChangedFields(linkTarget: ItemID.number(target).bytes))
        #expect(throws: UbiquityError.self) { try bench.commit(EngineBench.there, retarget) }
        #expect(bench.items[.number(2)]?.linkTarget == ItemID.number(1).bytes)
    }

    @Test func retargetOfALinkToAnUnknownItemIsNotApplied() throws {
        let bench = EngineBench()
        try bench.commit(EngineBench.here, Make.file(1, "a", version: 1), Make.hardLink(2, "b", to: 1))
        let retarget = Make.put(2, kind: .hardLink, base: 1, ChangedFields(linkTarget: ItemID.number(9).bytes))
        let plan = try bench.commit(EngineBench.there, retarget)
        #expect(plan.outcomes == [.unknownItem])
        #expect(bench.items[.number(2)]?.linkTarget == ItemID.number(1).bytes)
    }

    @Test func retargetOfALinkToAnotherFileHolds() throws {
        let bench = EngineBench()
        try bench.commit(
            EngineBench.here, Make.file(1, "a", version: 1), Make.file(5, "e", version: 5, "y"),
            Make.hardLink(2, "b", to: 1))
        let retarget = Make.put(2, kind: .hardLink, base: 1, ChangedFields(linkTarget: ItemID.number(5).bytes))
        try bench.commit(EngineBench.there, retarget)
        #expect(bench.items[.number(2)]?.linkTarget == ItemID.number(5).bytes)
    }

    @Test func retargetOfALinkToADeletedFileRestoresIt() throws {
        let bench = EngineBench()
        try bench.commit(
            EngineBench.here, Make.file(1, "a", version: 1), Make.file(5, "e", version: 5, "y"),
            Make.hardLink(2, "b", to: 1))
        try bench.commit(EngineBench.here, Make.delete(5, base: 1))
        let retarget = Make.put(2, kind: .hardLink, base: 1, ChangedFields(linkTarget: ItemID.number(5).bytes))
        try bench.commit(EngineBench.there, retarget)
        #expect(bench.items[.number(5)]?.isLive == true)
    }

    @Test func hardLinkToAFolderIsRefused() throws {
        let bench = EngineBench()
        try bench.commit(EngineBench.here, Make.folder(1, "d"))
        #expect(throws: UbiquityError.self) { try bench.commit(EngineBench.here, Make.hardLink(2, "b", to: 1)) }
    }

    @Test func namesFollowAMergedFile() throws {
        let bench = EngineBench()
        try bench.commit(EngineBench.here, Make.file(1, "a", version: 1, "x"))
        let plan = try bench.commit(
            EngineBench.there, Make.hardLink(3, "c", to: 2), Make.file(2, "a", version: 2, "y"))
        #expect(plan.outcomes == [.applied(.number(3)), .merged(into: .number(1))])
        #expect(try #require(bench.items[.number(3)]).linkTarget == ItemID.number(1).bytes)
    }

    @Test func sameLinkByTwoDevicesIsOne() throws {
        let bench = EngineBench()
        try bench.commit(EngineBench.here, Make.file(1, "a", version: 1), Make.file(9, "z", version: 9))
        try bench.commit(EngineBench.here, Make.hardLink(2, "b", to: 1))
        #expect(try bench.commit(EngineBench.there, Make.hardLink(3, "b", to: 1)).outcomes == [.merged(into: .number(2))])
        try bench.commit(EngineBench.there, Make.hardLink(4, "b", to: 9))
        #expect(try #require(bench.items[.number(4)]).name == ItemName("b 2"))
    }
}
