import Testing
import UbiquityCloudStore
import UbiquityCore
import UbiquityWire

/// The table of conflicts, row by row: concurrent changes of two devices to the same state. Each row runs in both
/// orders of arrival.
struct ConflictRow: Sendable, CustomTestStringConvertible {
    var name: String
    /// The change of the device `here`, later, and of the device `there`, earlier.
    var here: @Sendable (Int64) throws -> [ItemChange]
    var there: @Sendable (Int64) throws -> [ItemChange]
    /// The live paths, and the contents of the conflict versions, in both orders.
    var paths: [String]
    var conflicts: [UInt64] = []
    /// The current version of the file with the id 1, if that matters.
    var current: UInt64?
    /// The result when `there` arrives first, if the order of arrival decides.
    var pathsThereFirst: [String]?
    /// The changes are in the package `p.rtfd` (5), and `here` made its change later. `lost` is the version under which
    /// the second device keeps the losing state, and the letter its content.
    var package: (lost: VersionID, of: @Sendable (_ device: DeviceID) -> Character)?

    var testDescription: String { name }
}

@Suite struct ConflictMatrixTests {
    private static let documents: UInt64 = 9

    /// Before: the file `a` (1), the folder `d` (2) with the file `d/f` (3), the folder `e` (4), `Documents` (9).
    private static func prepare(_ bench: EngineBench, withPackage: Bool = false) throws {
        try bench.commit(
            EngineBench.here, Make.file(1, "a", version: 1, "x"), Make.folder(2, "d"),
            Make.file(3, "f", in: .number(2), version: 3, "q"), Make.folder(4, "e"), Make.folder(documents, "Documents"))
        guard withPackage else { return }
        try bench.commit(
            EngineBench.here,
            [
                Make.folder(5, "p.rtfd"), Make.file(6, "x", in: package, version: 6, "x"),
                Make.file(7, "y", in: package, version: 7, "y"),
            ], packages: [PackageEdit(id: package, base: .zero, changedAt: .at(100))])
    }

    private static let package = ItemID.number(5)

    private static let unchanged = ["Documents", "a", "d", "d/f", "e"]

