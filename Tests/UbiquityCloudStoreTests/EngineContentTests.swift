import Testing
import UbiquityCloudStore
import UbiquityCore

@Suite struct EngineContentTests {
    private let bench = EngineBench()
    private let id = ItemID.number(1)

    init() throws { try bench.commit(EngineBench.here, Make.file(1, "a", version: 1, "x")) }

    private func expect(
        current: UInt64, conflicts: [UInt64] = [], history: [UInt64] = [],
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        func ids(_ role: VersionRecord.Role) -> [VersionID] {
            bench.versions.values.filter { $0.role == role }.map(\.id).sorted()
        }
        #expect(bench.item(id)?.version == .number(current), sourceLocation: sourceLocation)
        #expect(ids(.conflict) == conflicts.map(VersionID.number), sourceLocation: sourceLocation)
        #expect(ids(.history) == history.map(VersionID.number), sourceLocation: sourceLocation)
    }

    @Test func editOfTheCurrentVersionReplacesIt() throws {
        try bench.commit(EngineBench.there, Make.save(1, base: 1, version: 2, on: 1, "y"))
        expect(current: 2, history: [1])
        #expect(bench.item(id)?.modifiedAt == .at(200))
    }

    @Test func newerOfTwoVersionsFromOneBaseWins() throws {
        try bench.commit(EngineBench.there, Make.save(1, base: 1, at: 300, version: 2, on: 1, "y"))
        try bench.commit(EngineBench.here, Make.save(1, base: 1, at: 200, version: 3, on: 1, "z"))
        expect(current: 2, conflicts: [3], history: [1])
        #expect(bench.item(id)?.modifiedAt == .at(300))
        #expect(bench.usedBytes == 20)
    }

    @Test func laterArrivalWinsIfNewer() throws {
        try bench.commit(EngineBench.there, Make.save(1, base: 1, at: 200, version: 2, on: 1, "y"))
        try bench.commit(EngineBench.here, Make.save(1, base: 1, at: 300, version: 3, on: 1, "z"))
        expect(current: 3, conflicts: [2], history: [1])
        #expect(bench.item(id)?.modifiedAt == .at(300))
    }

    /// A device that deletes the losing version has not seen the winner.
    @Test func deletionLosesToAnEditThatBeatTheOwnOne() throws {
        try bench.commit(EngineBench.there, Make.save(1, base: 1, at: 300, version: 2, on: 1, "y"))
        try bench.commit(EngineBench.here, Make.save(1, base: 1, at: 200, version: 3, on: 1, "z"))
        try bench.commit(EngineBench.here, Make.delete(1, base: 1))
        #expect(bench.item(id)?.isLive == true)
        expect(current: 2, conflicts: [3], history: [1])
        try bench.commit(EngineBench.here, Make.delete(1, base: bench.item(id)?.revision.number ?? 0))
        #expect(bench.item(id)?.isLive == false)
    }

    /// The same holds for a device that deletes the winner during the answer about the loser.
    @Test func deletionLosesToAnUnseenLosingEdit() throws {
        try bench.commit(EngineBench.there, Make.save(1, base: 1, at: 200, version: 2, on: 1, "y"))
        try bench.commit(EngineBench.here, Make.save(1, base: 1, at: 300, version: 3, on: 1, "z"))
        try bench.commit(EngineBench.here, Make.delete(1, base: 1))
        #expect(bench.item(id)?.isLive == true)
        expect(current: 3, conflicts: [2], history: [1])
        // The same holds for a device that has saved once more without knowing of it.
        try bench.commit(EngineBench.here, Make.save(1, base: 2, at: 400, version: 4, on: 3, "w"))
        try bench.commit(EngineBench.here, Make.delete(1, base: 2))
        #expect(bench.item(id)?.isLive == true)
        try bench.commit(EngineBench.here, Make.delete(1, base: bench.item(id)?.revision.number ?? 0))
        #expect(bench.item(id)?.isLive == false)
    }

    @Test func equalTimesAreDecidedByTheVersion() throws {
        try bench.commit(EngineBench.there, Make.save(1, base: 1, version: 3, on: 1, "y"))
        try bench.commit(EngineBench.here, Make.save(1, base: 1, version: 2, on: 1, "z"))
        expect(current: 3, conflicts: [2], history: [1])
    }

