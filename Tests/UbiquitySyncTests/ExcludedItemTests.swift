import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquityTestSupport

/// Excluded items at the place of a synced one.
@Suite struct ExcludedItemTests: WorldTests {
    static let seed: UInt64 = 17

    /// A synced item stays synced under an ignored name, which an excluded item may have elsewhere.
    @Test func ignoredItemFreesNameForSyncedOne() async throws {
        try await run { world in
            try world.a.makeLink("link", to: "somewhere")
            try await world.b.create("notes~", [1])
            try world.b.makeFolder("k~")
            try await world.b.create("k~/in", [2])
            try world.a.makeFolder("folder")
            try await world.settle()
            try world.a.rename("link", "notes~")
            try world.a.rename("folder", "k~")
            try await world.settle()
            #expect(try world.b.live("notes~").kind == .symlink)
            #expect(try await world.b.read("notes 2~") == [1])
            #expect(try await world.b.read("k 2~/in") == [2])
            #expect(try world.a.row("notes 2~") == nil)
            try await world.check()
        }
    }

    /// A folder that was deleted elsewhere stays for its excluded items; then another item of its name arrives.
    @Test func lingeringFolderFreesItsName() async throws {
        try await run { world in
            try world.a.makeFolder("f")
            try await world.settle()
            try await world.b.create("f/notes~", [1])
            try world.a.remove("f")
            try await world.settle()
            try world.a.makeLink("f", to: "somewhere")
            try await world.settle()
            #expect(try world.b.live("f").kind == .symlink)
            #expect(try await world.b.read("f 2/notes~") == [1])
            try await world.check()
        }
    }

    /// Two folders merge, each with an excluded item of the same name.
    @Test func mergeOfFoldersKeepsExcludedItems() async throws {
        try await run { world in
            try world.a.makeFolder("old")
            try await world.a.create("old/notes~", [1])
            try await world.settle()
            world.a.link.setAway(true)
            try world.a.makeFolder("new")
            try await world.a.create("new/notes~", [2])
            try world.b.rename("old", "new")
            try await world.settle([world.b])
            world.a.link.setAway(false)
            try await world.settle()
            let found = [try await world.a.read("new/notes~"), try await world.a.read("new/notes 2~")]
            #expect(found == [[1], [2]] || found == [[2], [1]])
            try await world.check()
        }
    }

    /// Seed 3004793 of the simulator: the moved aside item had a name that nothing ignores, and a synced item was to be
    /// placed there.
    @Test func movedAsideItemKeepsIgnoredName() async throws {
        try await run { world in
            for name in ["e", "f"] { try await world.a.create(name, [1]) }
            try await world.settle()
            try await world.b.create("a~", [2])
            try world.a.rename("e", "a~")
            try world.a.rename("f", "a~ 2")
            try await world.settle()
            #expect(try await world.b.read("a~ 2") == [1])
            #expect(try await world.b.read("a 2~") == [2])
            try await world.check()
        }
    }

    /// Created before the rules were known, at a place where another device has an excluded item by them.
    @Test(arguments: [true, false]) func itemExcludedByIgnoreFileFreesNameInTheEnd(isRenamedHere: Bool) async throws {
        try await run { world in
            world.a.link.setAway(true)
            try await world.a.create("x.log", [1])
            try world.a.makeFolder("build")
            try await world.a.create("build/o", [1])
            try await world.b.create(".ubiquityignore", Array("*.log\nbuild/\n".utf8))
            try await world.settle([world.b])
            try await world.b.create("x.log", [2])
            try world.b.makeFolder("build")
            try world.b.setMode("build", 0o700)
            try world.b.setXattr("build", "user.k", "v")
            try await world.b.create("build/p", [2])
            world.a.link.setAway(false)
            try await world.settle()
            #expect(try await world.b.read("x.log") == [1])
            #expect(try await world.b.read("x 2.log") == [2])
            #expect(try world.b.live("x 2.log").isExcluded)
            #expect(try await world.b.read("build/o") == [1])
            #expect(try await world.b.read("build/p") == [2])
            #expect(try !world.b.live("build").isExcluded && world.b.live("build/p").isExcluded)
            #expect(try world.a.row("x 2.log") == nil && world.a.row("build/p") == nil)
            // Its owner's permissions are the same everywhere.
            #expect(try world.a.live("build").mode == 0o700 && world.b.live("build").mode == 0o700)
            #expect(try world.a.live("build").xattrs.count == 1 && world.b.live("build").xattrs.count == 1)
            try await world.check()
            // Under another name nothing excludes it.
            try (isRenamedHere ? world.b : world.a).rename("build", "out")
            try await world.settle()
            #expect(try await world.a.read("out/p") == [2])
            #expect(try await world.b.read("out/o") == [1])
            try await world.check()
        }
    }

    /// The deletion at the cloud does not wait for the uploader's next poll. (`ubiquity wait --uploaded` waits for it.)
    @Test(arguments: ["k.nosync/f", "f.nosync"]) func moveOutOfSyncIsUploadedAtOnce(new: String) async throws {
        try await run { world in
            try world.a.makeFolder("k.nosync")
            try await world.a.create("f", [1])
            try await world.settle()
            try world.a.rename("f", new)
            try await world.sleep(.seconds(2))
            #expect(try world.a.engine.summary().pendingUploads == 0)
            try await world.settle()
            #expect(try world.b.paths().isEmpty)
            #expect(try await world.a.read(new) == [1])
        }
    }
}
