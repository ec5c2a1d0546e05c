import Testing
import UbiquityCloudStore
import UbiquityCore
import UbiquityWire

/// Commits about packages: the refused one, its answer, and the kept state.
@Suite struct EnginePackageTests {
    private let bench = EngineBench()
    private static let package = ItemID.number(1)

    private func edit(_ base: Int64?, at time: Int64 = 200, lost: LostPackage? = nil) -> PackageEdit {
        PackageEdit(id: Self.package, base: base.map(Revision.init), changedAt: .at(time), lost: lost)
    }

    private func lost(_ version: UInt64, _ letter: Character, by device: DeviceID = EngineBench.here) throws -> LostPackage {
        LostPackage(
            version: .number(version), size: 10, manifest: try Make.manifest(letter), modifiedAt: .at(150),
            device: device, deviceName: "other")
    }

    /// A package with two files, made by `here`.
    private func prepare() throws {
        try bench.commit(
            EngineBench.here,
            [
                Make.folder(1, "d.rtfd"), Make.file(2, "x", in: Self.package, version: 2, "x"),
                Make.file(3, "y", in: Self.package, version: 3, "y"),
            ], packages: [edit(0)])
    }

    private func conflict(_ body: () throws -> Void) -> PackageConflict? {
        do { try body() } catch { return error as? PackageConflict }
        return nil
    }

    @Test(arguments: [(300, true), (200, false), (100, false)])
    func secondPackageCommitIsRefusedWithTheNewerState(time: Int64, isNewer: Bool) throws {
        try prepare()
        try bench.commit(
            EngineBench.there, [Make.save(2, base: 1, at: 210, version: 10, on: 2, "a")], packages: [edit(1, at: 210)])
        let refused = conflict {
            try bench.commit(
                EngineBench.here, [Make.save(3, base: 1, at: time, version: 11, on: 3, "b")],
                packages: [edit(1, at: time)])
        }
        #expect(refused?.package == Self.package && refused?.isYoursNewer == isNewer)
        #expect(refused?.deviceName == refused.map { "\($0.device.low)" })
        #expect(refused?.revision == bench.revision && refused?.device == EngineBench.there)
        #expect(bench.items[.number(3)]?.version == .number(3))
        // A device that knows the state is not refused.
        try bench.commit(
            EngineBench.here, [Make.save(3, base: 2, version: 11, on: 3, "b")], packages: [edit(2)])
        #expect(bench.items[.number(3)]?.version == .number(11))
    }

    @Test func ownCommitsAndFolderChangesRefuseNothing() throws {
        try prepare()
        try bench.commit(EngineBench.there, [Make.move(1, .directory, base: 1, to: "e.rtfd")])
        try bench.commit(EngineBench.here, [Make.save(2, base: 1, version: 10, on: 2, "a")], packages: [edit(1)])
        try bench.commit(EngineBench.here, [Make.save(3, base: 1, version: 11, on: 3, "b")], packages: [edit(1)])
        #expect(bench.livePaths == ["e.rtfd", "e.rtfd/x", "e.rtfd/y"])
    }

    @Test func packageDeletionRefusesAnEdit() throws {
        try prepare()
        try bench.commit(
            EngineBench.there,
            [Make.delete(2, base: 1), Make.delete(3, base: 1), Make.delete(1, .directory, base: 1)],
            packages: [edit(1)])
        #expect(
            conflict {
                try bench.commit(
                    EngineBench.here, [Make.save(2, base: 1, version: 10, on: 2, "a")], packages: [edit(1, at: 900)])
            } != nil)
    }

    @Test func losingStateIsKeptOnceUntilResolved() throws {
        try prepare()
        let folder = Make.put(1, kind: .directory, base: 1, ChangedFields())
        let plan = try bench.commit(EngineBench.here, [folder], packages: [edit(1, lost: lost(20, "l"))])
        #expect(plan.newManifests == [try Make.manifest("l")])
        // Sent again in another request after a crash.
        try bench.commit(EngineBench.here, [folder], packages: [edit(2, lost: lost(21, "l"))])
        let record = try #require(bench.items[Self.package])
        #expect(record.conflictCount == 1 && record.conflictBytes == 10)
        #expect(bench.conflicts(of: Self.package).map(\.id) == [.number(20)])
        // Keeping a state is no change of the package.
        try bench.commit(EngineBench.there, [Make.save(2, base: 1, version: 10, on: 2, "a")], packages: [edit(1)])
        let resolve = ItemChange(
            id: Self.package, kind: .directory, baseRevision: Revision(1), changedAt: .at(900),
            action: .versions([.resolve(.number(20))]))
        try bench.commit(EngineBench.there, [resolve])
        #expect(bench.items[Self.package]?.conflictCount == 0 && bench.items[Self.package]?.conflictBytes == 0)
        #expect(bench.versions[.number(20)]?.role == .resolved)
    }

    @Test func newPackageIsNotMergedWithAnother() throws {
        try prepare()
        let second = PackageEdit(id: .number(7), base: .zero, changedAt: .at(300))
        try bench.commit(
            EngineBench.there,
            [Make.folder(7, "d.rtfd"), Make.file(8, "x", in: .number(7), version: 8, "z")], packages: [second])
        #expect(bench.livePaths == ["d 2.rtfd", "d 2.rtfd/x", "d.rtfd", "d.rtfd/x", "d.rtfd/y"])
    }

    @Test(arguments: [("y", "y", true), ("z", "y", false), ("y", "n", false)])
    func equalNewPackagesMerge(letter: Character, name: String, isSame: Bool) throws {
        try prepare()
        let second = PackageEdit(id: .number(7), base: .zero, changedAt: .at(300))
        let plan = try bench.commit(
            EngineBench.there,
            [
                Make.folder(7, "d.rtfd"), Make.file(8, "x", in: .number(7), version: 8, "x"),
                Make.file(9, name, in: .number(7), version: 9, letter),
            ], packages: [second])
        if isSame {
            #expect(bench.livePaths == ["d.rtfd", "d.rtfd/x", "d.rtfd/y"])
            #expect(plan.outcomes == [1, 2, 3].map { .merged(into: .number($0)) })
            #expect(bench.items.values.allSatisfy { $0.conflictCount == 0 })
        } else {
            #expect(bench.livePaths == ["d 2.rtfd", "d 2.rtfd/\(name)", "d 2.rtfd/x", "d.rtfd", "d.rtfd/x", "d.rtfd/y"].sorted())
        }
    }

    /// An absent member differs from a present one.
    @Test func newPackageWithMovedMembersIsNotMerged() throws {
        try bench.commit(
            EngineBench.here, [Make.folder(1, "d.rtfd"), Make.folder(2, "s", in: Self.package)], packages: [edit(0)])
        try bench.commit(
            EngineBench.there,
            Make.folder(20, "s"), Make.file(21, "f", in: .number(20), version: 21, "f"))
        let second = PackageEdit(id: .number(7), base: .zero, changedAt: .at(300))
        try bench.commit(
            EngineBench.there,
            [Make.folder(7, "d.rtfd"), Make.move(20, .directory, base: 2, to: "s", in: .number(7))],
            packages: [second])
        #expect(bench.livePaths == ["d 2.rtfd", "d 2.rtfd/s", "d 2.rtfd/s/f", "d.rtfd", "d.rtfd/s"])
    }
}
