import Testing
import UbiquityCore
import UbiquityIndex
import UbiquityTestSupport
@testable import UbiquitySync

// Conflicts of packages with their surroundings.
extension PackageConflictTests {
    /// The folder's deletion may be sent before the package's deletion is ready.
    @Test func editWinsOverTheSurroundingFoldersDeletion() async throws {
        try await run(["a", "b"]) { world in
            try await make(world)
            try world.a.makeFolder("box")
            try world.a.rename("d.rtfd", "box/d.rtfd")
            try await world.settle()
            // It does not know the edit yet when it deletes.
            for _ in 0..<4 { world.a.link.script(.changes, .hold(.seconds(20))) }
            try await world.b.edit("box/d.rtfd/text") { _ in [1] }
            try await world.settle([world.b])
            try world.a.remove("box")
            try await world.settle()
            for device in world.devices {
                let state = try await state(device, "box/d.rtfd")
                #expect(state.keys.sorted() == ["images", "images/one", "images/two", "old", "text"])
                #expect(state["text"] == [1])
            }
        }
    }

    /// The changes of one commit in a package may be on several pages of the feed, far apart.
    @Test func packageStateIsShownOnlyAfterTheWholeFeed() async throws {
        try await run(["a", "b"]) { world in
            try await make(world)
            try world.b.setPaused(true)
            try world.a.remove("d.rtfd/old")
            try await world.a.edit("d.rtfd/images/one") { _ in [1] }
            try await world.settle([world.a])
            for number in 0...SyncLimits.followingPage { try await world.a.create("f\(number)", [2]) }
            try await world.settle([world.a])
            try await world.a.edit("d.rtfd/images/one") { _ in [3] }
            try await world.settle([world.a])
            for _ in 0..<4 { world.b.link.script(.fetchChunks, .hold(.seconds(60))) }
            try world.b.setPaused(false)
            for _ in 0..<30 where try world.b.row("f7") == nil { try await world.sleep(.seconds(1)) }
            #expect(try world.b.row("f7") != nil && world.b.row("d.rtfd/old") != nil)
            try await world.settle()
            #expect(try world.b.row("d.rtfd/old") == nil)
            #expect(try await world.b.read("d.rtfd/images/one") == [3])
        }
    }

    @Test(arguments: [true, false]) func permissionAndAttributeChangesAreMerged(aFirst: Bool) async throws {
        try await run(["a", "b"]) { world in
            try await make(world)
            try await apart(world, aFirst: aFirst) {
                try world.a.setMode("d.rtfd/text", 0o600)
                try world.a.setXattr("d.rtfd/images/one", "user.of", "a")
            } _: {
                try world.b.setXattr("d.rtfd/text", "user.of", "b")
            }
            for device in world.devices {
                let text = try device.live("d.rtfd/text"), one = try device.live("d.rtfd/images/one")
                #expect(text.mode == 0o600 && text.xattrs.count == 1 && one.xattrs.count == 1, "\(device.name)")
                #expect(try versions(device).isEmpty)
            }
        }
    }

    /// It is a document of its own by then, and is edited there.
    @Test(arguments: [true, false], [false, true])
    func itemMovedOutOfPackageStaysOutside(aFirst: Bool, isFolder: Bool) async throws {
        try await run(["a", "b"]) { world in
            try await make(world)
            try world.a.makeFolder("Docs")
            try await world.settle()
            try await apart(world, aFirst: aFirst) {
                if isFolder {
                    try world.a.rename("d.rtfd/images", "Docs/out")
                    try await world.a.edit("Docs/out/one") { _ in [8] }
                } else {
                    try world.a.rename("d.rtfd/text", "Docs/out")
                    try await world.a.edit("Docs/out") { _ in [8] }
                }
            } _: {
                try await world.b.edit("d.rtfd/old") { _ in [9] }
            }
            for device in world.devices {
                #expect(try await device.read(isFolder ? "Docs/out/one" : "Docs/out") == [8])
                #expect(try await state(device)["old"] == [9])
                #expect(try versions(device).count == 1)
            }
            try await world.a.edit(isFolder ? "Docs/out/one" : "Docs/out") { _ in [7] }
            try await world.settle()
            #expect(try await world.b.read(isFolder ? "Docs/out/one" : "Docs/out") == [7])
            try await world.check()
        }
    }

