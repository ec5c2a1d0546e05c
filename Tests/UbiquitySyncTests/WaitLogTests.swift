import Testing
import UbiquityCore
import UbiquityTestSupport
@testable import UbiquitySync

/// The log's lines about items that wait.
@Suite struct WaitLogTests: WorldTests {
    static let seed: UInt64 = 41

    private func lines(_ world: Simulation, _ parts: String...) -> [Substring] {
        world.world.trace.text.split(separator: "\n").filter { line in parts.allSatisfy(line.contains) }
    }

    @Test func lastingReasonIsLoggedOnce() async throws {
        try await run { world in
            world.cloud.setQuota(1_000_000)
            try await world.settle()
            try await world.a.create("f", world.random.bytes(2_000_000))
            try await world.sleep(.seconds(120))
            let lines = lines(world, " a: an upload waits", "name=f", "the account is full: needs ")
            #expect(lines.count == 1, "\(lines)")
            world.cloud.setQuota(10_000_000)
            try await world.settle()
        }
    }

    @Test func reasonThatReturnsIsLoggedAgain() async throws {
        try await run { world in
            try await world.settle()
            for round in 1...2 {
                world.cloud.setQuota(1_000_000)
                let bytes = world.random.bytes(2_000_000 * round)
                if round == 1 { try await world.a.create("f", bytes) } else { try await world.a.edit("f") { _ in bytes } }
                try await world.sleep(.seconds(30))
                #expect(lines(world, " a: an upload waits", "name=f", "the account is full").count == round)
                world.cloud.setQuota(10_000_000)
                try await world.settle()
                // The next look finds nothing that waits.
                try await world.sleep(.seconds(10))
            }
        }
    }

    @Test func absentCloudIsOneLineForAllItems() async throws {
        try await run { world in
            try await world.settle()
            world.a.link.setAway(true)
            for number in 0..<10 { try await world.a.create("f\(number)", [1]) }
            try await world.sleep(.seconds(120))
            #expect(lines(world, " a: all transfers wait", "waits for the network").count == 1)
            #expect(lines(world, " a: an upload waits").isEmpty)
            world.a.link.setAway(false)
            try await world.settle()
        }
    }

    @Test func manyReasonsAreCounted() async throws {
        try await run { world in
            world.cloud.setQuota(10)
            try await world.settle()
            for number in 0..<50 { try await world.a.create("f\(number)", world.random.bytes(2000)) }
            try await world.sleep(.seconds(30))
            #expect(lines(world, " a: an upload waits").count == SyncLimits.waitLines)
            try await world.sleep(.seconds(60))
            #expect(lines(world, " a: more transfers wait than were logged", "items=30").count == 1)
            world.cloud.setQuota(10_000_000)
            try await world.settle()
        }
    }
}
