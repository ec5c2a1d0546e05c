import Testing
import UbiquityCloudStore
import UbiquityCore

/// Resolutions of versions, and restorations from the trash.
@Suite struct EngineVersionTests {
    private let bench = EngineBench()
    private let id = ItemID.number(1)

    /// One file with the versions 1 (history), 2 (current) and 3 (in conflict).
    init() throws {
        try bench.commit(EngineBench.here, Make.file(1, "a.txt", version: 1, "x"))
        try bench.commit(EngineBench.there, Make.save(1, base: 1, at: 300, version: 2, on: 1, "y"))
        try bench.commit(EngineBench.here, Make.save(1, base: 1, at: 200, version: 3, on: 1, "z"))
    }

    private func role(_ version: UInt64) -> VersionRecord.Role? { bench.version(.number(version))?.role }

    @Test func recordCountsConflictsAndHistory() throws {
        let item = try #require(bench.item(id))
        let remote = item.remoteItem(bench.version(.number(2)), conflicts: bench.conflicts(of: id))
        #expect(remote.hasHistory && remote.conflictCount == 1)
        let conflict = try #require(remote.conflicts.first)
        #expect(conflict.id == .number(3) && conflict.kind == .conflict && conflict.content.deviceName == "1")
        #expect(conflict.savedName == (try ItemName("a.txt")) && conflict.modifiedAt == .at(200))
        #expect(conflict.baseVersion == .number(1) && conflict.content.isAvailable)
        #expect(conflict.content.manifest == (try Make.manifest("z")))
    }

    @Test func versionKeepsItsNameAtTheSave() throws {
        // Renamed and saved before the device was online again: both in one change.
        try bench.commit(
            EngineBench.here,
            Make.put(
                1, base: 2, at: 400,
                ChangedFields(
                    place: Make.place("b.txt"), modifiedAt: .at(400), content: Make.content(4, on: 2, "u"))))
        try bench.commit(EngineBench.here, Make.move(1, base: 4, at: 500, to: "c.txt"))
        try bench.commit(EngineBench.there, Make.save(1, base: 5, at: 600, version: 5, on: 4, "v"))
        let names = [2, 4, 5].map { bench.version(.number($0))?.savedName.description }
        #expect(names == ["a.txt", "b.txt", "c.txt"])
    }

    /// A conflict version moved over the file makes an edit, and the move resolves that version next. A concurrent edit
    /// by another device wins, and the choice is in conflict with it.
    @Test func losingChoiceIsKept() throws {
        try bench.commit(EngineBench.there, Make.save(1, base: 3, at: 500, version: 5, on: 2, "n"))
        try bench.commit(EngineBench.here, Make.save(1, base: 3, at: 400, version: 4, on: 2, "z"))
        try bench.commit(EngineBench.here, Make.versions(1, .resolve(.number(3))))
        #expect(role(5) == .current && role(4) == .conflict && role(3) == .history)
        #expect(bench.item(id)?.conflictCount == 1)
    }

    @Test func resolvedConflictBecomesHistory() throws {
        let plan = try bench.commit(EngineBench.there, Make.versions(1, .resolve(.number(3))))
        #expect(plan.items.count == 1 && plan.usageDelta == -10)
        #expect(role(3) == .resolved && role(2) == .current && bench.item(id)?.conflictCount == 0)
        #expect(bench.version(.number(3))?.supersededAt == bench.now)
        let again = try bench.commit(EngineBench.here, Make.versions(1, .resolve(.number(3)), .remove(.number(77))))
        #expect(again.items.isEmpty && again.revision == plan.revision)
    }

    @Test func resolutionIsNoEdit() throws {
        try bench.commit(EngineBench.there, Make.versions(1, .resolve(.number(3))))
        try bench.commit(EngineBench.here, Make.delete(1, base: 3))
        #expect(bench.item(id)?.isLive == false)
    }

    @Test func removalTakesHistoryAndOnlyResolvesAConflict() throws {
        let plan = try bench.commit(EngineBench.here, Make.versions(1, .remove(.number(1)), .remove(.number(2)), .remove(.number(3))))
        #expect(plan.removedVersions == [.number(1)])
        #expect(role(1) == nil && role(2) == .current && role(3) == .resolved)
        #expect(bench.item(id)?.hasHistory == false)
        try bench.commit(EngineBench.here, Make.versions(1, .remove(.number(3))))
        #expect(role(3) == nil)
    }

    @Test func restoreMakesANewVersionAndResolves() throws {
        try bench.commit(EngineBench.here, Make.versions(1, at: 900, .restore(.number(3), as: .number(4), base: .number(2))))
        #expect(bench.item(id)?.version == .number(4) && bench.item(id)?.modifiedAt == .at(900))
        #expect(bench.version(.number(4))?.manifest == (try Make.manifest("z")))
        #expect(role(2) == .history && role(3) != .conflict && bench.item(id)?.conflictCount == 0)
        // A lost answer: the same commit once more.
        let again = try bench.commit(EngineBench.here, Make.versions(1, .restore(.number(3), as: .number(4), base: .number(2))))
        #expect(again.items.isEmpty)
    }

