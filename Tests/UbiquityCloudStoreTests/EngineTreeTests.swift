import Testing
import UbiquityCloudStore
import UbiquityCore

/// Places and deletions.
@Suite struct EngineTreeTests {
    private let bench = EngineBench()
    private let here = EngineBench.here
    private let there = EngineBench.there

    @Test func childrenMayPrecedeTheirParents() throws {
        let plan = try bench.commit(
            here, Make.file(3, "f", in: .number(2), version: 1), Make.folder(2, "e", in: .number(1)),
            Make.folder(1, "d"))
        #expect(bench.livePaths == ["d", "d/e", "d/e/f"])
        #expect(Set(plan.items.map(\.revision)) == [Revision(1)])
    }

    @Test func twoItemsSwapTheirNames() throws {
        try bench.commit(here, Make.file(1, "a", version: 1), Make.file(2, "b", version: 2))
        try bench.commit(here, Make.move(1, base: 1, to: "b"), Make.move(2, base: 1, to: "a"))
        #expect(bench.path(.number(1)) == "b" && bench.path(.number(2)) == "a")
    }

    @Test func deletionFreesANameInTheSameCommit() throws {
        try bench.commit(here, Make.file(1, "a", version: 1))
        try bench.commit(here, Make.file(2, "a", version: 2, "y"), Make.delete(1, base: 1))
        #expect(bench.path(.number(2)) == "a" && bench.path(.number(1)) == nil)
    }

    /// A delayed deletion from before does not delete an item that was restored since.
    @Test func itemRestoredFromTrashStays() throws {
        try bench.commit(here, Make.file(1, "a", version: 1), Make.file(2, "b", version: 2))
        try bench.commit(here, Make.delete(1, base: 1), Make.delete(2, base: 1))
        try bench.commit(here, Make.undelete(1), Make.undelete(2))
        try bench.commit(there, Make.delete(1, base: 1))
        #expect(bench.livePaths == ["a", "b"])
        // A deletion that knows the restoration does.
        try bench.commit(there, Make.delete(1, base: 3))
        try bench.commit(here, Make.delete(2, base: 1))
        #expect(bench.livePaths == [])
    }

    @Test func firstOfTwoFoldersMovedIntoEachOtherWins() throws {
        try bench.commit(here, Make.folder(1, "a"), Make.folder(2, "b"))
        try bench.commit(here, Make.move(1, .directory, base: 1, at: 200, to: "a", in: .number(2)))
        let plan = try bench.commit(there, Make.move(2, .directory, base: 1, at: 300, to: "b", in: .number(1)))
        #expect(bench.livePaths == ["b", "b/a"])
        #expect(plan.outcomes == [.applied(.number(2))] && plan.items.isEmpty)
    }

    @Test func folderMoveBelowItselfIsRefused() throws {
        try bench.commit(here, Make.folder(1, "a"), Make.folder(2, "b", in: .number(1)))
        try bench.commit(
            here, Make.move(1, .directory, base: 1, to: "a", in: .number(3)),
            Make.folder(3, "c", in: .number(2)))
        #expect(bench.livePaths == ["a", "a/b", "a/b/c"])
    }

    @Test func undoneMoveMayUndoAnother() throws {
        // d holds m2; m1 moves into m2, and the third move takes m2 out of m1 but into itself.
        try bench.commit(
            here, Make.folder(1, "m1"), Make.folder(2, "m2", in: .number(1)), Make.folder(3, "q", in: .number(2)))
        try bench.commit(
            there, Make.move(1, .directory, base: 1, to: "m1", in: .number(2)),
            Make.move(2, .directory, base: 1, to: "m2", in: .number(3)))
        #expect(bench.livePaths == ["m1", "m1/m2", "m1/m2/q"])
    }

    // MARK: Deletions

    @Test func remoteEditWinsOverADeletion() throws {
        try bench.commit(here, Make.file(1, "a", version: 1))
        try bench.commit(there, Make.save(1, base: 1, version: 2, on: 1, "y"))
        let plan = try bench.commit(here, Make.delete(1, base: 1))
        #expect(bench.livePaths == ["a"] && plan.items.isEmpty && plan.outcomes == [.applied(.number(1))])
    }

    @Test func editRestoresARemotelyDeletedItem() throws {
        try bench.commit(here, Make.folder(2, "d"), Make.file(1, "a", in: .number(2), version: 1))
        try bench.commit(there, Make.delete(1, base: 1), Make.delete(2, .directory, base: 1))
        #expect(bench.livePaths.isEmpty && bench.usedBytes == 0)
        try bench.commit(here, Make.save(1, base: 1, version: 2, on: 1, "y"))
        #expect(bench.livePaths == ["d", "d/a"] && bench.item(.number(1))?.version == .number(2))
    }

    @Test func ownEditDoesNotPreventOwnDeletion() throws {
        try bench.commit(here, Make.file(1, "a", version: 1))
        try bench.commit(here, Make.save(1, base: 1, version: 2, on: 1, "y"))
        try bench.commit(here, Make.delete(1, base: 1))
        #expect(bench.livePaths.isEmpty)
    }

