import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityTestSupport
@testable import UbiquitySync

/// A disk with less free space than the floor.
@Suite struct DiskFloorTests: WorldTests {
    static let seed: UInt64 = 16
    /// More than any disk has.
    private static let hugeFloor = SimulatedDevice.Settings(diskFloor: 1 << 60)
    private static let large = Array(repeating: UInt8(7), count: 100_000)

    private func runBelowFloor(_ scenario: @escaping @Sendable (Simulation) async throws -> Void) async throws {
        try await run(["a", "b"], ["b": Self.hugeFloor], scenario)
    }

    @Test func requestedDownloadPassesTheFloorAndStays() async throws {
        try await runBelowFloor { world in
            try await world.a.create("f", Self.large)
            try await world.settle()
            try await world.b.engine.downloader.requestPersistently(world.b.live("f").key)
            try await world.settle()
            #expect(try world.b.live("f").contentState == .complete)
            // Several rounds of eviction.
            try await world.sleep(.seconds(30))
            #expect(try world.b.live("f").contentState == .complete)
            try world.b.engine.space.keepWithinLimits()
            #expect(try world.b.live("f").contentState == .complete)
            // A requested content stays for a day. One that was used within it is not evicted for others.
            let later = world.b.timekeeper.now().advanced(bySeconds: 1)
            let isAny = try world.b.index.read { reader in
                try [Timestamp.zero, later].map { since in
                    try !reader.evictable(keeping: KeptContents(size: 0, requestedSince: since), limit: 1).isEmpty
                }
            }
            #expect(isAny == [false, true])
        }
    }

    @Test func openPassesTheFloor() async throws {
        try await runBelowFloor { world in
            try await world.a.create("f", Self.large)
            try await world.settle()
            #expect(try await world.b.read("f") == Self.large)
        }
    }

    @Test func ignoreFileComesBelowTheFloorAndStays() async throws {
        try await runBelowFloor { world in
            try await world.a.create(".ubiquityignore", Array("*.o\n".utf8))
            try await world.settle()
            try await world.sleep(.seconds(30))
            #expect(try world.b.live(".ubiquityignore").contentState == .complete)
            try await world.b.create("x.o", [1])
            try await world.settle()
            #expect(try world.a.row("x.o") == nil)
        }
    }

    @Test func smallPinnedFileComesBelowTheFloor() async throws {
        try await runBelowFloor { world in
            try await world.a.create("f", [1, 2, 3, 4, 5, 6])
            try await world.settle()
            try world.b.pin("f")
            try await world.settle()
            #expect(try world.b.live("f").contentState == .complete)
        }
    }

    @Test func eagerDeviceBelowTheFloorHasSmallFilesAlone() async throws {
        try await run(["a", "b"], ["b": .init(policy: .eager, diskFloor: 1 << 60)]) { world in
            try await world.a.create("small", [1])
            try await world.a.create("large", Self.large)
            try await world.settle()
            try await world.sleep(.seconds(30))
            #expect(try world.b.live("small").contentState == .complete)
            #expect(try world.b.live("large").contentState == ContentState.none)
        }
    }

    @Test func pinnedFileWithoutSpaceShowsTheReason() async throws {
        try await runBelowFloor { world in
            try await world.a.create("f", Self.large)
            try await world.settle()
            try world.b.pin("f")
            let row = try world.b.live("f")
            let refusal = try #require(try world.b.engine.space.refusal(of: row, after: 0))
            #expect(refusal.code == .noSpace && refusal.message.contains("--disk-floor keeps 1.0 EiB free"))
            try await world.settle()
            let error = try #require(try world.b.engine.status(of: row).downloadingError)
            #expect(error.code == .noSpace && error.message.contains("--disk-floor keeps 1.0 EiB free"))
            #expect(try world.b.engine.summary().isIdle && world.b.engine.summary().lacksSpace)
            #expect(try world.b.engine.status.lacksSpace(row.key))
            // A requested download ends that.
            try await world.b.engine.downloader.requestPersistently(row.key)
            try await world.settle()
            #expect(try world.b.live("f").contentState == .complete)
            #expect(try !world.b.engine.summary().lacksSpace)
        }
    }

    /// A newer version of a pinned content needs space beside the older one.
    @Test func newerVersionWithoutSpaceIsNotAwaited() async throws {
        try await runBelowFloor { world in
            try await world.a.create("f", Self.large)
            try await world.settle()
            try await world.b.engine.downloader.requestPersistently(world.b.live("f").key)
            try world.b.pin("f")
            try await world.settle()
            try await world.a.edit("f") { $0 + [1] }
            try await world.settle()
            #expect(try world.b.engine.summary().lacksSpace)
        }
    }
}
