import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquityTestSupport

/// Links whose target changes, and pinned folders.
@Suite struct NameAndPinTests: WorldTests {
    static let seed: UInt64 = 12

    /// A device's file with a link was merged with another device's item, which the device never learned. It sends the
    /// file once more, and the link, which others have, leads to the merged item now.
    @Test func hardLinkFollowsAMergedFile() async throws {
        try await run { world in
            world.a.link.setAway(true)
            try await world.b.create("f", [1])
            try await world.settle([world.b])
            try await world.a.create("f", [2])
            try world.a.makeHardLink("g", to: "f")
            world.a.link.script(.commit, .vanishAfter { world.a.crash() })
            world.a.link.setAway(false)
            try await world.sleep(.seconds(5))
            #expect(!world.a.isRunning)
            try await world.settle([world.b])
            #expect(try world.b.row("g") != nil)
            try world.b.rename("f", "h")
            try await world.settle([world.b])
            world.a.link.setAway(true)
            try world.a.start()
            try await world.a.edit("f") { _ in [3] }
            world.a.link.setAway(false)
            try await world.settle()
            try await world.check()
            for device in [world.a, world.b] {
                #expect(try device.live("f").isLinked && !device.live("h").isLinked, "\(device.name)")
            }
            #expect(try await world.b.read("g") == [3])
        }
    }

    /// Another device has announced a file and not sent its content: a requested download is pending, and shows why.
    @Test func unsentContentShowsItsReason() async throws {
        try await run(["a", "b", "c"], ["c": SimulatedDevice.Settings(policy: .eager)]) { world in
            world.a.link.script(.upload, .hold(.seconds(60)))
            try await world.a.create("f", [UInt8](repeating: 7, count: 3_000_000))
            for _ in 0..<200 where try world.b.row("f") == nil { try await world.sleep(.milliseconds(100)) }
            var row = try world.b.live("f")
            let engine = try world.b.engine
            // Nobody requests it.
            #expect(try engine.status.awaited(limit: 5).isEmpty && engine.status(of: row).downloadingError == nil)
            try await engine.downloader.requestPersistently(row.key)
            row = try world.b.live("f")
            #expect(try engine.status.awaited(limit: 5) == [row.key])
            let error = try engine.status(of: row).downloadingError
            #expect(error?.code == .notUploadedYet && error?.message.contains("a has not uploaded") == true, "\(String(describing: error))")
            let eager = world.devices[2], same = try eager.live("f")
            #expect(try eager.engine.status.awaited(limit: 5) == [same.key] && eager.engine.status.whyNotHere(same.key) == error)
            #expect(try eager.engine.status(of: same).downloadingError == error)
            try await world.settle()
            row = try world.b.live("f")
            #expect(row.contentState == .complete)
            #expect(try engine.status.awaited(limit: 5).isEmpty && engine.status(of: row).downloadingError == nil)
        }
    }

    /// A link in it keeps a file like the file's own name.
    @Test func pinnedFolderKeepsLinkedFile() async throws {
        try await run { world in
            for folder in ["kept", "moved"] { try world.a.makeFolder(folder) }
            for name in ["here", "there", "moved/from", "else"] { try await world.a.create(name, [1, 2]) }
            try world.a.makeHardLink("moved/link", to: "moved/from")
            try await world.settle()
            try world.b.pin("kept")
            try world.a.makeHardLink("kept/there", to: "there")
            try world.b.makeHardLink("kept/here", to: "here")
            try world.a.rename("moved", "kept/moved")
            try await world.settle()
            for name in ["here", "there", "kept/moved/from"] {
                let row = try world.b.live(name)
                #expect(row.isPinned && row.contentState == .complete, "\(name)")
                #expect(throws: UbiquityError.self) { try world.b.evict(name) }
            }
            #expect(try !world.b.live("else").isPinned)
            try await world.check()
        }
    }

    /// An unpinned folder leaves its links as they were; the next pinned folder keeps the file of a link.
    @Test func linkMovedToAnotherPinnedFolderKeepsItsFile() async throws {
        try await run { world in
            for folder in ["first", "second"] { try world.a.makeFolder(folder) }
            try await world.a.create("file", [1, 2])
            try await world.settle()
            for folder in ["first", "second"] { try world.b.pin(folder) }
            try world.b.makeHardLink("first/link", to: "file")
            try world.b.pin("first", false)
            try world.b.pin("file", false)
            try world.b.rename("first/link", "second/link")
            #expect(try world.b.live("file").isPinned)
            try await world.settle()
            try await world.check()
        }
    }

    /// Any item that arrives in it: from another device, by a move on either device, or by a creation here.
    @Test func pinnedFolderKeepsArrivingFile() async throws {
        try await run { world in
            for folder in ["kept", "moved", "moved/d"] { try world.a.makeFolder(folder) }
            for name in ["kept/a", "moved/d/b", "c", "d"] { try await world.a.create(name, [1]) }
            try await world.settle()
            for name in ["kept", "kept/a"] { try world.b.pin(name) }
            try await world.settle()
            try await world.a.create("kept/new", [2])
            try world.a.makeFolder("kept/sub")
            try await world.a.create("kept/sub/deep", [3])
            try world.a.rename("moved", "kept/moved")
            try world.a.rename("c", "kept/c")
            try world.b.rename("d", "kept/d")
            try await world.b.create("kept/own", [4])
            try await world.settle()
            for name in ["a", "new", "sub", "sub/deep", "moved", "moved/d", "moved/d/b", "c", "d", "own"] {
                let row = try world.b.live("kept/" + name)
                #expect(row.isPinned, "\(name)")
                #expect(row.kind == .directory || row.contentState == .complete, "\(name)")
            }
            #expect(try !world.a.live("kept/new").isPinned)
            try await world.check()
        }
    }
}
