import Testing
import UbiquityCloudStore
import UbiquityCore
import UbiquityWire

/// Two items with one name.
@Suite struct EngineNameTests {
    private let bench = EngineBench()
    private let here = EngineBench.here
    private let there = EngineBench.there
    private let documents = ItemID.number(100)

    init() throws { try bench.commit(here, Make.folder(100, "Documents")) }

    @Test func secondFileUnderDocumentsGetsANumber() throws {
        try bench.commit(here, Make.file(1, "report.txt", in: documents, version: 1, "x"))
        try bench.commit(there, Make.file(2, "report.txt", in: documents, version: 2, "z"))
        let plan = try bench.commit(there, Make.file(3, "report.txt", in: documents, version: 3, "y"))
        #expect(bench.livePaths.dropFirst() == [
            "Documents/report 2.txt", "Documents/report 3.txt", "Documents/report.txt",
        ])
        #expect(plan.outcomes == [.applied(.number(3))])
        #expect(bench.path(.number(3)) == "Documents/report 3.txt")
    }

    /// The order of three devices must not decide whether two equal documents merge.
    @Test func equalFilesUnderDocumentsMergeDespiteANumber() throws {
        try bench.commit(here, Make.file(1, "report.txt", in: documents, version: 1, "z"))
        try bench.commit(there, Make.file(2, "report.txt", in: documents, version: 2, "x"))
        try bench.commit(here, Make.file(3, "report.txt", in: documents, version: 3, "y"))
        let plan = try bench.commit(DeviceID(high: 7, low: 7), Make.file(4, "report.txt", in: documents, version: 4, "x"))
        #expect(plan.outcomes == [.merged(into: .number(2))])
        #expect(bench.livePaths.dropFirst() == [
            "Documents/report 2.txt", "Documents/report 3.txt", "Documents/report.txt",
        ])
        // Two files in one commit are two documents: the device has them side by side.
        let both = try bench.commit(
            there, Make.file(5, "report.txt", in: documents, version: 5, "q"),
            Make.file(6, "report 4.txt", in: documents, version: 6, "q"))
        #expect(both.outcomes == [.applied(.number(5)), .applied(.number(6))])
    }

    @Test func numberingAppliesAtAnyDepthOfDocuments() throws {
        try bench.commit(here, Make.folder(1, "d", in: documents), Make.file(2, "f", in: .number(1), version: 1))
        try bench.commit(there, Make.file(3, "f", in: .number(1), version: 2, "y"))
        #expect(bench.path(.number(3)) == "Documents/d/f 2")
    }

    @Test func nestedDocumentsFolderIsOrdinary() throws {
        try bench.commit(
            here, Make.folder(1, "app"), Make.folder(2, "Documents", in: .number(1)),
            Make.file(3, "f", in: .number(2), version: 1))
        let plan = try bench.commit(there, Make.file(4, "f", in: .number(2), version: 2, "y"))
        #expect(plan.outcomes == [.merged(into: .number(3))])
    }

    @Test func filesElsewhereMergeAsTwoVersions() throws {
        try bench.commit(here, Make.file(1, "a", version: 1, "x", at: 200))
        let plan = try bench.commit(there, Make.file(2, "a", version: 2, "y", at: 300))
        #expect(plan.outcomes == [.merged(into: .number(1))])
        #expect(bench.livePaths == ["Documents", "a"] && bench.item(.number(2)) == nil)
        let item = try #require(bench.item(.number(1)))
        #expect(item.version == .number(2) && item.conflictCount == 1 && item.modifiedAt == .at(300))
        #expect(bench.version(.number(1))?.role == .conflict)
    }

    @Test func equalFilesElsewhereMerge() throws {
        try bench.commit(here, Make.file(1, "a", version: 1, "x", at: 200))
        let plan = try bench.commit(there, Make.file(2, "a", version: 2, "x", at: 300))
        #expect(plan.outcomes == [.merged(into: .number(1))])
        #expect(bench.item(.number(1))?.version == .number(1) && bench.item(.number(1))?.conflictCount == 0)
        #expect(bench.version(.number(2)) == nil)
    }

    /// Seed 4301520 of the simulator: an item that another item of the commit was merged into still has its name.
    @Test func mergedItemsNameStaysTaken() throws {
        try bench.commit(here, Make.folder(1, "b"), Make.file(2, "b 2", version: 1, "x"))
        let plan = try bench.commit(
            there, Make.file(3, "b 2", version: 2, "y"), Make.file(4, "b", version: 3, "z"))
        #expect(plan.outcomes == [.merged(into: .number(2)), .applied(.number(4))])
        #expect(bench.livePaths == ["Documents", "b", "b 2", "b 3"])
        #expect(bench.path(.number(4)) == "b 3")
    }

    @Test func foldersMergeWithAllChildren() throws {
        try bench.commit(here, Make.folder(1, "d", in: documents), Make.file(2, "f", in: .number(1), version: 1))
        let plan = try bench.commit(
            there, Make.file(4, "g", in: .number(3), version: 2), Make.file(5, "f", in: .number(3), version: 3, "y"),
            Make.folder(6, "sub", in: .number(3)), Make.folder(3, "d", in: documents))
        #expect(plan.outcomes == [
            .applied(.number(4)), .applied(.number(5)), .applied(.number(6)), .merged(into: .number(1)),
        ])
        #expect(bench.livePaths.dropFirst() == [
            "Documents/d", "Documents/d/f", "Documents/d/f 2", "Documents/d/g", "Documents/d/sub",
        ])
    }

    @Test func foldersMergeLevelByLevel() throws {
        let changes = { (first: UInt64) in
            [
                try Make.folder(first, "p"), try Make.folder(first + 1, "q", in: .number(first)),
                try Make.file(first + 2, "f", in: .number(first + 1), version: first, "x"),
            ]
        }
        try bench.commit(here, changes(1))
        let plan = try bench.commit(there, changes(11).reversed())
        #expect(plan.outcomes == [.merged(into: .number(3)), .merged(into: .number(2)), .merged(into: .number(1))])
        #expect(bench.livePaths == ["Documents", "p", "p/q", "p/q/f"])
        #expect(plan.newManifests.isEmpty)
    }

    @Test func equalSymlinksMergeOthersGetANumber() throws {
        try bench.commit(here, Make.link(1, "l", to: "x"))
        let same = try bench.commit(there, Make.link(2, "l", to: "x"))
        #expect(same.outcomes == [.merged(into: .number(1))])
        try bench.commit(there, Make.link(3, "l", to: "y"))
        #expect(bench.path(.number(3)) == "l 2")
    }

    @Test func differentKindsGetANumber() throws {
        try bench.commit(here, Make.folder(1, "a.b"))
        try bench.commit(there, Make.file(2, "a.b", version: 1))
        #expect(bench.path(.number(2)) == "a 2.b")
    }

    @Test func renameOntoATakenNameGetsANumber() throws {
        try bench.commit(here, Make.file(1, "a", version: 1), Make.file(2, "b", version: 2))
        try bench.commit(there, Make.move(2, base: 2, to: "a"))
        #expect(bench.path(.number(2)) == "a 2" && bench.path(.number(1)) == "a")
    }

    @Test func restoreToTakenNameGetsANumber() throws {
        try bench.commit(here, Make.file(1, "a", version: 1))
        try bench.commit(here, Make.delete(1, base: 2), Make.file(2, "a", version: 2, "y"))
        try bench.commit(there, Make.save(1, base: 2, version: 3, on: 1, "z"))
        #expect(bench.path(.number(1)) == "a 2" && bench.path(.number(2)) == "a")
    }

    @Test func refusedDeletionKeepsTheName() throws {
        try bench.commit(here, Make.file(1, "a", in: documents, version: 1))
        try bench.commit(there, Make.save(1, base: 2, version: 2, on: 1, "y"))
        try bench.commit(here, Make.delete(1, base: 2), Make.file(2, "a", in: documents, version: 3, "z"))
        #expect(bench.path(.number(1)) == "Documents/a" && bench.path(.number(2)) == "Documents/a 2")
    }

    @Test func manyEqualNamesAreDecidedQuickly() throws {
        let count = UInt64(Limits.maximumChangesPerCommit)
        let changes = try (1...count).map { try Make.file($0 + 1000, "f", in: documents, version: $0, nil) }
        let plan = try CommitEngine.plan(
            CommitRequest.of(changes), on: bench.container, revision: bench.revision, now: bench.now)
        #expect(Set(plan.items.map(\.name)).count == Int(count))
    }

    @Test func numberedNameIsShortened() throws {
        let name = String(repeating: "ü", count: 125) + ".text"
        try bench.commit(here, Make.file(1, name, in: documents, version: 1))
        try bench.commit(here, Make.file(2, name, in: documents, version: 2, "y"))
        let second = try #require(bench.item(.number(2))?.name)
        #expect(throws: Never.self) { try ItemName(second.bytes) }
        #expect(second.description.hasSuffix(" 2.text"))
    }
}
