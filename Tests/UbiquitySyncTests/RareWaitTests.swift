import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityTestSupport
import UbiquityWire
@testable import UbiquitySync

/// The reasons to wait that a user seldom meets.
@Suite struct RareWaitTests: WorldTests {
    static let seed: UInt64 = 37

    private func upload(_ device: SimulatedDevice, _ path: String) throws -> ItemWait? {
        try upload(device, device.live(path))
    }

    private func upload(_ device: SimulatedDevice, _ row: ItemRow) throws -> ItemWait? {
        try device.index.read { try device.engine.waits(of: row, $0).upload }
    }

    private func makePackage(_ world: Simulation, _ names: [String] = ["text"]) async throws {
        try world.a.makeFolder("d.rtfd")
        for name in names { try await world.a.create("d.rtfd/\(name)", [1]) }
        try await world.settle()
    }

    // MARK: The whole mount

    @Test func signedOutDeviceIsNamed() async throws {
        try await run { world in
            try await world.settle()
            for _ in 0..<100 { world.a.link.script(.open, .fail(UbiquityError(.signedOut, "the token is revoked"))) }
            world.cloud.restart()
            try await world.sleep(.seconds(10))
            try await world.a.create("f", [1])
            #expect(try upload(world.a, "f")?.code == "signed-out")
            world.a.link.forgetScript()
            try await world.settle()
        }
    }

    @Test func unreadFeedIsNamed() async throws {
        try await run { world in
            try await world.settle()
            world.a.crash()
            world.a.link.script(.changes, .hold(.seconds(60)))
            try world.a.start()
            try await world.sleep(.seconds(2))
            try await world.a.create("f", [1])
            #expect(try upload(world.a, "f")?.code == "changes-of-others")
            try await world.settle()
        }
    }

    // MARK: The item

    @Test func openFileIsNamed() async throws {
        try await run { world in
            try await world.a.create("f", [1])
            try await world.settle()
            let row = try world.a.live("f")
            _ = try world.a.index.beginWriting(ino: row.ino)
            _ = try world.a.index.noteWriting(
                ino: row.ino, changed: true, size: 1, modifiedAt: world.a.timekeeper.now(), stillOpen: true)
            let wait = try #require(try upload(world.a, "f"))
            #expect(wait.code == "open-for-writing")
            #expect(wait.sentence.hasPrefix("open for writing in "))
        }
    }

    @Test func brokenUploadSaysWhenItIsRepeated() async throws {
        try await run { world in
            try await world.settle()
            world.a.link.script(.upload, .fail(UbiquityError(.offline, "the line broke")))
            try await world.a.create("f", world.random.bytes(500_000))
            var wait: ItemWait?
            for _ in 0..<200 where wait?.code != "network" || wait?.until == nil {
                try await world.sleep(.milliseconds(20))
                wait = try upload(world.a, "f")
            }
            #expect(wait?.reason == .connectionFailed)
            #expect(wait?.sentence.hasPrefix("the connection failed during the upload, next attempt at ") == true)
            try await world.settle()
        }
    }

    @Test func fileThatChangesDuringItsReadIsNamed() async throws {
        try await run { world in
            try await world.settle()
            try await world.a.create("f", [1])
            try world.a.engine.context.agenda.pauseBriefly([world.a.live("f").key], .changesDuringRead)
            let wait = try #require(try upload(world.a, "f"))
            #expect(wait.code == "changed-during-read")
            #expect(wait.until != nil)
            try await world.settle()
        }
    }

    @Test func temporaryNameIsNamed() async throws {
        try await run { world in
            try await world.settle()
            try await world.a.create("tmp12345x", [1])
            try await world.sleep(.milliseconds(100))
            let wait = try #require(try upload(world.a, "tmp12345x"))
            #expect(wait.code == "temporary-name")
            #expect(wait.until != nil)
            try await world.settle()
            #expect(try upload(world.a, "tmp12345x") == nil)
        }
    }

    @Test func documentRenamedToABackupWaitsForItsSave() async throws {
        try await run { world in
            try await world.a.create("f", [1])
            try await world.settle()
            try world.a.rename("f", "f~")
            try await world.sleep(.milliseconds(100))
            #expect(try upload(world.a, "f~")?.code == "rename-expected")
            try await world.settle()
        }
    }

