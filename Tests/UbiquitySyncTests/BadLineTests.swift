import Testing
import UbiquityCore
import UbiquitySystem
import UbiquityTestSupport
import UbiquityWire

@testable import UbiquitySync

/// First reads over a line on which many requests fail.
@Suite struct BadLineTests: WorldTests {
    static let seed: UInt64 = 4711

    private static let broken = UbiquityError(.offline, "the connection is broken")

    @Test func firstReadOutlivesFailuresInARow() async throws {
        try await run { world in
            // Large enough that the device fetches its manifest.
            let bytes = world.random.bytes(4_000_000)
            try await world.a.create("f", bytes)
            try await world.settle()
            for _ in 0..<3 { world.b.link.script(.manifest, .fail(Self.broken)) }
            for _ in 0..<6 { world.b.link.script(.fetchChunks, .fail(Self.broken)) }
            #expect(try await world.b.read("f") == bytes)
        }
    }

    /// 30 % of all requests fail at once, and 10 % of the chunks arrive damaged.
    @Test func firstReadsOverABadLineSucceed() async throws {
        try await run { world in
            let sizes = [1, 1000, 20_000]
            for number in 0..<300 {
                try await world.a.create("f\(number)", world.random.bytes(sizes[number % 3]))
            }
            try await world.settle()
            var line = NetworkConditions.perfect
            line.brokenRequests = 0.3
            line.damagedChunks = 0.1
            world.b.link.setConditions(line)
            var failures = [String]()
            for number in 0..<300 {
                do { #expect(try await world.b.read("f\(number)").count == sizes[number % 3]) } catch {
                    failures.append("f\(number): \(error)")
                }
            }
            #expect(failures.isEmpty, "\(failures.count) of 300: \(failures)")
            world.b.link.setConditions(.perfect)
            try await world.settle()
        }
    }

    @Test func readGivesUpWithinTheNetworksLimit() async throws {
        try await run { world in
            try await world.a.create("f", world.random.bytes(100_000))
            try await world.settle()
            for _ in 0..<200 { world.b.link.script(.fetchChunks, .fail(Self.broken)) }
            let start = world.world.uptime
            let error = await #expect(throws: UbiquityError.self) { _ = try await world.b.read("f") }
            #expect(error?.code == .offline)
            let taken = world.world.uptime - start
            #expect(taken > .seconds(5) && taken < .seconds(20), "\(taken)")
            world.b.link.forgetScript()
        }
    }

    /// The last answer of the cloud is long ago: no read waits for it.
    @Test func readFailsAtOnceWhileTheCloudIsAway() async throws {
        try await run { world in
            try await world.a.create("f", world.random.bytes(100_000))
            try await world.settle()
            world.b.link.setAway(true)
            try await world.sleep(.seconds(60))
            for _ in 0..<20 { world.b.link.script(.fetchChunks, .fail(Self.broken)) }
            let start = world.world.uptime
            await #expect(throws: UbiquityError.self) { _ = try await world.b.read("f") }
            #expect(world.world.uptime - start < .seconds(2))
            world.b.link.forgetScript()
            world.b.link.setAway(false)
            try await world.settle()
        }
    }

    @Test func malformedContentIsNoInvalidArgument() async throws {
        try await run { world in
            let bytes = world.random.bytes(100_000)
            try await world.a.create("f", bytes)
            try await world.settle()
            for _ in 0..<50 { world.b.link.script(.fetchChunks, .fail(UbiquityError(.invalid, "no frame"))) }
            let error = await #expect(throws: UbiquityError.self) { _ = try await world.b.read("f") }
            #expect(error?.code == .damaged)
            world.b.link.forgetScript()
            #expect(try await world.b.read("f") == bytes)
        }
    }
}
