import Testing
import UbiquityCloudStore
import UbiquityCore

@Suite struct EngineFieldTests {
    private let bench = EngineBench()
    private let id = ItemID.number(1)

    init() throws { try bench.commit(EngineBench.here, Make.file(1, "a", version: 1)) }

    private func mode(_ mode: UInt32, base: Int64, at time: Int64) -> ItemChange {
        Make.put(1, base: base, at: time, ChangedFields(mode: mode))
    }

    @Test func fieldsOfTwoDevicesAreBothKept() throws {
        try bench.commit(EngineBench.here, mode(0o600, base: 1, at: 200))
        try bench.commit(EngineBench.there, Make.save(1, base: 1, at: 150, version: 2, on: 1, "y"))
        try bench.commit(EngineBench.there, Make.move(1, base: 1, at: 150, to: "b"))
        let item = try #require(bench.item(id))
        let name = try ItemName("b")
        #expect(item.mode == 0o600 && item.version == .number(2) && item.name == name)
    }

    @Test func laterOfTwoChangesOfOneFieldWins() throws {
        try bench.commit(EngineBench.here, mode(0o600, base: 1, at: 300))
        let plan = try bench.commit(EngineBench.there, mode(0o640, base: 1, at: 200))
        #expect(bench.item(id)?.mode == 0o600)
        #expect(plan.items.isEmpty && plan.outcomes == [.applied(id)])
        try bench.commit(EngineBench.there, mode(0o640, base: 1, at: 301))
        #expect(bench.item(id)?.mode == 0o640)
    }

    @Test func equalTimesAreDecidedByTheDevice() throws {
        try bench.commit(EngineBench.there, mode(0o600, base: 1, at: 300))
        try bench.commit(EngineBench.here, mode(0o640, base: 1, at: 300))
        #expect(bench.item(id)?.mode == 0o600)
    }

    @Test func changeBasedOnTheLastOneWinsDespiteAWrongClock() throws {
        try bench.commit(EngineBench.here, mode(0o600, base: 1, at: 300))
        try bench.commit(EngineBench.there, mode(0o640, base: 2, at: 50))
        #expect(bench.item(id)?.mode == 0o640)
        // A change made before both does not return in between.
        try bench.commit(EngineBench.here, mode(0o444, base: 1, at: 200))
        #expect(bench.item(id)?.mode == 0o640)
    }

    /// It lost power, and its index had only the first change on the disk.
    @Test func laterOfTwoChangesByOneDeviceWins() throws {
        try bench.commit(EngineBench.here, mode(0o600, base: 1, at: 300))
        try bench.commit(EngineBench.here, mode(0o640, base: 1, at: 200))
        #expect(bench.item(id)?.mode == 0o600)
    }

    @Test func renamesByTwoDevicesEndInTheLater() throws {
        try bench.commit(EngineBench.here, Make.move(1, base: 1, at: 300, to: "here"))
        try bench.commit(EngineBench.there, Make.move(1, base: 1, at: 200, to: "there"))
        #expect(bench.livePaths == ["here"])
    }

    /// The device has changed other fields since: those say nothing about this one.
    @Test func eachFieldCountsFromItsOwnTime() throws {
        let attribute = Xattr(name: Array("user.a".utf8), value: [1]), other = Xattr(name: attribute.name, value: [2])
        try bench.commit(
            EngineBench.here,
            Make.put(1, base: 1, at: 300, ChangedFields(
                place: Place(parent: .root, name: ItemName("here")), mode: 0o600, xattrsSet: [attribute])))
        let earlier = [FieldTime(.mode, at: Timestamp(seconds: 200)), FieldTime(.xattr(other.name), at: .zero)]
        try bench.commit(
            EngineBench.there,
            Make.put(1, base: 1, at: 400, ChangedFields(
                place: Place(parent: .root, name: ItemName("there")), mode: 0o640, xattrsSet: [other],
                earlier: earlier)))
        #expect(bench.livePaths == ["there"])
        #expect(bench.item(id)?.mode == 0o600 && bench.item(id)?.xattrs == [attribute])
        // A later change by its own time holds.
        try bench.commit(
            EngineBench.there,
            Make.put(1, base: 1, at: 900, ChangedFields(
                mode: 0o640, earlier: [FieldTime(.mode, at: Timestamp(seconds: 301))])))
        #expect(bench.item(id)?.mode == 0o640)
    }

