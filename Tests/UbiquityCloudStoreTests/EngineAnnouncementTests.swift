import Testing
import UbiquityCloudStore
import UbiquityCore

/// Contents that were announced when their file was made, and that arrive, arrive changed, or never arrive.
@Suite struct EngineAnnouncementTests {
    private let bench = EngineBench()
    private let here = EngineBench.here
    private let there = EngineBench.there

    init() throws { try bench.commit(here, Make.file(1, "a", version: 1, nil, at: 300)) }

    private func versions(_ role: VersionRecord.Role) -> [VersionID] {
        bench.versions.values.filter { $0.role == role }.map(\.id).sorted()
    }

    private func expect(
        current: UInt64, conflicts: [UInt64] = [], history: [UInt64] = [],
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        #expect(bench.item(.number(1))?.version == .number(current), sourceLocation: sourceLocation)
        #expect(versions(.conflict) == conflicts.map(VersionID.number), sourceLocation: sourceLocation)
        #expect(versions(.history) == history.map(VersionID.number), sourceLocation: sourceLocation)
    }

    /// The answer to the announcement was lost, and the file was written again before its upload.
    @Test(arguments: [200, 300, 400] as [Int64]) func laterContentOfTheAnnouncingDeviceIsNoConflict(time: Int64) throws {
        try bench.commit(here, Make.file(1, "a", version: 2, "y", at: time))
        expect(current: 2, history: [1])
        #expect(bench.item(.number(1))?.modifiedAt == .at(time))
    }

    @Test func repeatedAnnouncementChangesNothing() throws {
        try bench.commit(here, Make.file(1, "a", version: 2, nil, at: 400))
        expect(current: 1)
        try bench.commit(here, Make.save(1, base: 2, at: 400, version: 2, on: 2, "y"))
        expect(current: 2, history: [1])
    }

    @Test func laterContentOfTheAnnouncingDeviceCanLose() throws {
        try bench.commit(there, Make.save(1, base: 1, at: 400, version: 2, on: nil, "y"))
        expect(current: 2, conflicts: [1])
        try bench.commit(here, Make.file(1, "a", version: 3, "z", at: 350))
        expect(current: 2, conflicts: [3], history: [1])
    }

    /// Another device has replaced it without having it.
    @Test func replacedAnnouncementBecomesHistoryOnArrival() throws {
        try bench.commit(there, Make.save(1, base: 1, at: 400, version: 2, on: 1, "y"))
        expect(current: 2, history: [1])
        #expect(bench.item(.number(1))?.hasHistory == false)
        bench.now = .at(5000)
        let plan = try bench.commit(here, Make.save(1, base: 1, at: 300, version: 1, on: nil, "z"))
        expect(current: 2, history: [1])
        #expect(bench.version(.number(1))?.supersededAt == .at(5000))
        #expect(bench.item(.number(1))?.hasHistory == true && plan.items.map(\.id) == [.number(1)])
    }

    @Test func otherDevicesConflictsStay() throws {
        try bench.commit(there, Make.save(1, base: 1, at: 200, version: 2, on: nil, "y"))
        expect(current: 1, conflicts: [2])
        try bench.commit(here, Make.file(1, "a", version: 3, "z", at: 350))
        expect(current: 3, conflicts: [2], history: [1])
    }

    // MARK: Given up

    /// Another device has given the file a link. The file's own device has deleted it without knowing that.
    @Test func deletionOfAnnouncedFileDeletesItsLinks() throws {
        try bench.commit(there, Make.hardLink(2, "b", to: 1))
        // Another device's deletion is refused.
        try bench.commit(EngineBench.there, Make.delete(1, base: 1))
        #expect(bench.item(.number(1))?.isLive == true)
        try bench.commit(here, Make.delete(1, base: 1))
        #expect(bench.item(.number(1))?.isLive == false)
        #expect(bench.item(.number(2))?.isLive == false)
    }

    /// The link arrived after the deletion, from a device that did not know of it.
    @Test func newLinkDoesNotRestoreGivenUpFile() throws {
        try bench.commit(here, Make.delete(1, base: 1))
        try bench.commit(there, Make.hardLink(2, "b", to: 1))
        #expect(bench.item(.number(1))?.isLive == false)
        #expect(bench.item(.number(2))?.isLive == false)
    }

    /// Its device has the content, and sends it when it learns that the file is not deleted.
    @Test func newLinkRestoresFileDeletedByAnotherDevice() throws {
        try bench.commit(there, Make.delete(1, base: 1))
        try bench.commit(there, Make.hardLink(2, "b", to: 1))
        #expect(bench.item(.number(1))?.isLive == true)
        #expect(bench.item(.number(2))?.isLive == true)
    }

    /// No device has the announced content any more: the edit that keeps the file is its content.
    @Test(arguments: [200, 400] as [Int64]) func editWinningOverADeletionIsTheContent(time: Int64) throws {
        try bench.commit(there, Make.save(1, base: 1, at: time, version: 2, on: nil, "y"))
        try bench.commit(here, Make.delete(1, base: 0))
        expect(current: 2, history: [1])
        #expect(bench.livePaths == ["a"])
        #expect(bench.item(.number(1))?.modifiedAt == .at(time))
    }

    /// The edit came after the deletion.
    @Test(arguments: [200, 400] as [Int64]) func editAfterADeletionIsTheContent(time: Int64) throws {
        try bench.commit(here, Make.delete(1, base: 1))
        try bench.commit(there, Make.save(1, base: 1, at: time, version: 2, on: nil, "y"))
        expect(current: 2, history: [1])
        #expect(bench.livePaths == ["a"])
    }

    @Test func newestEditIsTheContent() throws {
        let third = DeviceID(high: 0, low: 3)
        try bench.commit(there, Make.save(1, base: 1, at: 200, version: 3, on: nil, "y"))
        try bench.commit(third, Make.save(1, base: 1, at: 250, version: 2, on: nil, "z"))
        try bench.commit(here, Make.delete(1, base: 0))
        expect(current: 2, conflicts: [3], history: [1])
    }

    /// Its device has lost the content, and the device that restored the file never had it.
    @Test func restoredFileWithoutContentIsDeletedWhenGivenUp() throws {
        try bench.commit(there, Make.delete(1, base: 1))
        try bench.commit(there, Make.undelete(1))
        #expect(bench.livePaths == ["a"])
        try bench.commit(here, Make.delete(1, base: 0))
        #expect(bench.livePaths.isEmpty)
    }

    @Test func otherDevicesDeletionKeepsTheAnnouncement() throws {
        try bench.commit(there, Make.save(1, base: 1, at: 200, version: 2, on: nil, "y"))
        try bench.commit(DeviceID(high: 0, low: 3), Make.delete(1, base: 1))
        expect(current: 1, conflicts: [2])
        #expect(bench.livePaths == ["a"])
    }
}
