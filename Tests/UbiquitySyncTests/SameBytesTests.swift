import Testing
import UbiquityTestSupport

/// Programs save an opened file, changed or not: the same bytes are no edit.
@Suite struct SameBytesTests: WorldTests {
    static let seed: UInt64 = 23

    @Test func sameBytesSendNothing() async throws {
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

    /// Repeatedly, while the other device's edit is being sent.
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

    /// A user with the same documents on two machines copies them into the container on both.
    @Test(arguments: ["Documents", "Documents/d", "elsewhere"], [false, true])
    func equalDocumentsFromTwoDevicesMerge(folder: String, isFolderThere: Bool) async throws {
        try await run { world in
            let large = world.random.bytes(300_000)
            let folders = folder.split(separator: "/").indices.map { folder.split(separator: "/")[...$0].joined(separator: "/") }
            if isFolderThere {
                for above in folders { try world.a.makeFolder(above) }
                try await world.settle()
            }
            for device in world.devices { device.link.setAway(true) }
            for device in world.devices {
                if !isFolderThere { for above in folders { try device.makeFolder(above) } }
                try await device.create("\(folder)/small.txt", [1, 2, 3])
                try await device.create("\(folder)/empty.txt", [])
                try await device.create("\(folder)/large.txt", large)
                try device.makeFolder("\(folder)/p.rtfd")
                try await device.create("\(folder)/p.rtfd/text", [4])
                try await device.create("\(folder)/p.rtfd/picture", large)
            }
            let paths = try world.a.paths().map(\.path)
            world.a.link.setAway(false)
            try await world.settle([world.a])
            world.b.link.setAway(false)
            try await world.settle()
            for device in world.devices { #expect(try device.paths().map(\.path) == paths) }
            #expect(world.cloud.conflictCount() == 0 && world.b.link.counts.uploadedBytes == 0)
            try await world.check()
        }
    }

    /// An edit that began before the merge with another's file was known is based on that file.
    @Test(arguments: [3, 300_000]) func editDuringAMergeIsNoConflict(length: Int) async throws {
        try await run { world in
            let same = world.random.bytes(length)
            for device in world.devices { device.link.setAway(true) }
            for device in world.devices { try await device.create("f", same) }
            world.a.link.setAway(false)
            try await world.settle([world.a])
            world.b.link.script(.commit, .holdAnswer(.seconds(5)))
            world.b.link.setAway(false)
            for _ in 0..<1000 where world.b.link.counts.calls[.commit] == nil { try await world.sleep(.milliseconds(10)) }
            // The cloud has it, and its answer is delayed (virtual time, as all sleeps here).
            try await world.sleep(.seconds(1))
            #expect(world.b.link.counts.calls[.commit] == 1)
            let edited = same + [1]
            try await world.b.edit("f") { _ in edited }
            try await world.settle()
            #expect(world.cloud.conflictCount() == 0)
            #expect(try await world.a.read("f") == edited)
            try await world.check()
        }
    }
}
