import Testing
import UbiquityCore
import UbiquityIndex
import UbiquityTestSupport
@testable import UbiquitySync

/// An item moves between packages while another device changes one of them: both packages' changes belong together.
@Suite struct PackageMoveTests {
    /// The concurrent change of the other device.
    enum Other: CaseIterable, Sendable {
        case edit, addition, moveOut, moveUp, removal, both
    }

    struct Case: Sendable, CustomTestStringConvertible {
        var other: Other
        var isFolder: Bool
        var aFirst: Bool
        var moverIsLater: Bool

        var testDescription: String {
            "\(other), \(isFolder ? "folder" : "file"), \(aFirst ? "a" : "b") first, mover \(moverIsLater ? "later" : "earlier")"
        }

        static let all = Other.allCases.flatMap { other in
            (0..<8).map { Case(other: other, isFolder: $0 & 1 != 0, aFirst: $0 & 2 != 0, moverIsLater: $0 & 4 != 0) }
        }
    }

    /// p.rtfd/{m,c/{j,g/{h,i}}}, r.rtfd/s, out/
    private func make(_ world: Simulation) async throws {
        for folder in ["p.rtfd", "p.rtfd/c", "p.rtfd/c/g", "r.rtfd", "out"] { try world.a.makeFolder(folder) }
        for (number, name) in Self.files.enumerated() { try await world.a.create(name, [UInt8(number)]) }
        try await world.settle()
        for device in world.devices {
            for name in Self.files { try await device.materialize(name) }
        }
        try await world.settle()
    }

    private static let files = ["p.rtfd/m", "p.rtfd/c/j", "p.rtfd/c/g/h", "p.rtfd/c/g/i", "r.rtfd/s"]

    private func move(_ device: SimulatedDevice, isFolder: Bool) throws {
        if isFolder { try device.rename("p.rtfd/c/g", "r.rtfd/d") } else { try device.rename("p.rtfd/c/j", "r.rtfd/j") }
    }

    private func act(_ other: Other, _ device: SimulatedDevice) async throws {
        switch other {
        case .edit: try await device.edit("p.rtfd/m") { _ in [100] }
        case .addition: try await device.create("p.rtfd/c/new", [101])
        case .moveOut: try device.rename("p.rtfd/c/g/h", "out/h")
        case .moveUp: try device.rename("p.rtfd/c/g/i", "i")
        case .removal: try device.remove("p.rtfd/m")
        case .both:
            try await device.edit("p.rtfd/m") { _ in [100] }
            try await device.edit("r.rtfd/s") { _ in [102] }
        }
    }

    /// One of them is shown at once and takes the name of the other, which is staged until a content has arrived.
    @Test(arguments: ["p.rtfd/s", "r.rtfd/m"]) func exchangedNamesAreBothShown(edited: String) async throws {
        try await PackageConflictTests().run { world in
            try await make(world)
            world.b.link.setAway(true)
            try world.a.rename("p.rtfd", "r.rtfd", .exchanging)
            try world.a.setMode("r.rtfd", 0o700)
            try await world.a.saveOver(edited, [103])
            try await world.settle([world.a])
            world.b.link.setAway(false)
            try await world.settle()
            #expect(try await world.b.read(edited) == [103])
            try await world.check()
        }
    }

