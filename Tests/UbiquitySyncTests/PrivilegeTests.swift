import Testing
import UbiquityCore
import UbiquityIndex
import UbiquityTestSupport
import UbiquityWire
@testable import UbiquitySync

/// Set-user-id and set-group-id bits and file capabilities: another device must not give them to a file here.
@Suite struct PrivilegeTests: WorldTests {
    static let seed: UInt64 = 47

    private func file(_ mode: UInt32, _ name: String = "f", at revision: Int64, version: UInt64 = 1) throws -> RemoteItem {
        var item = try Fixture().file(1, name, at: revision, version: version)
        item.mode = mode
        return item
    }

    private func modes(_ fixture: Fixture, _ name: String = "f") throws -> [UInt32] {
        [try fixture.found(name).mode, try #require(try fixture.index.read { try $0.remote(id: Fixture.id(1)) }).mode]
    }

    /// Receives `item` as `Fixture.receive` does, with other settings.
    private func receive(_ item: RemoteItem, _ fixture: Fixture, trusts: Bool) throws {
        try fixture.index.write(.remote) { transaction in
            var settler = Settler(
                transaction, owner: (0, 0), now: fixture.time.now(), trustsPrivileges: trusts)
            try settler.receive(item)
        }
        try fixture.check()
    }

    // MARK: Records

    @Test func setUserIDOfAnotherDeviceIsNotShown() throws {
        let fixture = try Fixture()
        var folder = fixture.folder(2, "d")
        folder.mode = 0o2755
        try fixture.receive(file(0o6755, at: 1), folder)
        #expect(try modes(fixture) == [0o755, 0o6755])
        #expect(try fixture.found("d").mode == 0o755)
        #expect(try fixture.dirty().isEmpty)
    }

    @Test func laterRecordsDoNotBringSetUserID() throws {
        let fixture = try Fixture()
        try fixture.receive(file(0o644, at: 1))
        try fixture.receive(file(0o4755, at: 2))
        #expect(try modes(fixture) == [0o755, 0o4755])
        try fixture.receive(file(0o4711, "g", at: 3))
        #expect(try modes(fixture, "g") == [0o711, 0o4711])
        #expect(try fixture.dirty().isEmpty)
    }

    @Test func trustingMountShowsSetUserID() throws {
        let fixture = try Fixture()
        try receive(file(0o6755, at: 1), fixture, trusts: true)
        #expect(try modes(fixture) == [0o6755, 0o6755])
        try receive(file(0o4755, at: 2, version: 2), fixture, trusts: true)
        #expect(try modes(fixture) == [0o4755, 0o4755])
        // An accepted bit stays when the mount stops trusting.
        try receive(file(0o6711, at: 3, version: 2), fixture, trusts: false)
        #expect(try modes(fixture) == [0o4711, 0o6711])
    }

    @Test(arguments: [true, false]) func ownSetUserIDEndsWithForeignContent(isHere: Bool) throws {
        let fixture = try Fixture()
        try fixture.receive(file(0o755, at: 1))
        if isHere { try fixture.materialize("f") }
        let ino = try fixture.found("f").ino
        _ = try fixture.index.setAttributes(ino: ino, AttributeChange(mode: 0o4755))
        let planned = try fixture.plan(try fixture.dirty()).group
        let answer = try fixture.answer(try #require(planned.first))
        try fixture.apply(planned, [ChangeResult(outcome: .applied, item: answer)])
        #expect(try modes(fixture) == [0o4755, 0o4755])
        try fixture.receive(file(0o6711, at: 60))
        #expect(try modes(fixture) == [0o4711, 0o6711])
        try fixture.receive(file(0o6711, at: 61, version: 2))
        #expect(try modes(fixture) == [0o711, 0o6711])
        #expect(try fixture.dirty().isEmpty, "the cloud keeps its bits")
        try fixture.receive(file(0o6711, at: 62, version: 2))
        #expect(try modes(fixture) == [0o711, 0o6711])
    }

    @Test func excludedFolderAdoptsNoSetGroupID() throws {
        let fixture = try Fixture()
        let row = try fixture.make("d", .directory)
        try fixture.index.write(.remote) { transaction in
            var next = try #require(try transaction.row(key: row.key)), before = next
            next.dirty = []
            next.flags.insert(.lingering)
            try transaction.update(next, before: before)
            before = next
        }
        var folder = fixture.folder(1, "d", at: 2)
        folder.mode = 0o2755
        try fixture.receive(folder)
        #expect(try modes(fixture, "d") == [0o755, 0o2755])
        #expect(try fixture.dirty().isEmpty)
    }

    // MARK: Devices

    private func modes(_ device: SimulatedDevice, _ path: String) throws -> [UInt32] {
        let row = try device.live(path)
        return [row.mode, try #require(try device.index.read { try $0.remote(id: row.id) }).mode]
    }

    @Test func strippedBitsStayAtTheCloud() async throws {
        try await run { world in
            try await world.a.create("f", [1])
            try world.a.setMode("f", 0o6755)
            try await world.settle()
            #expect(try modes(world.a, "f") == [0o6755, 0o6755])
            #expect(try modes(world.b, "f") == [0o755, 0o6755])
            try await world.b.materialize("f")
            try await world.b.edit("f") { $0 + [2] }
            try await world.settle()
            #expect(try await world.a.read("f") == [1, 2])
            #expect(try modes(world.a, "f") == [0o755, 0o6755], "another device changed what would run")
            #expect(try modes(world.b, "f") == [0o755, 0o6755])
            // A chmod on this device is a change like any other.
            try world.a.setMode("f", 0o4700)
            try await world.settle()
            #expect(try modes(world.a, "f") == [0o4700, 0o4700])
            #expect(try modes(world.b, "f") == [0o700, 0o4700])
        }
    }

    @Test func trustingDevicesShareSetUserID() async throws {
        try await run(["a", "b"], ["b": .init(trustsPrivileges: true)]) { world in
            try await world.a.create("f", [1])
            try world.a.setMode("f", 0o4755)
            try await world.settle()
            #expect(try modes(world.b, "f") == [0o4755, 0o4755])
            try await world.check()
        }
    }

    /// Bits that an earlier program, or a trusting mount, has accepted.
    @Test func untrustingMountRemovesAcceptedSetUserIDOnce() throws {
        let fixture = try Fixture()
        func review(trusts: Bool = false) throws -> Int { try fixture.index.reviewPrivileges(trusts: trusts) }
        func accept(_ revision: Int64) throws { try receive(file(0o6755, at: revision), fixture, trusts: true) }
        try accept(1)
        #expect(try review(trusts: true) == 0 && modes(fixture) == [0o6755, 0o6755])
        #expect(try review() == 1)
        #expect(try modes(fixture) == [0o755, 0o6755], "the cloud's record is untouched")
        #expect(try fixture.dirty().isEmpty)
        try fixture.check()
        // A bit that a local program sets afterwards stays, also after its upload.
        _ = try fixture.index.setAttributes(ino: try fixture.found("f").ino, AttributeChange(mode: 0o4711))
        let planned = try fixture.plan(try fixture.dirty()).group
        try fixture.apply(
            planned, [ChangeResult(outcome: .applied, item: try fixture.answer(try #require(planned.first)))])
        #expect(try review() == 0 && modes(fixture) == [0o4711, 0o4711])
        // After a trusting mount, every bit counts as another device's again.
        #expect(try review(trusts: true) == 0)
        try receive(file(0o6755, at: 70), fixture, trusts: true)
        #expect(try modes(fixture) == [0o6755, 0o6755])
        #expect(try review() == 1 && modes(fixture) == [0o755, 0o6755])
    }

    /// A local change that the cloud has not seen is nobody else's.
    @Test func ownUnsentSetUserIDStays() throws {
        let fixture = try Fixture()
        try receive(file(0o4755, at: 1), fixture, trusts: true)
        _ = try fixture.index.setAttributes(ino: try fixture.found("f").ino, AttributeChange(mode: 0o4711))
        let own = try fixture.make("own")
        _ = try fixture.index.setAttributes(ino: own.ino, AttributeChange(mode: 0o4755))
        #expect(try fixture.index.reviewPrivileges(trusts: false) == 0)
        #expect(try fixture.found("f").mode == 0o4711 && fixture.found("own").mode == 0o4755)
    }

    @Test func restartWithoutTrustRemovesAcceptedBits() async throws {
        try await run { world in
            try await world.a.create("f", [1])
            try await world.settle()
            try world.a.setMode("f", 0o4755)
            try await world.settle()
            // As accepted by a trusting mount.
            let key = try world.b.live("f").key
            #expect(try world.b.index.reviewPrivileges(trusts: true) == 0)
            try world.b.index.write(.remote) { transaction in
                let before = try #require(try transaction.row(key: key))
                var row = before
                row.mode = 0o4755
                try transaction.update(row, before: before)
            }
            world.b.crash()
            try world.b.start()
            #expect(try modes(world.b, "f") == [0o755, 0o4755])
            try await world.settle()
            #expect(try modes(world.a, "f") == [0o4755, 0o4755])
        }
    }

    /// The capability was given to a content that this device has seen.
    @Test func foreignContentEndsAFileCapability() async throws {
        try await run { world in
            try await world.a.create("f", [1])
            try await world.settle()
            try await world.b.materialize("f")
            try world.b.setXattr("f", "security.capability", "all")
            try world.b.setXattr("f", "security.other", "kept")
            try await world.a.edit("f") { $0 + [2] }
            try await world.settle()
            #expect(try await world.b.read("f") == [1, 2])
            #expect(try world.b.live("f").localXattrs.map(\.value) == [Array("kept".utf8)])
        }
    }

    /// A stripped mode is no change of the package that the other state must know.
    @Test(arguments: [true, false]) func packageResolutionSendsNoStrippedMode(aFirst: Bool) async throws {
        try await run { world in
            try world.a.makeFolder("d.rtfd")
            for name in ["text", "one", "two"] { try await world.a.create("d.rtfd/" + name, [1]) }
            try world.a.setMode("d.rtfd/text", 0o4755)
            try await world.settle()
            for device in world.devices {
                for name in ["text", "one", "two"] { try await device.materialize("d.rtfd/" + name) }
                try device.setPaused(true)
            }
            try await world.a.edit("d.rtfd/one") { _ in [2] }
            try await world.sleep(.seconds(5))
            try await world.b.edit("d.rtfd/two") { _ in [3] }
            for device in aFirst ? [world.a, world.b] : [world.b, world.a] {
                try device.setPaused(false)
                try await world.settle([device])
            }
            try await world.settle()
            #expect(try await world.a.read("d.rtfd/two") == [3])
            #expect(try modes(world.a, "d.rtfd/text") == [0o4755, 0o4755])
            #expect(try modes(world.b, "d.rtfd/text") == [0o755, 0o4755])
        }
    }

    // MARK: Versions

    /// A version's content was not made here, so it does not get the file's privileges.
    @Test(arguments: ["f", "g"]) func placedVersionHasNoPrivileges(name: String) throws {
        let fixture = try Fixture()
        try fixture.receive(file(0o755, at: 1))
        let row = try fixture.materialize("f")
        _ = try fixture.index.setAttributes(ino: row.ino, AttributeChange(mode: 0o6755))
        let version = RemoteVersion(
            content: try #require(fixture.file(3, "f", version: 3).content), kind: .history, modifiedAt: .zero,
            savedAt: .zero, savedName: try ItemName("f"), baseVersion: nil)
        let place = VersionPlace(parent: 1, name: try ItemName(name), isExclusive: false)
        let content = ContentID(try fixture.index.newContentNumber())
        _ = try fixture.index.place(version, of: row.key, content: content, ino: nil, at: place)
        #expect(try fixture.found(name).content == content && fixture.found(name).mode == 0o755)
    }

    @Test func placedPackageStateHasNoPrivileges() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.folder(1, "d.rtfd"), fixture.file(2, "f", in: Fixture.id(1)))
        try fixture.materialize("d.rtfd/f")
        var contents = [[ItemName]: ContentID]()
        let members = try ["f", "new"].map { name in
            let path = try Fixture.names(name)
            contents[path] = ContentID(try fixture.index.newContentNumber())
            return PackageMember(
                path: path, kind: .file, mode: 0o6711, createdAt: .zero, modifiedAt: .zero, version: Fixture.version(2),
                size: 3)
        }
        let version = RemoteVersion(
            content: try #require(fixture.file(3, "d.rtfd", version: 3).content), kind: .history, modifiedAt: .zero,
            savedAt: .zero, savedName: try ItemName("d.rtfd"), baseVersion: nil)
        let key = try fixture.found("d.rtfd").key
        _ = try fixture.index.place(PackageTree(members), contents: contents, version, of: key, at: nil)
        for name in ["f", "new"] { #expect(try fixture.found("d.rtfd/" + name).mode == 0o711) }
    }
}