    /// In any order, whoever was later: a touch says nothing about the contents.
    @Test(arguments: [true, false], [true, false])
    func permissionsAndTimesMakeNoOtherState(aFirst: Bool, isEditLater: Bool) async throws {
        try await run(["a", "b"]) { world in
            try await make(world)
            func edit(_ device: SimulatedDevice) async throws {
                try await device.edit("d.rtfd/text") { _ in [1] }
                try await device.create("d.rtfd/new", [2])
                try device.rename("d.rtfd/old", "d.rtfd/renamed")
            }
            func touch(_ device: SimulatedDevice) throws {
                try device.setMode("d.rtfd/images", 0o700)
                try device.setXattr("d.rtfd/images/one", "user.of", "b")
            }
            if isEditLater {
                try await apart(world, aFirst: aFirst) { try touch(world.a) } _: { try await edit(world.b) }
            } else {
                try await apart(world, aFirst: aFirst) { try await edit(world.a) } _: { try touch(world.b) }
            }
            for device in world.devices {
                let state = try await state(device)
                #expect(state["text"] == [1] && state["new"] == [2] && state["renamed"] != nil && state["old"] == nil)
                #expect(try device.live("d.rtfd/images").mode == 0o700)
                #expect(try device.live("d.rtfd/images/one").xattrs.count == 1)
                #expect(try versions(device).isEmpty, "\(device.name)")
            }
            try await world.check()
        }
    }

    @Test func itemLinkedOutsideStaysWhenPackageLoses() async throws {
        try await run(["a", "b"]) { world in
            try await make(world)
            try await apart(world, aFirst: false) {
                try await world.a.create("d.rtfd/new", [7, 8, 9])
                try world.a.makeHardLink("outside", to: "d.rtfd/new")
            } _: {
                try await world.b.edit("d.rtfd/text") { _ in [1] }
            }
            for device in world.devices {
                #expect(try await device.read("outside") == [7, 8, 9])
                #expect(try await state(device)["text"] == [1])
                #expect(try versions(device).count == 1)
            }
        }
    }

    /// A conflict about one package does not affect the other package of the same changes.
    @Test(arguments: [true, false]) func moveBetweenPackagesKeepsTheOtherPackagesChanges(aLater: Bool) async throws {
        try await run(["a", "b"]) { world in
            try await make(world)
            try world.a.makeFolder("e.rtfd")
            for name in ["x", "y"] { try await world.a.create("e.rtfd/\(name)", [5]) }
            try await world.settle()
            try await world.b.materialize("e.rtfd/y")
            let here = {
                try world.a.rename("e.rtfd/x", "d.rtfd/x")
                try await world.a.edit("d.rtfd/text") { _ in [1] }
                try world.a.remove("d.rtfd/old")
            }
            let there = { try await world.b.edit("e.rtfd/y") { _ in [6] } }
            if aLater {
                try await apart(world, aFirst: false, there, here)
            } else {
                try await apart(world, aFirst: false, here, there)
            }
            for device in world.devices {
                #expect(try await state(device)["text"] == [1])
                let paths = try device.paths().map(\.path)
                #expect(!paths.contains("d.rtfd/old"))
                #expect(paths.filter { $0.hasSuffix("/x") }.count == 1)
            }
        }
    }

