import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityTestSupport
@testable import UbiquitySync

/// The reason why a transfer waits, for each reason.
@Suite struct ItemWaitTests: WorldTests {
    static let seed: UInt64 = 31

    private func upload(_ device: SimulatedDevice, _ path: String) throws -> ItemWait? {
        try wait(device, device.live(path)).upload
    }

    private func wait(_ device: SimulatedDevice, _ row: ItemRow) throws -> (upload: ItemWait?, download: ItemWait?) {
        try device.index.read { try device.engine.waits(of: row, $0) }
    }

    private func refuse(_ device: SimulatedDevice, _ path: String) throws {
        let key = try device.live(path).key
        // Many attempts, so that the next one is seconds away.
        for _ in 0..<10 {
            try device.engine.problems.note(UbiquityError(.invalid, "the name is not allowed"), .upload, of: key)
        }
    }

    // MARK: The whole mount

    @Test func absentCloudIsNamed() async throws {
        try await run { world in
            try await world.a.create("f", [1])
            try await world.settle()
            #expect(try upload(world.a, "f") == nil)
            world.a.link.setAway(true)
            try await world.a.edit("f") { _ in [2] }
            try await world.sleep(.seconds(60))
            let wait = try #require(try upload(world.a, "f"))
            #expect(wait.code == "network")
            #expect(wait.sentence.hasPrefix("waits for the network"))
            world.a.link.setAway(false)
            try await world.settle()
            #expect(try upload(world.a, "f") == nil)
        }
    }

    @Test func offlineMountIsNamed() async throws {
        try await run { world in
            try await world.settle()
            try world.a.setPaused(true)
            try await world.a.create("f", [1])
            #expect(try upload(world.a, "f")?.reason == .offlineOnRequest)
            try world.a.setPaused(false)
            try await world.settle()
        }
    }

    // MARK: The item

    @Test func frequentChangesAreCounted() async throws {
        try await run { world in
            try await world.a.create("f", [0])
            try await world.settle()
            let key = try world.a.live("f").key
            for _ in 0..<SyncLimits.burst * 4 { try world.a.engine.throttle.noteCommit(of: key) }
            try await world.a.edit("f") { _ in [1] }
            try await world.sleep(.seconds(1))
            let wait = try #require(try upload(world.a, "f"))
            #expect(wait.code == "throttled")
            #expect(wait.sentence.hasPrefix("changed 4"))
            #expect(wait.sentence.contains(" s, next attempt at "))
            #expect(try #require(wait.until) > world.a.timekeeper.now())
            try await world.settle()
        }
    }

    @Test func fullAccountSaysNeedAndSpace() async throws {
        try await run { world in
            world.cloud.setQuota(1_000_000)
            try await world.a.create("f", world.random.bytes(1000))
            try await world.settle()
            let large = world.random.bytes(2_000_000)
            try await world.a.edit("f") { _ in large }
            try await world.sleep(.seconds(60))
            let wait = try #require(try upload(world.a, "f"))
            #expect(wait.code == "account-full")
            guard case .accountFull(let needs, let left, let quota) = wait.reason else { return }
            #expect(needs == 1_999_000 && quota == 1_000_000 && left < quota)
            world.cloud.setQuota(10_000_000)
            try await world.settle()
        }
    }

    @Test func refusalOfCloudIsQuoted() async throws {
        try await run { world in
            try await world.settle()
            try await world.a.create("f", [1])
            try refuse(world.a, "f")
            let wait = try #require(try upload(world.a, "f"))
            #expect(wait.code == "refused")
            #expect(wait.sentence.hasPrefix("the cloud refused it: the name is not allowed"))
            #expect(wait.sentence.contains(", next attempt at "))
            try await world.settle()
        }
    }

    @Test func refusedFolderHoldsItsItemsUp() async throws {
        try await run { world in
            try await world.settle()
            try world.a.makeFolder("d")
            try refuse(world.a, "d")
            try await world.a.create("d/f", [1])
            let wait = try #require(try upload(world.a, "d/f"))
            #expect(wait.code == "folder")
            #expect(wait.sentence.hasPrefix("waits for the folder that holds it, \"d\": the cloud refused it"))
            try await world.settle()
        }
    }

    @Test func claimNamesItsProgram() async throws {
        try await run { world in
            try await world.a.create("f", [1])
            try await world.settle()
            try world.a.engine.bind(Writers())
            try await world.a.edit("f") { _ in [2] }
            try await world.sleep(.seconds(2))
            let wait = try #require(try upload(world.a, "f"))
            #expect(wait.code == "claimed")
            #expect(wait.sentence.hasPrefix("being written by LibreOffice, next attempt at "))
        }
    }