    static let rows: [ConflictRow] = [
        ConflictRow(
            name: "both change the content: the newer wins, the other is kept",
            here: { [try Make.save(1, base: $0, at: 300, version: 10, on: 1, "y")] },
            there: { [try Make.save(1, base: $0, at: 200, version: 11, on: 1, "z")] },
            paths: unchanged, conflicts: [11], current: 10),
        ConflictRow(
            name: "both write equal content: no conflict",
            here: { [try Make.save(1, base: $0, at: 300, version: 10, on: 1, "y")] },
            there: { [try Make.save(1, base: $0, at: 200, version: 11, on: 1, "y")] },
            paths: unchanged),
        ConflictRow(
            name: "edit | delete: the edit wins, the item comes back",
            here: { [try Make.save(1, base: $0, version: 10, on: 1, "y")] }, there: { [Make.delete(1, base: $0)] },
            paths: unchanged, current: 10),
        ConflictRow(
            name: "delete a folder | create inside: the folder comes back with what was made",
            here: { [Make.delete(3, base: $0), Make.delete(2, .directory, base: $0)] },
            there: { _ in [try Make.file(20, "new", in: .number(2), version: 20, "n")] },
            paths: ["Documents", "a", "d", "d/new", "e"]),
        ConflictRow(
            name: "delete a folder | edit inside: the folder comes back with what was edited",
            here: { [Make.delete(3, base: $0), Make.delete(2, .directory, base: $0)] },
            there: { [try Make.save(3, base: $0, version: 20, on: 3, "n")] },
            paths: unchanged),
        ConflictRow(
            name: "rename | rename: the later one, no conflict",
            here: { [try Make.move(1, base: $0, at: 300, to: "here")] },
            there: { [try Make.move(1, base: $0, at: 200, to: "there")] },
            paths: ["Documents", "d", "d/f", "e", "here"], current: 1),
        ConflictRow(
            name: "rename | edit: both",
            here: { [try Make.move(1, base: $0, at: 300, to: "here")] },
            there: { [try Make.save(1, base: $0, at: 200, version: 11, on: 1, "z")] },
            paths: ["Documents", "d", "d/f", "e", "here"], current: 11),
        ConflictRow(
            name: "move | edit: both",
            here: { [try Make.move(1, base: $0, at: 300, to: "a", in: .number(4))] },
            there: { [try Make.save(1, base: $0, at: 200, version: 11, on: 1, "z")] },
            paths: ["Documents", "d", "d/f", "e", "e/a"], current: 11),
        ConflictRow(
            name: "move d into e | move e into d: the first one",
            here: { [try Make.move(2, .directory, base: $0, at: 300, to: "d", in: .number(4))] },
            there: { [try Make.move(4, .directory, base: $0, at: 200, to: "e", in: .number(2))] },
            paths: ["Documents", "a", "e", "e/d", "e/d/f"],
            pathsThereFirst: ["Documents", "a", "d", "d/e", "d/f"]),
        ConflictRow(
            name: "create a name | create it, under Documents: the second is numbered",
            here: { _ in [try Make.file(20, "n.ext", in: .number(documents), version: 20, "h")] },
            there: { _ in [try Make.file(21, "n.ext", in: .number(documents), version: 21, "t")] },
            paths: ["Documents", "Documents/n 2.ext", "Documents/n.ext", "a", "d", "d/f", "e"]),
        ConflictRow(
            name: "create a name | create it, under Documents, with equal content: one item",
            here: { _ in [try Make.file(20, "n.ext", in: .number(documents), version: 20, "h", at: 300)] },
            there: { _ in [try Make.file(21, "n.ext", in: .number(documents), version: 21, "h", at: 200)] },
            paths: ["Documents", "Documents/n.ext", "a", "d", "d/f", "e"]),
        ConflictRow(
            name: "create a symlink | create it, under Documents, to the same: one item",
            here: { _ in [try Make.link(20, "l", in: .number(documents), to: "a")] },
            there: { _ in [try Make.link(21, "l", in: .number(documents), to: "a")] },
            paths: ["Documents", "Documents/l", "a", "d", "d/f", "e"]),
        ConflictRow(
            name: "create a name | create it, elsewhere: one item, the loser a conflict version",
            here: { _ in [try Make.file(20, "n.ext", version: 20, "h", at: 300)] },
            there: { _ in [try Make.file(21, "n.ext", version: 21, "t", at: 200)] },
            paths: ["Documents", "a", "d", "d/f", "e", "n.ext"], conflicts: [21]),
        ConflictRow(
            name: "create a folder | create it: merged",
            here: { _ in
                [try Make.folder(20, "n"), try Make.file(30, "h", in: .number(20), version: 30, "h")]
            },
            there: { _ in
                [try Make.folder(21, "n"), try Make.file(31, "t", in: .number(21), version: 31, "t")]
            },
            paths: ["Documents", "a", "d", "d/f", "e", "n", "n/h", "n/t"]),
        ConflictRow(
            name: "chmod, times, xattrs | any: merged field by field",
            here: {
                [
                    Make.put(
                        1, base: $0, at: 300,
                        ChangedFields(mode: 0o600, xattrsSet: [Xattr(name: Array("user.h".utf8), value: [1])]))
                ]
            },
            there: {
                [
                    Make.put(
                        1, base: $0, at: 200,
                        ChangedFields(
                            place: try Make.place("renamed"), xattrsSet: [Xattr(name: Array("user.t".utf8), value: [2])]))
                ]
            },
            paths: ["Documents", "d", "d/f", "e", "renamed"], current: 1),
        ConflictRow(
            name: "delete | delete: deleted",
            here: { [Make.delete(1, base: $0)] }, there: { [Make.delete(1, base: $0)] },
            paths: ["Documents", "d", "d/f", "e"]),
        ConflictRow(
            name: "package | package: the whole losing package is one version",
            here: { [try Make.save(6, base: $0, at: 300, version: 10, on: 6, "h")] },
            there: { [try Make.save(7, base: $0, at: 200, version: 11, on: 7, "t")] },
            paths: unchanged + ["p.rtfd", "p.rtfd/x", "p.rtfd/y"], conflicts: [30],
            package: (.number(30), { $0 == EngineBench.here ? "h" : "t" })),
    ]

    @Test(arguments: rows) func hereArrivesFirst(_ row: ConflictRow) throws {
        try check(row, first: EngineBench.here, row.here, second: EngineBench.there, row.there, row.paths)
    }

    @Test(arguments: rows) func thereArrivesFirst(_ row: ConflictRow) throws {
        try check(
            row, first: EngineBench.there, row.there, second: EngineBench.here, row.here,
            row.pathsThereFirst ?? row.paths)
    }