    @Test func changeBehindACommitWaitsForItsTurn() async throws {
        try await run { world in
            try await world.settle()
            world.a.link.script(.commit, .hold(.seconds(10)))
            try await world.a.create("f", [1])
            try await world.sleep(.seconds(1))
            try await world.a.create("g", [1])
            try await world.sleep(.seconds(1))
            #expect(try upload(world.a, "g")?.code == "turn")
            try await world.settle()
        }
    }

    // MARK: Deletions

    @Test func burstOfDeletionsWaitsForItsEnd() async throws {
        try await run { world in
            try world.a.makeFolder("d")
            for number in 0..<120 { try await world.a.create("d/f\(number)", [UInt8(number)]) }
            try await world.settle()
            try await world.sleep(.seconds(DeletionGuard.freshAge))
            let row = try world.a.live("d/f0")
            for number in 0..<5 { try world.a.remove("d/f\(number)") }
            try await world.sleep(.milliseconds(300))
            let deleted = try #require(try world.a.index.row(key: row.key))
            let wait = try #require(try upload(world.a, deleted))
            #expect(wait.code == "deletion-burst")
            #expect(wait.until != nil)
            try await world.settle()
        }
    }

    @Test func deletionThatTheCloudIgnoredSaysWhenItIsRepeated() async throws {
        try await run { world in
            try world.a.makeFolder("d")
            try await world.settle()
            let row = try world.a.live("d")
            try world.a.remove("d")
            try world.a.engine.context.agenda.pauseDeletions([row.key], of: [row.key])
            let deleted = try #require(try world.a.index.row(key: row.key))
            let wait = try #require(try upload(world.a, deleted))
            #expect(wait.code == "deletion-without-effect")
            #expect(wait.sentence.contains(", next attempt at "))
            try await world.settle()
            #expect(try world.b.paths().isEmpty)
        }
    }

    // MARK: Packages

    @Test func packageInUseNamesItsUsers() async throws {
        try await run { world in
            try await makePackage(world)
            let package = try world.a.live("d.rtfd")
            try world.a.engine.bind(Users(timekeeper: world.a.timekeeper))
            #expect(try world.a.engine.claims.claim(package.key) == nil)
            try await world.a.edit("d.rtfd/text") { _ in [2] }
            let wait = try #require(try upload(world.a, "d.rtfd/text"))
            #expect(wait.code == "package-in-use")
            #expect(wait.sentence == "in a package that Editor has open; waits until it is saved")
        }
    }

    @Test func undecidedPackageIsNamed() async throws {
        try await run { world in
            try await makePackage(world)
            try await world.a.edit("d.rtfd/text") { _ in [2] }
            let package = try world.a.live("d.rtfd").key
            try world.a.engine.context.agenda.pauseBriefly([package], .packageNeedsDecision)
            #expect(try upload(world.a, "d.rtfd/text")?.code == "package-undecided")
            try await world.settle()
        }
    }

    @Test func smallMemberWaitsForTheUploadOfALargeOne() async throws {
        try await run { world in
            try await makePackage(world, ["text", "image"])
            world.a.link.script(.upload, .hold(.seconds(30)))
            let image = world.random.bytes(500_000)
            try await world.a.edit("d.rtfd/image") { _ in image }
            try await world.a.edit("d.rtfd/text") { _ in [2] }
            try await world.sleep(.seconds(5))
            #expect(try upload(world.a, "d.rtfd/text")?.code == "package-incomplete")
            try await world.settle()
        }
    }

    // MARK: Downloads

    @Test func contentThatIsNotUploadedYetIsNamed() async throws {
        try await run { world in
            world.a.link.script(.upload, .hold(.seconds(60)))
            try await world.a.create("f", world.random.bytes(500_000))
            try await world.sleep(.seconds(5))
            try world.b.pin("f")
            try await world.sleep(.seconds(1))
            let row = try world.b.live("f")
            let wait = try world.b.index.read { try world.b.engine.waits(of: row, $0).download }
            #expect(wait?.code == "content-unavailable")
            try await world.settle()
        }
    }
}

/// A client that has every item open and does not answer.
private struct Users: OpenItems {
    let timekeeper: any Timekeeper

    func whileClosed<R>(_ key: ItemKey, _ body: () throws -> R) throws -> R? { nil }
    func mayBeUsed(_ key: ItemKey) -> Bool { true }
    func writers(of row: ItemRow) -> [String] { ["Editor"] }
    func prepare(for changes: [ComingChange]) async throws -> (@Sendable () -> Void)? {
        try await timekeeper.sleep(for: .seconds(3600))
        return nil
    }
}
