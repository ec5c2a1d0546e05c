import Testing
import UbiquityTestSupport

/// Programs save what they opened, changed or not: the same bytes are no edit.
@Suite struct SameBytesTests: WorldTests {
    static let seed: UInt64 = 23

    @Test func theSameBytesAgainSendNothing() async throws {
        try await run(["a"]) { world in
            for size in [100, 300_000] {
                try await world.a.create("f\(size)", world.random.bytes(size))
                try await world.settle()
                world.a.link.resetCounts()
                try await world.a.rewrite("f\(size)")
                try await world.settle()
                #expect(world.a.link.counts.contents == 0)
                #expect(world.a.link.counts.uploadedBytes == 0)
            }
        }
    }

    @Test(arguments: [false, true], [false, true])
    func rewritingTheSameBytesIsNoEditAgainstAnEdit(isSavedAside: Bool, isLater: Bool) async throws {
        try await run { world in
            for size in [10, 300_000] {
                let (old, new) = (world.random.bytes(size), world.random.bytes(size))
                try await world.a.create("f", old)
                try await world.settle()
                world.a.link.setAway(true)
                if isLater {
                    try await world.b.edit("f") { _ in new }
                    try await world.settle([world.b])
                }
                if isSavedAside { try await world.a.saveOver("f", old) } else { try await world.a.rewrite("f") }
                try await world.sleep(.seconds(5))
                if !isLater {
                    try await world.b.edit("f") { _ in new }
                    try await world.settle([world.b])
                }
                world.a.link.setAway(false)
                try await world.settle()
                for device in world.devices { #expect(try await device.read("f") == new) }
                #expect(world.cloud.conflictCount() == 0)
                try await world.check()
                try world.a.remove("f")
                try await world.settle()
            }
        }
    }

    @Test func rewritingTheSameBytesIsNoEditAgainstADeletion() async throws {
        try await run { world in
            try await world.a.create("f", [0])
            try await world.settle()
            world.a.link.setAway(true)
            try await world.a.rewrite("f")
            try world.b.remove("f")
            try await world.settle([world.b])
            world.a.link.setAway(false)
            try await world.settle()
            #expect(try world.a.row("f") == nil)
            try await world.check()
        }
    }

    /// Again and again, while the other device's edit is on its way.
    @Test func rewritingTheSameBytesTwiceIsNoEditEither() async throws {
        try await run { world in
            let (old, new) = (world.random.bytes(300_000), world.random.bytes(300_000))
            try await world.a.create("f", old)
            try await world.settle()
            world.a.link.script(.fetchChunks, .hold(.seconds(60)))
            try await world.b.edit("f") { _ in new }
            try await world.settle([world.b])
            for _ in 0..<3 {
                try await world.sleep(.seconds(5))
                try await world.a.rewrite("f")
            }
            try await world.settle()
            for device in world.devices { #expect(try await device.read("f") == new) }
            #expect(world.cloud.conflictCount() == 0)
            try await world.check()
        }
    }
}
