import Testing
internal import UbiquityContent
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityTestSupport
@testable import UbiquitySync

/// Contents that must be removed, and those that only look abandoned.
@Suite struct AbandonedContentTests: WorldTests {
    static let seed: UInt64 = 23

    /// The abandoning task may have waited while another one finished the download.
    @Test func abandonKeepsCompletedContent() async throws {
        try await run { world in
            let bytes = world.random.bytes(5000)
            try await world.a.create("f", bytes)
            try await world.settle()
            #expect(try await world.b.read("f") == bytes)
            try await world.settle()
            let row = try world.b.live("f")
            let content = try #require(row.content)
            #expect(try !ContentPlacement(context: world.b.engine.context).dropPartial(row, content))
            #expect(try world.b.live("f").contentState == .complete)
            try await world.settle()
            try world.b.engine.store.removeRetired {}
            #expect(try world.b.engine.store.exists(content))
            #expect(try await world.b.read("f") == bytes)
            try await world.check()
        }
    }

    /// A saved document adopts the content of the file that was renamed to its name.
    @Test func abandonKeepsContentOfAnotherItem() async throws {
        try await run { world in
            let bytes = world.random.bytes(5000)
            try await world.b.create("document", world.random.bytes(4000))
            try await world.settle()
            try await world.b.create("new", bytes)
            let row = try world.b.live("new")
            let content = try #require(row.content)
            try world.b.rename("new", "document")
            #expect(try world.b.live("document").content == content)
            #expect(try !ContentPlacement(context: world.b.engine.context).dropPartial(row, content))
            try world.b.engine.store.removeRetired {}
            #expect(try world.b.engine.store.exists(content))
            try await world.settle()
            #expect(try await world.a.read("document") == bytes)
            try await world.check()
        }
    }

    @Test func failedContentCreationLeavesNoFile() async throws {
        try await run { world in
            try await world.settle()
            let store = try world.b.engine.store
            let before = try store.all()
            let failure = #expect(throws: UbiquityError.self) {
                _ = try ContentPlacement(context: world.b.engine.context).newContent([], size: 5)
            }
            #expect(failure?.code == .damaged)
            try store.removeRetired {}
            #expect(try store.all() == before)
        }
    }
}