    @Test func clockAheadWinsNothing() throws {
        bench.now = .at(400)
        try bench.commit(EngineBench.there, Make.save(1, base: 1, at: 9000, version: 2, on: 1, "y"))
        bench.now = .at(500)
        try bench.commit(EngineBench.here, Make.save(1, base: 1, at: 450, version: 3, on: 1, "z"))
        expect(current: 3, conflicts: [2], history: [1])
    }

    /// A power loss made a device forget that the cloud has its version, and it has a later one. A file renamed over
    /// that one brings an older time with it.
    @Test(arguments: [100, 250, 400]) func deviceBeatsItsOwnEarlierEdit(mtime: Int64) throws {
        bench.now = .at(1000)
        try bench.commit(EngineBench.here, Make.save(1, base: 1, at: 300, version: 2, on: 1, "y"))
        try bench.commit(EngineBench.here, Make.save(1, base: 1, at: 301, mtime: mtime, version: 3, on: 1, "z"))
        expect(current: 3, conflicts: [2], history: [1])
        // It was made later than the version that it has beaten, whatever its time: so no third version may come in
        // between.
        try bench.commit(EngineBench.there, Make.save(1, base: 1, at: 299, version: 4, on: 1, "w"))
        expect(current: 3, conflicts: [2, 4], history: [1])
    }

    /// The remaining part of the same change, or an earlier unsynced state.
    @Test(arguments: [(300, 300), (300, 400), (299, 300), (200, 900)])
    func deviceDoesNotBeatItsOwnLaterEdit(time: Int64, mtime: Int64) throws {
        bench.now = .at(1000)
        try bench.commit(EngineBench.here, Make.save(1, base: 1, at: 300, version: 2, on: 1, "y"))
        try bench.commit(EngineBench.here, Make.save(1, base: 1, at: time, mtime: mtime, version: 3, on: 1, "z"))
        expect(current: 2, conflicts: [3], history: [1])
    }

    @Test func equalContentIsNoConflict() throws {
        try bench.commit(EngineBench.there, Make.save(1, base: 1, version: 2, on: 1, "y"))
        let plan = try bench.commit(EngineBench.here, Make.save(1, base: 1, version: 3, on: 1, "y"))
        expect(current: 2, history: [1])
        #expect(plan.newManifests.isEmpty)
    }

    /// Saved with the bytes of its base, before or after another device's edit: that is no edit.
    @Test(arguments: [150, 250]) func uneditedSaveIsNoConflict(time: Int64) throws {
        try bench.commit(EngineBench.there, Make.save(1, base: 1, at: 200, version: 2, on: 1, "y"))
        try bench.commit(EngineBench.here, Make.save(1, base: 1, at: time, version: 3, on: 1, "x"))
        expect(current: 2, history: [1])
        #expect(bench.item(id)?.modifiedAt == .at(200))
    }

    /// A device that does not know that the cloud has its edit, and has reverted it since.
    @Test func uneditedSaveAfterOwnEditWins() throws {
        try bench.commit(EngineBench.here, Make.save(1, base: 1, at: 200, version: 2, on: 1, "y"))
        try bench.commit(EngineBench.here, Make.save(1, base: 1, at: 250, version: 3, on: 1, "x"))
        expect(current: 3, conflicts: [2], history: [1])
    }

    /// A user wants it in the place of another device's edit.
    @Test func restoreOfTheBaseWins() throws {
        try bench.commit(EngineBench.there, Make.save(1, base: 1, at: 200, version: 2, on: 1, "y"))
        try bench.commit(EngineBench.here, Make.versions(1, at: 900, .restore(.number(1), as: .number(3), base: .number(1))))
        expect(current: 3, conflicts: [2], history: [1])
    }

    @Test func announcedVersionIsCompletedByItsChunks() throws {
        try bench.commit(EngineBench.there, Make.save(1, base: 1, version: 2, on: 1, nil))
        expect(current: 2, history: [1])
        #expect(bench.version(.number(2))?.isAvailable == false)
        let before = bench.revision
        try bench.commit(EngineBench.there, Make.save(1, base: 2, version: 2, on: 1, "y"))
        expect(current: 2, history: [1])
        #expect(bench.version(.number(2))?.isAvailable == true)
        #expect(bench.revision > before)
    }

    @Test func announcedConflictWithEqualContentEnds() throws {
        try bench.commit(EngineBench.there, Make.save(1, base: 1, at: 300, version: 2, on: 1, "y"))
        try bench.commit(EngineBench.here, Make.save(1, base: 1, at: 200, version: 3, on: 1, nil))
        expect(current: 2, conflicts: [3], history: [1])
        try bench.commit(EngineBench.here, Make.save(1, base: 3, at: 200, version: 3, on: 1, "y"))
        expect(current: 2, history: [1, 3])
    }