    private func check(
        _ row: ConflictRow, first: DeviceID, _ one: (Int64) throws -> [ItemChange], second: DeviceID,
        _ other: (Int64) throws -> [ItemChange], _ paths: [String]
    ) throws {
        let bench = EngineBench()
        try Self.prepare(bench, withPackage: row.package != nil)
        let base = bench.revision.number
        if let package = row.package {
            try meet(bench, first, one(base), second, other(base), package)
        } else {
            try bench.commit(first, one(base))
            try bench.commit(second, other(base))
        }
        #expect(bench.livePaths == paths)
        let conflicts = bench.versions.values.filter { $0.role == .conflict }.map(\.id).sorted()
        #expect(conflicts == row.conflicts.map(VersionID.number))
        if let current = row.current { #expect(bench.item(.number(1))?.version == .number(current)) }
        // Every acknowledged content is kept: as current, as history, or in conflict.
        let kept = Set(bench.versions.values.compactMap(\.manifest))
        for change in try one(base) + other(base) {
            guard case .put(let fields) = change.action, let manifest = fields.content?.manifest else { continue }
            #expect(kept.contains(manifest))
        }
    }

    /// The second to arrive is refused and learns which change was later. It commits the winning state and keeps the
    /// losing one.
    private func meet(
        _ bench: EngineBench, _ first: DeviceID, _ one: [ItemChange], _ second: DeviceID, _ other: [ItemChange],
        _ package: (lost: VersionID, of: @Sendable (_ device: DeviceID) -> Character)
    ) throws {
        let base = bench.revision
        func edit(_ changes: [ItemChange], on base: Revision, lost: LostPackage? = nil) -> PackageEdit {
            PackageEdit(id: Self.package, base: base, changedAt: changes[0].changedAt, lost: lost)
        }
        try bench.commit(first, one, packages: [edit(one, on: base)])
        let refused = #expect(throws: PackageConflict.self) {
            try bench.commit(second, other, packages: [edit(other, on: base)])
        }
        let conflict = try #require(refused)
        // Nothing of the second was mixed into the first.
        #expect(bench.revision == conflict.revision)
        #expect(conflict.isYoursNewer == (second == EngineBench.here) && conflict.device == first)
        let loser = conflict.isYoursNewer ? first : second
        let lost = LostPackage(
            version: package.lost, size: 10, manifest: try Make.manifest(package.of(loser)),
            modifiedAt: conflict.isYoursNewer ? conflict.modifiedAt : other[0].changedAt, device: loser,
            deviceName: "\(loser.low)")
        // A package wins as a whole: the later device undoes the changes of the first.
        let back = try Make.save(7, base: bench.revision.number, at: 300, version: 12, on: 11, "y")
        let stands = conflict.isYoursNewer ? other + [back] : [Make.put(5, kind: .directory, base: base.number, ChangedFields())]
        try bench.commit(second, stands, packages: [edit(other, on: bench.revision, lost: lost)])
        #expect(bench.item(.number(6))?.version == .number(10))
        #expect(try bench.item(.number(7))?.version.flatMap { bench.version($0) }?.manifest == Make.manifest("y"))
        let kept = try #require(bench.conflicts(of: Self.package).first)
        #expect(try kept.device == EngineBench.there && kept.manifest == Make.manifest(package.of(EngineBench.there)))
        #expect(bench.item(Self.package)?.conflictCount == 1)
    }

    // MARK: More than two devices

    @Test(arguments: [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2]])
    func newestOfManyEditsWinsAndOthersAreKept(order: [Int]) throws {
        let bench = EngineBench()
        try Self.prepare(bench)
        let base = bench.revision.number
        for device in order {
            let number = UInt64(device)
            let save = try Make.save(
                1, base: base, at: 300 + Int64(device), version: 10 + number, on: 1, ["p", "q", "r", "s"][device])
            try bench.commit(DeviceID(high: 0, low: 10 + number), save)
        }
        #expect(bench.item(.number(1))?.version == .number(13))
        // The first to arrive was based on the common state, so it is no conflict until another wins over it.
        let kept = bench.conflicts(of: .number(1)).map(\.id)
        #expect(kept == [10, 11, 12].map(VersionID.number))
    }

    @Test func conflictFollowsItsItem() throws {
        let bench = EngineBench()
        try Self.prepare(bench)
        let base = bench.revision.number
        try bench.commit(EngineBench.here, Make.save(1, base: base, at: 300, version: 10, on: 1, "y"))
        try bench.commit(EngineBench.there, Make.save(1, base: base, at: 200, version: 11, on: 1, "z"))
        try bench.commit(EngineBench.here, Make.move(1, base: bench.revision.number, to: "b", in: .number(2)))
        try bench.commit(EngineBench.here, Make.move(2, .directory, base: bench.revision.number, to: "moved", in: .number(4)))
        #expect(bench.path(.number(1)) == "e/moved/b")
        #expect(bench.conflicts(of: .number(1)).map(\.id) == [.number(11)])
        #expect(bench.item(.number(1))?.conflictCount == 1)
    }
}