    /// The device of the kept state may never have sent a content.
    @Test(arguments: [true, false]) func keptStateNamesItsDevice(aFirst: Bool) async throws {
        try await run(["a", "b"]) { world in
            try world.b.makeFolder("d.rtfd")
            for name in ["text", "old"] { try await world.b.create("d.rtfd/" + name, [1]) }
            try await world.settle()
            try await apart(world, aFirst: aFirst) {
                try world.a.remove("d.rtfd/old")
            } _: {
                try await world.b.edit("d.rtfd/text") { _ in [2] }
            }
            for device in world.devices { #expect(try versions(device).map(\.content.deviceName) == ["a"]) }
        }
    }

    /// A member moved in belongs to the state of its device: if that state loses, it is back at its old place.
    @Test(arguments: [true, false], [true, false]) func fileMovedIntoAPackageIsNotMixed(aFirst: Bool, moverIsLater: Bool) async throws {
        try await moveIn(aFirst: aFirst, moverIsLater: moverIsLater, isFolder: false)
    }

    @Test(arguments: [true, false], [true, false]) func folderMovedIntoAPackageIsNotMixed(aFirst: Bool, moverIsLater: Bool) async throws {
        try await moveIn(aFirst: aFirst, moverIsLater: moverIsLater, isFolder: true)
    }

    private func moveIn(aFirst: Bool, moverIsLater: Bool, isFolder: Bool) async throws {
        try await run(["a", "b"]) { world in
            try await make(world)
            if isFolder { try world.a.makeFolder("x") }
            let file = isFolder ? "x/in" : "x"
            try await world.a.create(file, [5])
            try await world.settle()
            try await world.b.materialize(file)
            var moved = [String: [UInt8]](), edited = [String: [UInt8]]()
            let move = { (device: SimulatedDevice) in
                try device.rename("x", "d.rtfd/x")
                moved = try await state(device)
            }
            let edit = { (device: SimulatedDevice) in
                try await device.edit("d.rtfd/text") { _ in [1] }
                edited = try await state(device)
            }
            if moverIsLater {
                try await apart(world, aFirst: aFirst) { try await edit(world.a) } _: { try await move(world.b) }
            } else {
                try await apart(world, aFirst: aFirst) { try await move(world.a) } _: { try await edit(world.b) }
            }
            for device in world.devices {
                #expect(try await state(device) == (moverIsLater ? moved : edited))
                let kept = try versions(device)
                #expect(kept.count == 1)
                #expect(try await device.members(of: #require(kept.first)) == (moverIsLater ? edited : moved))
                #expect(try await device.read(moverIsLater ? "d.rtfd/" + file : file) == [5])
            }
        }
    }

    /// An item missing in a snapshot was deleted: that is a change of the package like any other.
    @Test func deviceAwayForLongMeetsADeletion() async throws {
        try await run(["a", "b"]) { world in
            try await make(world)
            try world.a.setPaused(true)
            try await world.a.edit("d.rtfd/text") { _ in [1] }
            try await world.sleep(.seconds(5))
            try world.b.remove("d.rtfd/old")
            try await world.settle([world.b])
            world.cloud.purge()
            try world.a.setPaused(false)
            try await world.settle()
            for device in world.devices {
                // The later state, without its deleted members; the other is whole too.
                let kept = try versions(device)
                #expect(try await state(device).keys.sorted() == ["images", "images/one", "images/two", "text"])
                #expect(try await state(device)["text"] != [1])
                #expect(kept.count == 1)
                let lost = try await device.members(of: #require(kept.first))
                #expect(lost["text"] == [1] && lost["old"] != nil)
            }
        }
    }

    /// Its deletion takes several commits.
    @Test(arguments: [1990, 2100]) func editWinsOverALargePackagesDeletion(count: Int) async throws {
        let settings = ["a": SimulatedDevice.Settings(allowsMassDelete: true)]
        try await Worlds.run(seed: 5, Simulation.Options(devices: ["a", "b"], settings: settings)) { world in
            try world.a.makeFolder("d.rtfd")
            for number in 0..<count { try await world.a.create("d.rtfd/\(10_000 + number)", [1]) }
            try await world.settle()
            try await world.b.materialize("d.rtfd/10007")
            try await world.settle()
            try await apart(world, aFirst: true) {
                try world.a.remove("d.rtfd")
            } _: {
                try await world.b.edit("d.rtfd/10007") { _ in [2] }
            }
            for device in world.devices {
                #expect(try await device.read("d.rtfd/10007") == [2])
                #expect(try device.paths().filter { $0.path.hasPrefix("d.rtfd/") }.count == count)
            }
        }
    }

    /// A save in a package is no version before the cloud has it; a replacing state would lose it.
    @Test(arguments: [false, true]) func stateReplacesNoItemMissingAtCloud(isNew: Bool) throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.folder(1, "d.rtfd"), fixture.file(2, "f", in: Fixture.id(1)))
        try fixture.materialize("d.rtfd/f")
        if isNew { try fixture.make("d.rtfd/new") } else { try fixture.edit("d.rtfd/f") }
        let before = try fixture.paths()
        let content = ContentID(try fixture.index.newContentNumber()), path = try Fixture.names("f")
        let state = PackageTree([
            PackageMember(
                path: path, kind: .file, mode: 0o644, createdAt: .zero, modifiedAt: .zero, version: Fixture.version(2),
                size: 3)
        ])
        let version = RemoteVersion(
            content: try #require(fixture.file(3, "d.rtfd", version: 3).content), kind: .history, modifiedAt: .zero,
            savedAt: .zero, savedName: try ItemName("d.rtfd"), baseVersion: nil)
        let failure = #expect(throws: UbiquityError.self) {
            let key = try fixture.found("d.rtfd").key
            _ = try fixture.index.place(state, contents: [path: content], version, of: key, at: nil)
        }
        #expect(failure?.code == .busy)
        #expect(try fixture.paths() == before && fixture.found("d.rtfd/f").content != content)
    }
}