    @Test func changeWithoutEffectKeepsTheRevision() throws {
        let before = bench.revision
        try bench.commit(EngineBench.there, mode(0o644, base: 1, at: 900))
        try bench.commit(EngineBench.there, Make.move(1, base: 1, to: "a"))
        #expect(bench.revision == before)
    }

    @Test func attributesAreMergedOneByOne() throws {
        func set(_ name: String, _ value: String, at time: Int64) -> ItemChange {
            let attribute = Xattr(name: Array(name.utf8), value: Array(value.utf8))
            return Make.put(1, base: 1, at: time, ChangedFields(xattrsSet: [attribute]))
        }
        func remove(_ name: String, at time: Int64) -> ItemChange {
            Make.put(1, base: 1, at: time, ChangedFields(xattrsRemoved: [Array(name.utf8)]))
        }
        try bench.commit(EngineBench.here, set("user.b", "1", at: 300))
        try bench.commit(EngineBench.there, set("user.a", "2", at: 200))
        try bench.commit(EngineBench.there, set("user.b", "0", at: 200))
        var names = bench.item(id)?.xattrs.map { String(decoding: $0.name + [61] + $0.value, as: UTF8.self) }
        #expect(names == ["user.a=2", "user.b=1"])
        try bench.commit(EngineBench.here, remove("user.a", at: 400))
        try bench.commit(EngineBench.there, set("user.a", "3", at: 350))
        names = bench.item(id)?.xattrs.map { String(decoding: $0.name, as: UTF8.self) }
        #expect(names == ["user.b"])
    }

    @Test func attributesBeyondTheLimitAreDropped() throws {
        let half = [UInt8](repeating: 1, count: Limits.maximumXattrBytes / 2)
        for (device, name) in [(EngineBench.here, "a"), (EngineBench.there, "b")] {
            let attribute = Xattr(name: Array(name.utf8), value: half)
            try bench.commit(device, Make.put(1, base: 1, ChangedFields(xattrsSet: [attribute])))
        }
        #expect(bench.item(id)?.xattrs.map(\.name) == [Array("a".utf8)])
    }

    @Test func topFolderHasItsOwnMode() throws {
        let change = ItemChange(
            id: .root, kind: .directory, baseRevision: .zero, changedAt: .at(1),
            action: .put(ChangedFields(mode: 0o700)))
        try bench.commit(EngineBench.here, [change])
        #expect(bench.item(.root)?.mode == 0o700)
        #expect(bench.livePaths.contains("a"))
    }

    @Test func unknownItemsAreReported() throws {
        let plan = try bench.commit(
            EngineBench.here, Make.put(9, base: 5, ChangedFields(mode: 0)), Make.delete(8, base: 3),
            Make.move(1, base: 1, to: "x", in: .number(77)), Make.file(7, "x", in: .number(78), version: 7),
            Make.file(6, "x", in: .number(7), version: 6))
        #expect(plan.outcomes == Array(repeating: .unknownItem, count: 5))
        #expect(bench.livePaths == ["a"])
    }

    @Test func oddRequestsAreRefused() throws {
        let twice = [mode(1, base: 1, at: 1), mode(2, base: 1, at: 1)]
        let otherKind = [Make.put(1, kind: .directory, base: 1, ChangedFields(mode: 1))]
        let inAFile = [try Make.file(5, "x", in: .number(1), version: 5)]
        let withoutTimes = [Make.put(5, ChangedFields(place: try Make.place("q"), mode: 1))]
        for changes in [twice, otherKind, inAFile, withoutTimes] {
            let error = #expect(throws: UbiquityError.self) { try bench.commit(EngineBench.here, changes) }
            #expect(error?.code == .invalid)
        }
        #expect(bench.revision == Revision(1))
    }
}
