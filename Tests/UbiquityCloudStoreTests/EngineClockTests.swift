import Testing
import UbiquityCloudStore
import UbiquityCore

/// A device with a wrong clock neither wins nor loses by that. The cloud's time is `now`; a device sends its own with
/// each commit.
@Suite struct EngineClockTests {
    private static let year: Int64 = 365 * 86_400
    private let bench = EngineBench()
    private let id = ItemID.number(1)

    init() throws {
        bench.now = .at(2 * Self.year)
        try bench.commit(EngineBench.here, [Make.file(1, "a", version: 1, "x", at: 2 * Self.year)])
    }

    /// Commits an edit made `ago` seconds before the cloud's now, on a device whose clock is `off` seconds off.
    private func edit(
        _ device: DeviceID, _ version: UInt64, on base: UInt64 = 1, _ letter: Character, ago: Int64, off: Int64
    ) throws {
        let clock = bench.now.seconds + off
        try bench.commit(
            device, [Make.save(1, base: 1, at: clock - ago, version: version, on: base, letter)], sentAt: .at(clock))
    }

    @Test(arguments: [-Self.year, -3600, 0, 3600, Self.year])
    func laterEditWinsDespiteAWrongClock(off: Int64) throws {
        bench.now = .at(2 * Self.year + 5000)
        try edit(EngineBench.there, 2, "y", ago: 2000, off: 0)
        try edit(EngineBench.here, 3, "z", ago: 1000, off: off)
        #expect(bench.item(id)?.version == .number(3), "it is the later one")
        #expect(bench.version(.number(2))?.role == .conflict)
    }

    @Test(arguments: [-Self.year, -3600, 0, 3600, Self.year])
    func earlierEditLosesDespiteAWrongClock(off: Int64) throws {
        bench.now = .at(2 * Self.year + 5000)
        try edit(EngineBench.there, 2, "y", ago: 1000, off: 0)
        try edit(EngineBench.here, 3, "z", ago: 2000, off: off)
        #expect(bench.item(id)?.version == .number(2), "it is the later one")
        #expect(bench.version(.number(3))?.role == .conflict)
    }

    @Test(arguments: [-Self.year, Self.year])
    func namesAndModesUseCorrectedClocks(off: Int64) throws {
        bench.now = .at(2 * Self.year + 5000)
        let clock = bench.now.seconds + off
        try bench.commit(EngineBench.there, [Make.move(1, base: 1, at: bench.now.seconds - 2000, to: "b")])
        try bench.commit(
            EngineBench.here, [Make.move(1, base: 1, at: clock - 3000, to: "earlier")], sentAt: .at(clock))
        #expect(bench.path(id) == "b")
        try bench.commit(EngineBench.here, [Make.move(1, base: 1, at: clock - 1000, to: "later")], sentAt: .at(clock))
        #expect(bench.path(id) == "later")
    }

    @Test func editIsNotOlderThanItsBase() throws {
        // The file's own time may be any: a copying tool kept it, or the clock was set in between.
        bench.now = .at(2 * Self.year + 5000)
        try edit(EngineBench.there, 2, "y", ago: 2000, off: 0)
        try bench.commit(EngineBench.here, [Make.save(1, base: 2, at: 5, version: 3, on: 2, "z")])
        #expect(bench.item(id)?.version == .number(3) && bench.item(id)?.modifiedAt == .at(5))
        // An edit older than both does not win over it.
        try edit(DeviceID(high: 0, low: 3), 4, "w", ago: 3000, off: 0)
        #expect(bench.item(id)?.version == .number(3) && bench.version(.number(4))?.role == .conflict)
    }

    @Test func delayedCommitKeepsItsTime() throws {
        bench.now = .at(2 * Self.year + 5000)
        let sent = bench.now.seconds - 60
        try bench.commit(
            EngineBench.here, [Make.save(1, base: 1, at: sent - 10, version: 2, on: 1, "y")], sentAt: .at(sent))
        #expect(bench.version(.number(2))?.modifiedAt == .at(sent - 10))
    }

    @Test func extremeTimesAreAccepted() throws {
        for sent in [Int64.min, Int64.max, 0] {
            let plan = try bench.commit(
                EngineBench.here, [Make.move(1, base: 9, to: "n\(sent)")], sentAt: Timestamp(nanoseconds: sent))
            #expect(plan.items.count == 1)
        }
    }
}
