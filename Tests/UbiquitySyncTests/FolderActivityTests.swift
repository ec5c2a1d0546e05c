import Testing
import UbiquityCore
import UbiquityIndex
import UbiquityTestSupport
@testable import UbiquitySync

/// Transfers and errors that folders show for the items below them.
@Suite struct FolderActivityTests: WorldTests {
    static let seed: UInt64 = 97

    private func activity(_ device: SimulatedDevice, _ path: String) throws -> FolderActivity {
        let folder = path.isEmpty ? ItemKey.root : try device.live(path).key
        let engine = try device.engine
        return try device.index.read { try FolderActivity(below: folder, $0.sums(below: folder), engine.status, $0) }
    }

    @Test func refusedUploadShowsInTheFoldersAbove() async throws {
        try await run { world in
            for path in ["d", "d/e", "f"] { try world.a.makeFolder(path) }
            try await world.settle()
            world.cloud.setQuota(1000)
            try await world.a.create("d/e/big", world.random.bytes(5000))
            try await world.a.create("f/small", [1])
            try await world.sleep(.seconds(60))
            for path in ["", "d", "d/e"] {
                #expect(try activity(world.a, path).uploadingError?.code == .quotaExceeded, "\(path)")
            }
            #expect(try activity(world.a, "f").uploadingError == nil)
            #expect(try world.a.index.sums(below: .root).pending > 0)
            world.cloud.setQuota(10_000)
            try await world.settle()
            #expect(try activity(world.a, "d") == activity(world.a, "f"))
            #expect(try world.a.index.sums(below: .root).pending == 0)
            try await world.check()
        }
    }

    @Test func failedDownloadShowsInTheFoldersAbove() async throws {
        try await run { world in
            for path in ["d", "d/e", "f"] { try world.a.makeFolder(path) }
            try await world.a.create("d/e/bad", world.random.bytes(5000))
            try await world.settle()
            #expect(try world.b.index.sums(below: .root).absent == 1)
            #expect(try activity(world.b, "d").downloadingError == nil)
            try world.b.engine.problems.note(
                UbiquityError(.damaged, "a chunk is not what it should be"), .download,
                of: world.b.live("d/e/bad").key)
            for path in ["", "d", "d/e"] {
                #expect(try activity(world.b, path).downloadingError?.code == .damaged, "\(path)")
            }
            #expect(try activity(world.b, "f").downloadingError == nil)
        }
    }
}