    @Test func restoreWithoutKnowledgeOfNewerEditKeepsIt() throws {
        try bench.commit(EngineBench.there, Make.save(1, base: 2, at: 950, version: 5, on: 2, "w"))
        try bench.commit(EngineBench.here, Make.versions(1, at: 900, .restore(.number(1), as: .number(6), base: .number(2))))
        #expect(bench.item(id)?.version == .number(5) && role(6) == .conflict && role(1) == .history)
    }

    @Test func losingRestoreOfConflictStaysInConflict() throws {
        try bench.commit(EngineBench.there, Make.save(1, base: 2, at: 950, version: 5, on: 2, "w"))
        try bench.commit(EngineBench.here, Make.versions(1, at: 900, .restore(.number(3), as: .number(6), base: .number(2))))
        #expect(bench.item(id)?.version == .number(5) && role(3) == .resolved)
        #expect(role(6) == .conflict && bench.item(id)?.conflictCount == 1)
    }

    @Test func restoringAVersionOfADeletedFileRestoresTheFile() throws {
        try bench.commit(EngineBench.here, Make.delete(1, base: 3))
        try bench.commit(EngineBench.here, Make.versions(1, .restore(.number(1), as: .number(6), base: .number(2))))
        #expect(bench.path(id) == "a.txt" && bench.item(id)?.version == .number(6))
    }

    @Test func versionsOfAnotherItemAreNotTouched() throws {
        try bench.commit(EngineBench.here, Make.file(2, "b", version: 8, "q"))
        try bench.commit(EngineBench.here, Make.versions(
            2, .resolve(.number(3)), .remove(.number(1)), .restore(.number(1), as: .number(9), base: nil)))
        #expect(role(3) == .conflict && role(1) == .history && bench.version(.number(9)) == nil)
    }

    // MARK: Lines of edits

    @Test func editOfConflictVersionReplacesIt() throws {
        // Both devices continue from their versions: two lines, one conflict, however often each saves.
        try bench.commit(EngineBench.here, Make.save(1, base: 3, at: 400, version: 4, on: 3, "p"))
        #expect(bench.item(id)?.version == .number(4) && role(3) == .history && role(2) == .conflict)
        try bench.commit(EngineBench.there, Make.save(1, base: 2, at: 350, version: 5, on: 2, "q"))
        #expect(bench.item(id)?.version == .number(4) && role(2) == .history && role(5) == .conflict)
        try bench.commit(EngineBench.there, Make.save(1, base: 2, at: 500, version: 6, on: 5, "r"))
        #expect(bench.item(id)?.version == .number(6) && role(5) == .history && role(4) == .conflict)
        #expect(bench.item(id)?.conflictCount == 1)
        // A save without a change resolves nothing.
        try bench.commit(EngineBench.here, Make.save(1, base: 3, at: 600, version: 7, on: 4, "p"))
        #expect(bench.item(id)?.version == .number(6) && role(4) == .conflict)
        // A line that reaches the other's content has ended.
        try bench.commit(EngineBench.here, Make.save(1, base: 3, at: 700, version: 8, on: 4, "r"))
        #expect(bench.item(id)?.version == .number(6) && role(4) == .history && bench.item(id)?.conflictCount == 0)
    }

    // MARK: The trash

    @Test func deletedItemIsRestoredWithItsFolder() throws {
        try bench.commit(EngineBench.here, Make.folder(10, "d"))
        try bench.commit(EngineBench.here, Make.file(11, "f", in: .number(10), version: 20, "q"))
        try bench.commit(EngineBench.here, Make.delete(11, base: 9), Make.delete(10, .directory, base: 9))
        #expect(bench.path(.number(11)) == nil)
        try bench.commit(EngineBench.here, Make.undelete(11))
        #expect(bench.path(.number(11)) == "d/f")
        #expect(bench.item(.number(11))?.version == .number(20))
    }

    @Test func restoreToATakenNameIsNumbered() throws {
        try bench.commit(EngineBench.here, Make.delete(1, base: 3))
        try bench.commit(EngineBench.here, Make.file(2, "a.txt", version: 8, "q"))
        try bench.commit(EngineBench.here, Make.undelete(1))
        #expect(bench.path(id) == "a 2.txt")
    }

    @Test func itemIsRestoredToAnotherFolder() throws {
        try bench.commit(EngineBench.here, Make.folder(10, "d"))
        try bench.commit(EngineBench.here, Make.delete(1, base: 3))
        try bench.commit(EngineBench.here, Make.undelete(1, to: Make.place("new", in: .number(10))))
        #expect(bench.path(id) == "d/new")
        #expect(try bench.commit(EngineBench.here, Make.undelete(1)).items.isEmpty)
    }

    @Test func folderIsNotRestoredIntoItself() throws {
        try bench.commit(EngineBench.here, Make.folder(10, "d"), Make.folder(11, "e", in: .number(10)))
        try bench.commit(EngineBench.here, Make.delete(10, .directory, base: 9), Make.delete(11, .directory, base: 9))
        #expect(throws: UbiquityError.self) {
            try bench.commit(EngineBench.here, Make.undelete(10, .directory, to: Make.place("d", in: .number(11))))
        }
    }

    @Test func versionsFolderNameIsReserved() throws {
        #expect(throws: UbiquityError.self) { try bench.commit(EngineBench.here, Make.folder(10, ".versions")) }
        #expect(throws: UbiquityError.self) { try bench.commit(EngineBench.here, Make.move(1, base: 3, to: ".versions")) }
    }
}
