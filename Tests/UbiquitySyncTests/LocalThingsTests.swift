import Testing
import UbiquityCore
import UbiquityIndex
import UbiquityTestSupport

/// What is kept local where something synced is to come.
@Suite struct LocalThingsTests: WorldTests {
    static let seed: UInt64 = 17

    /// What is synced stays so under an ignored name, which something local may have elsewhere.
    @Test func whatIsIgnoredMakesRoomForWhatIsSynced() async throws {
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
            #expect(try await world.b.read("notes~ 2") == [1])
            #expect(try await world.b.read("k~ 2/in") == [2])
            #expect(try world.a.row("notes~ 2") == nil)
            try await world.check()
        }
    }

    /// A folder that was deleted elsewhere stays for what is local in it; then there is something else of its name.
    @Test func aFolderThatStaysForLocalThingsMakesRoom() async throws {
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
}