    @Test func remoteRenameDoesNotPreventADeletion() throws {
        try bench.commit(here, Make.file(1, "a", version: 1))
        try bench.commit(there, Make.move(1, base: 1, to: "b"))
        try bench.commit(here, Make.delete(1, base: 1))
        #expect(bench.livePaths.isEmpty)
    }

    @Test func fieldsOfADeletedItemChangeInTheTrash() throws {
        try bench.commit(here, Make.file(1, "a", version: 1))
        try bench.commit(there, Make.delete(1, base: 1))
        let plan = try bench.commit(here, Make.put(1, base: 1, at: 600, ChangedFields(mode: 0o600)))
        #expect(bench.livePaths.isEmpty && bench.item(.number(1))?.mode == 0o600)
        #expect(plan.outcomes == [.applied(.number(1))])
        try bench.commit(here, Make.move(1, base: 1, at: 600, to: "b"))
        #expect(bench.livePaths.isEmpty)
    }

    @Test func repeatedDeletionDoesNothing() throws {
        try bench.commit(here, Make.file(1, "a", version: 1))
        try bench.commit(there, Make.delete(1, base: 1))
        let before = bench.revision
        try bench.commit(here, Make.delete(1, base: 1))
        #expect(bench.revision == before)
    }

    @Test func treeIsDeletedInOneCommit() throws {
        try bench.commit(
            here, Make.folder(1, "a"), Make.folder(2, "b", in: .number(1)),
            Make.file(3, "c", in: .number(2), version: 1))
        try bench.commit(
            here, Make.delete(1, .directory, base: 1), Make.delete(2, .directory, base: 1), Make.delete(3, base: 1))
        #expect(bench.livePaths.isEmpty)
    }

    @Test func folderStaysForARemoteCreation() throws {
        try bench.commit(here, Make.folder(1, "a"), Make.file(2, "old", in: .number(1), version: 1))
        try bench.commit(there, Make.file(3, "new", in: .number(1), version: 2))
        try bench.commit(here, Make.delete(2, base: 1), Make.delete(1, .directory, base: 1))
        #expect(bench.livePaths == ["a", "a/new"])
    }

    @Test func folderStaysForARemoteEdit() throws {
        try bench.commit(here, Make.folder(1, "a"), Make.file(2, "f", in: .number(1), version: 1))
        try bench.commit(there, Make.save(2, base: 1, version: 2, on: 1, "y"))
        try bench.commit(here, Make.delete(2, base: 1), Make.delete(1, .directory, base: 1))
        #expect(bench.livePaths == ["a", "a/f"])
    }

    @Test func creationRestoresItsDeletedFolder() throws {
        try bench.commit(here, Make.folder(1, "a"), Make.folder(2, "b", in: .number(1)))
        try bench.commit(there, Make.delete(1, .directory, base: 1), Make.delete(2, .directory, base: 1))
        try bench.commit(here, Make.file(3, "f", in: .number(2), version: 1))
        #expect(bench.livePaths == ["a", "a/b", "a/b/f"])
    }

    @Test func folderIsDeletedAfterItsLastChildMovesOut() throws {
        try bench.commit(here, Make.folder(1, "a"), Make.file(2, "f", in: .number(1), version: 1))
        try bench.commit(here, Make.move(2, base: 1, to: "f"), Make.delete(1, .directory, base: 1))
        #expect(bench.livePaths == ["f"])
    }

    @Test func chunksThatArriveForADeletedItemLeaveItDeleted() throws {
        try bench.commit(here, Make.file(1, "a", version: 1, nil))
        try bench.commit(there, Make.delete(1, base: 1))
        try bench.commit(here, Make.save(1, base: 1, version: 1, on: nil, "x"))
        #expect(bench.livePaths.isEmpty && bench.version(.number(1))?.isAvailable == true)
    }

    @Test func deletionIsUndoneByADeviceThatKnowsIt() throws {
        try bench.commit(here, Make.file(1, "a", version: 1))
        try bench.commit(there, Make.delete(1, base: 1))
        try bench.commit(here, Make.save(1, base: 2, version: 1, on: nil, "x"))
        #expect(bench.livePaths == ["a"])
    }

    /// Every folder of a chain moves into the innermost: each undone move closes another circle, as many as folders.
    @Test func manyCirclesAreUndoneQuickly() throws {
        let bench = EngineBench(), count: UInt64 = 400
        for number in 1...count {
            try bench.commit(EngineBench.here, Make.folder(number, "d", in: number == 1 ? .root : .number(number - 1)))
        }
        let before = bench.livePaths, base = bench.revision.number
        let moves = try (1..<count).map { number in
            try Make.move(number, .directory, base: base, to: "d\(number)", in: .number(count))
        }
        try bench.commit(EngineBench.there, moves)
        #expect(bench.livePaths == before)
    }
}