    @Test func repeatedVersionChangesNothing() throws {
        try bench.commit(EngineBench.there, Make.save(1, base: 1, version: 2, on: 1, "y"))
        let plan = try bench.commit(EngineBench.there, Make.save(1, base: 1, version: 2, on: 1, "y"))
        expect(current: 2, history: [1])
        #expect(plan.revision == Revision(2) && plan.items.isEmpty)
    }

    @Test func versionContentIsImmutable() throws {
        for change in [try Make.save(1, base: 1, version: 1, on: nil, "q"), try Make.file(2, "b", version: 1, "x")] {
            #expect(throws: UbiquityError.self) { try bench.commit(EngineBench.there, change) }
        }
        expect(current: 1)
    }

    @Test func everyLoserOfManyIsKeptOnce() throws {
        for (version, letter) in zip(UInt64(2)..., "abcb") {
            let change = try Make.save(1, base: 1, at: 200 + Int64(version), version: version, on: 1, letter)
            try bench.commit(version % 2 == 0 ? EngineBench.here : EngineBench.there, change)
        }
        // Version 2 followed 1; then 3 ("b") and 4 ("c") won; 5 is "b" again, which resolves 3.
        expect(current: 5, conflicts: [2, 4], history: [1, 3])
    }

    @Test func saveDuringAConflictKeepsTheConflict() throws {
        try bench.commit(EngineBench.there, Make.save(1, base: 1, at: 300, version: 2, on: 1, "y"))
        try bench.commit(EngineBench.here, Make.save(1, base: 1, at: 200, version: 3, on: 1, "z"))
        try bench.commit(EngineBench.there, Make.save(1, base: 3, at: 400, version: 4, on: 2, "w"))
        expect(current: 4, conflicts: [3], history: [1, 2])
    }
    /// A copy of the conflict version over the file resolves nothing.
    @Test(arguments: [400, 250]) func saveOfAConflictsContentKeepsTheConflict(time: Int64) throws {
        try bench.commit(EngineBench.there, Make.save(1, base: 1, at: 300, version: 2, on: 1, "y"))
        try bench.commit(EngineBench.here, Make.save(1, base: 1, at: 200, version: 3, on: 1, "z"))
        try bench.commit(EngineBench.there, Make.save(1, base: 3, at: time, version: 4, on: 2, "z"))
        expect(current: 4, conflicts: [3], history: [1, 2])
        // On another device, too; and then a user resolves it.
        try bench.commit(EngineBench.here, Make.save(1, base: 3, at: 350, version: 5, on: 2, "z"))
        expect(current: 4, conflicts: [3], history: [1, 2])
        try bench.commit(EngineBench.here, Make.versions(1, .resolve(.number(3))))
        expect(current: 4, history: [1, 2])
    }

    /// The copy meets another edit, earlier or later. It then stands for the version that it was copied from, which the
    /// user may resolve next.
    @Test(arguments: [350, 500]) func conflictCopyMeetingAnEditKeepsTheConflict(time: Int64) throws {
        try bench.commit(EngineBench.there, Make.save(1, base: 1, at: 300, version: 2, on: 1, "y"))
        try bench.commit(EngineBench.here, Make.save(1, base: 1, at: 200, version: 3, on: 1, "z"))
        try bench.commit(EngineBench.there, Make.save(1, base: 3, at: 400, version: 4, on: 2, "w"))
        try bench.commit(EngineBench.here, Make.save(1, base: 3, at: time, version: 5, on: 2, "z"))
        if time > 400 { expect(current: 5, conflicts: [3, 4], history: [1, 2]) }
        if time < 400 { expect(current: 4, conflicts: [5], history: [1, 2, 3]) }
    }

    @Test func restoredVersionKeepsAnEqualConflict() throws {
        try bench.commit(EngineBench.there, Make.save(1, base: 1, at: 300, version: 2, on: 1, "z"))
        try bench.commit(EngineBench.there, Make.save(1, base: 2, at: 310, version: 3, on: 2, "y"))
        try bench.commit(EngineBench.here, Make.save(1, base: 1, at: 200, version: 4, on: 1, "z"))
        try bench.commit(EngineBench.there, Make.versions(1, .restore(.number(2), as: .number(5), base: .number(3))))
        expect(current: 5, conflicts: [4], history: [1, 2, 3])
    }
}