    @Test(arguments: Case.all) func movedMemberStaysAtItsPlace(_ example: Case) async throws {
        try await PackageConflictTests().run { world in
            let tests = PackageConflictTests()
            try await make(world)
            if example.moverIsLater {
                try await tests.apart(world, aFirst: example.aFirst) {
                    try await act(example.other, world.a)
                } _: {
                    try move(world.b, isFolder: example.isFolder)
                }
            } else {
                try await tests.apart(world, aFirst: example.aFirst) {
                    try move(world.a, isFolder: example.isFolder)
                } _: {
                    try await act(example.other, world.b)
                }
            }
            for device in world.devices {
                try await expectOnce(device, example)
                if example.other != .both || example.moverIsLater {
                    let moved = example.isFolder ? "r.rtfd/d" : "r.rtfd/j"
                    #expect(try device.row(moved) != nil, "\(device.name)")
                }
                if example.other == .moveOut { #expect(try device.row("out/h") != nil) }
                if example.other == .moveUp { #expect(try device.row("i") != nil) }
                #expect(try tests.versions(device, "p.rtfd").count <= 1)
                #expect(try tests.versions(device, "r.rtfd").count <= 1)
            }
            // Work in both packages continues.
            for device in [world.a, world.b] {
                for package in ["p.rtfd", "r.rtfd"] { try await device.create("\(package)/later \(device.name)", [7]) }
                try await world.settle()
            }
        }
    }

    /// Each file exists once, whichever state wins.
    private func expectOnce(_ device: SimulatedDevice, _ example: Case) async throws {
        let names = try device.paths().map { String($0.path.split(separator: "/").last ?? "") }
        for name in ["j", "h", "i", "s"] { #expect(names.count { $0 == name } == 1, "\(device.name): \(name), \(example)") }
    }

    /// A losing state waits for the item that the other device has moved on, into a package that was changed here too.
    @Test(arguments: [true, false]) func crossingMovesAreResolved(aFirst: Bool) async throws {
        try await PackageConflictTests().run { world in
            try await make(world)
            try await PackageConflictTests().apart(world, aFirst: aFirst) {
                try world.a.rename("p.rtfd/c/j", "r.rtfd/j")
            } _: {
                try world.b.rename("p.rtfd/m", "r.rtfd/m")
            }
            for device in world.devices {
                let names = try device.paths().map { String($0.path.split(separator: "/").last ?? "") }
                for name in ["m", "j", "h", "i", "s"] { #expect(names.count { $0 == name } == 1, "\(device.name) \(name)") }
            }
        }
    }

    /// One device has changed a package and moved it into another. The other device's later states of both contain its
    /// place, which one commit contains once.
    /// A moved out item is a document of its own, and its edit wins over a remote deletion in the package.
    @Test(arguments: [true, false]) func itemMovedOutAndEditedIsNotDeleted(aFirst: Bool) async throws {
        try await PackageConflictTests().run { world in
            try await make(world)
            try await PackageConflictTests().apart(world, aFirst: aFirst) {
                try world.a.rename("p.rtfd/c/g", "out/g")
                try await world.a.edit("out/g/h") { _ in [100] }
            } _: {
                try world.b.remove("p.rtfd/c/g/h")
            }
            for device in world.devices { #expect(try await device.read("out/g/h") == [100], "\(device.name)") }
        }
    }

    @Test func nestedPackageKeepsItsPlace() async throws {
        try await PackageConflictTests().run { world in
            try await make(world)
            try world.b.setPaused(true)
            try await world.a.edit("p.rtfd/m") { _ in [100] }
            try await world.settle([world.a])
            try world.a.rename("p.rtfd", "r.rtfd/p.rtfd")
            try await world.settle([world.a])
            try world.b.rename("p.rtfd/c/j", "r.rtfd/j")
            try world.b.setPaused(false)
            try await world.settle()
            for device in world.devices {
                let names = try device.paths().map { String($0.path.split(separator: "/").last ?? "") }
                for name in ["m", "j", "h", "i", "s"] { #expect(names.count { $0 == name } == 1, "\(device.name) \(name)") }
                #expect(try device.row("p.rtfd/m") != nil, "\(device.name)")
            }
        }
    }

    /// One of the folders restored with the package was its parent at the end.
    @Test(arguments: [false, true]) func packageInANewFolderIsRestored(hasNew: Bool) async throws {
        try await PackageConflictTests().run { world in
            try await make(world)
            try world.b.setPaused(true)
            try world.a.rename("p.rtfd/c/g", "g")
            try world.a.rename("p.rtfd", "g/e")
            try await world.settle([world.a])
            try world.a.remove("g")
            try await world.settle([world.a])
            try await world.b.edit("p.rtfd/c/j") { _ in [103] }
            // This changes the folder itself.
            if hasNew { try await world.b.create("p.rtfd/new", [104]) }
            try world.b.setPaused(false)
            try await world.settle()
            for device in world.devices {
                for path in ["p.rtfd/m", "p.rtfd/c/g/h"] { #expect(try device.row(path) != nil, "\(device.name) \(path)") }
                #expect(try await device.read("p.rtfd/c/j") == [103])
            }
        }
    }

    /// Renamed or moved, then deleted, and edited by a device that knows neither: it is restored at its new place.
    @Test(arguments: ["q.rtfd", "out/p.rtfd"], [false, true])
    func restoredPackageKeepsNameOfThirdDevice(place: String, hasNew: Bool) async throws {
        try await PackageConflictTests().run { world in
            try await make(world)
            try world.b.setPaused(true)
            try world.a.rename("p.rtfd", place)
            try await world.settle([world.a, world.c])
            try world.c.remove(place)
            try await world.settle([world.a, world.c])
            try await world.b.edit("p.rtfd/c/j") { _ in [103] }
            // This changes the folder itself.
            if hasNew { try await world.b.create("p.rtfd/new", [104]) }
            try world.b.setPaused(false)
            try await world.settle()
            for device in world.devices {
                #expect(try device.row("p.rtfd") == nil, "\(device.name)")
                for path in ["m", "c/g/h"] { #expect(try device.row(place + "/" + path) != nil, "\(device.name) \(path)") }
                #expect(try await device.read(place + "/c/j") == [103])
                if hasNew { #expect(try await device.read(place + "/new") == [104]) }
            }
        }
    }

    /// Its destination folder is deleted too: it stays at its place here.
    @Test func restoredPackageNeedsNoDeletedFolder() async throws {
        try await PackageConflictTests().run { world in
            try await make(world)
            try world.b.setPaused(true)
            try world.a.rename("p.rtfd", "out/p.rtfd")
            try await world.settle([world.a, world.c])
            try world.c.remove("out")
            try await world.settle([world.a, world.c])
            try await world.b.edit("p.rtfd/c/j") { _ in [103] }
            try world.b.setPaused(false)
            try await world.settle()
            for device in world.devices { #expect(try await device.read("p.rtfd/c/j") == [103], "\(device.name)") }
        }
    }

    /// A file of the package got a link outside and was edited through it. The other device's later state lacks the
    /// file: it stays under its link, with the edit.
    @Test(arguments: [true, false]) func itemLinkedOutsideKeepsItsEdit(isOld: Bool) async throws {
        try await PackageConflictTests().run { world in
            try await make(world)
            if isOld {
                try world.a.makeHardLink("out/k", to: "p.rtfd/m")
                try await world.settle()
            }
            try await PackageConflictTests().apart(world, aFirst: false) {
                if !isOld { try world.a.makeHardLink("out/k", to: "p.rtfd/m") }
                try await world.a.edit("out/k") { _ in [104] }
            } _: {
                try world.b.remove("p.rtfd/m")
                try await world.b.edit("p.rtfd/c/j") { _ in [105] }
            }
            for device in world.devices {
                #expect(try await device.read("out/k") == [104])
                #expect(try device.row("p.rtfd/m") == nil)
            }
        }
    }

    /// Both packages were changed on both devices, and the later state of both wins: they are resolved together.
    @Test(arguments: [true, false]) func conflictsOfBothAreDecidedTogether(aFirst: Bool) async throws {
        try await PackageConflictTests().run { world in
            let tests = PackageConflictTests()
            try await make(world)
            try await tests.apart(world, aFirst: aFirst) {
                try await world.a.edit("p.rtfd/m") { _ in [100] }
                try await world.a.edit("r.rtfd/s") { _ in [101] }
            } _: {
                try await world.b.edit("p.rtfd/c/g/h") { _ in [102] }
                try world.b.rename("p.rtfd/c/j", "r.rtfd/j")
            }
            for device in world.devices {
                let (p, r) = (try await tests.state(device, "p.rtfd"), try await tests.state(device, "r.rtfd"))
                #expect(p["m"] == [0] && p["c/g/h"] == [102] && p["c/j"] == nil, "\(device.name)")
                #expect(r == ["s": [4], "j": [1]], "\(device.name)")
                let kept = (try tests.versions(device, "p.rtfd"), try tests.versions(device, "r.rtfd"))
                #expect(kept.0.count == 1 && kept.1.count == 1, "\(device.name)")
                #expect(try await device.members(of: #require(kept.0.first))["m"] == [100])
                #expect(try await device.members(of: #require(kept.1.first)) == ["s": [101]])
            }
        }
    }

    /// A part of a conflicting package is refused repeatedly. The other files are uploaded all the same.
    @Test func undecidablePackageIsUploadedFileByFile() async throws {
        try await PackageConflictTests().run { world in
            try await make(world)
            try await PackageConflictTests().apart(world, aFirst: true) {
                try await world.a.edit("p.rtfd/m") { _ in [100] }
            } _: {
                try await world.b.edit("p.rtfd/c/j") { _ in [101] }
                let package = try world.b.live("p.rtfd").key
                let backlog = try world.b.engine.push.changes.packages.backlog
                for _ in 0..<SyncLimits.packageAttempts { backlog.recordUndecided(package) }
            }
            for device in world.devices {
                let state = try await PackageConflictTests().state(device, "p.rtfd")
                #expect(state["m"] == [100] && state["c/j"] == [101], "\(device.name): \(state)")
            }
            // The next time it is one document again.
            try await PackageConflictTests().apart(world, aFirst: true) {
                try await world.a.edit("p.rtfd/m") { _ in [102] }
            } _: {
                try await world.b.edit("p.rtfd/c/j") { _ in [103] }
            }
            for device in world.devices {
                #expect(try await device.read("p.rtfd/m") == [100])
                #expect(try PackageConflictTests().versions(device, "p.rtfd").count == 1)
            }
        }
    }

    /// Repeated moves connect many packages.
    @Test func chainOfPackagesIsUploadedTogether() async throws {
        try await PackageConflictTests().run { world in
            let count = 12
            for number in 0..<count {
                try world.a.makeFolder("\(number).rtfd")
                try world.a.makeFolder("\(number).rtfd/c")
                for name in ["x", "c/y"] { try await world.a.create("\(number).rtfd/\(name)", [UInt8(number)]) }
            }
            try await world.settle()
            try await PackageConflictTests().apart(world, aFirst: true) {
                for number in stride(from: 0, to: count, by: 3) {
                    try await world.a.create("\(number).rtfd/new", [200])
                }
            } _: {
                for number in 0..<count {
                    try world.b.rename("\(number).rtfd/c/y", "\((number + 1) % count).rtfd/y")
                }
            }
            for device in world.devices {
                for number in 0..<count { #expect(try device.row("\(number).rtfd/y") != nil, "\(number)") }
            }
        }
    }

    /// An excluded name keeps the file when the file's package loses.
    @Test(arguments: ["p.rtfd/x~", "p.rtfd/c/x~"], [false, true])
    func excludedNameKeepsItsFile(name: String, aFirst: Bool) async throws {
        try await PackageConflictTests().run { world in
            try await make(world)
            try await PackageConflictTests().apart(world, aFirst: aFirst) {
                try await world.a.create(name, [1, 2])
                try world.a.makeHardLink("p.rtfd/c/x", to: name)
            } _: {
                try await world.b.edit("p.rtfd/m") { _ in [100] }
            }
            #expect(try await world.a.read(name) == [1, 2])
            #expect(try world.b.row(name) == nil)
        }
    }
}