    @Test func heldDeletionsAreNamed() async throws {
        try await run { world in
            try world.a.makeFolder("d")
            for number in 0..<120 { try await world.a.create("d/f\(number)", [UInt8(number)]) }
            try await world.settle()
            try await world.sleep(.seconds(DeletionGuard.freshAge))
            let row = try world.a.live("d/f7")
            try world.a.remove("d")
            for _ in 0..<100 where try world.a.engine.heldDeletions <= 100 { try await world.sleep(.seconds(1)) }
            let deleted = try #require(try world.a.index.row(key: row.key))
            let wait = try #require(try wait(world.a, deleted).upload)
            #expect(wait.code == "deletions-on-hold")
            #expect(wait.sentence.hasPrefix("deletions are on hold"))
            _ = try world.a.engine.undoDeletions()
            try await world.settle()
        }
    }

    // MARK: Packages

    @Test func changedPackageWaitsForQuiet() async throws {
        try await run { world in
            try world.a.makeFolder("d.rtfd")
            try await world.a.create("d.rtfd/text", [1])
            try await world.settle()
            try await world.a.edit("d.rtfd/text") { _ in [2] }
            try await world.sleep(.milliseconds(100))
            #expect(try upload(world.a, "d.rtfd/text")?.code == "package-changing")
            try await world.settle()
        }
    }

    @Test func writtenPackageNamesItsProgram() async throws {
        try await run { world in
            try world.a.makeFolder("d.rtfd")
            for name in ["text", "image"] { try await world.a.create("d.rtfd/\(name)", [1]) }
            try await world.settle()
            try world.a.engine.bind(Writers())
            try await world.a.edit("d.rtfd/text") { _ in [2] }
            try await world.sleep(.seconds(2))
            let wait = try #require(try upload(world.a, "d.rtfd/text"))
            #expect(wait.code == "package-written")
            #expect(wait.sentence.hasPrefix("in a package that is being written by LibreOffice"))
        }
    }

    @Test func refusedMemberHoldsPackageUp() async throws {
        try await run { world in
            try world.a.makeFolder("d.rtfd")
            for name in ["text", "image"] { try await world.a.create("d.rtfd/\(name)", [1]) }
            try await world.settle()
            for name in ["text", "image"] { try await world.a.edit("d.rtfd/\(name)") { _ in [2] } }
            try refuse(world.a, "d.rtfd/image")
            try await world.sleep(.seconds(1))
            #expect(try upload(world.a, "d.rtfd/text")?.code == "refused")
            try await world.settle()
        }
    }

    // MARK: Downloads

    @Test func pinnedPlaceholderWaitsForAbsentCloud() async throws {
        try await run { world in
            try await world.a.create("f", [1, 2, 3])
            try await world.settle()
            world.b.link.setAway(true)
            try await world.sleep(.seconds(60))
            #expect(try wait(world.b, world.b.live("f")).download == nil)
            try world.b.pin("f")
            try await world.sleep(.seconds(1))
            #expect(try wait(world.b, world.b.live("f")).download?.code == "network")
            world.b.link.setAway(false)
            try await world.settle()
        }
    }

    @Test func failedDownloadSaysWhyAndWhen() async throws {
        try await run { world in
            try await world.a.create("f", world.random.bytes(5000))
            try await world.settle()
            try world.b.setPaused(false)
            try world.b.pin("f")
            for _ in 0..<10 {
                try world.b.engine.problems.note(
                    UbiquityError(.damaged, "a chunk is damaged"), .download, of: world.b.live("f").key)
            }
            let wait = try #require(try wait(world.b, world.b.live("f")).download)
            #expect(wait.code == "network" || wait.sentence.hasPrefix("a chunk is damaged, next attempt at "))
            try await world.settle()
        }
    }

    // MARK: Sentences

    @Test(arguments: [
        (ItemWait(.accountFull(needs: 1_395_864_371, left: 1 << 30, quota: 2 << 30)),
            "the account is full: needs 1.3 GiB, 1.0 GiB left of 2.0 GiB"),
        (ItemWait(.changesOften(count: 12, seconds: 20)), "changed 12 times in 20 s"),
        (ItemWait(.packageWritten(by: ["LibreOffice"])), "in a package that is being written by LibreOffice"),
        (ItemWait(.packageWritten(by: [])), "in a package that is being written by a program"),
        (ItemWait(.packageInUse(by: ["Editor"])), "in a package that Editor has open; waits until it is saved"),
        (ItemWait(.network(nil)), "waits for the network"),
        (ItemWait(.turn), "waits for its turn"),
    ]) func sentences(wait: ItemWait, text: String) { #expect(wait.sentence == text) }

    @Test func nextAttemptIsLocalTime() {
        let time = Timestamp(nanoseconds: 1_700_000_000_000_000_000)
        let wait = ItemWait(.changesOften(count: 12, seconds: 20), until: time)
        #expect(wait.sentence == "changed 12 times in 20 s, next attempt at \(LocalTime.clock(time))")
        #expect(LocalTime.clock(time).split(separator: ":").count == 3)
    }
}

/// A client that writes to every item.
private struct Writers: OpenItems {
    func whileClosed<R>(_ key: ItemKey, _ body: () throws -> R) throws -> R? { nil }
    func mayBeUsed(_ key: ItemKey) -> Bool { true }
    func isBeingWritten(_ row: ItemRow) -> Bool { true }
    func writers(of row: ItemRow) -> [String] { ["LibreOffice"] }
}
