import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityVFS

@Suite struct KernelNewsTests {
    @Test func localChangeInvalidatesNothing() async throws {
        let container = try TestContainer()
        let ino = try container.create("a", "x")
        _ = try container.lookup("a")
        _ = try await container.set(ino, AttributeChanges(mode: 0o600))
        try container.rename("a", to: "b")
        try container.unlink("b")
        #expect(container.kernel.take().isEmpty)
    }

    @Test func newRemoteItemInvalidatesACachedAbsence() throws {
        let container = try TestContainer()
        #expect(try container.lookup("a") == nil)
        _ = container.kernel.take()
        try container.cloud.add("a", [])
        #expect(container.kernel.take() == [.entry(1, "a"), .listing(1)])
        try container.cloud.add("b", [])
        #expect(container.kernel.take() == [.listing(1)])
    }

    @Test func remoteChangeOfUnknownInodeInvalidatesNothing() throws {
        let container = try TestContainer()
        let directory = try container.cloud.add("d", [], kind: .directory)
        _ = container.kernel.take()
        let row = try container.cloud.add("a", [1], in: directory.key)
        try container.cloud.change(row.key, .attributes) { $0.mode = 0o600 }
        try container.cloud.remove(row.key)
        #expect(container.kernel.take().isEmpty)
    }

    @Test func changesOfKnownItemsAreNews() throws {
        let container = try TestContainer()
        let row = try container.cloud.add("a", [1, 2, 3])
        _ = try container.lookup("a")
        _ = container.kernel.take()
        try container.cloud.change(row.key, .attributes) { $0.size = 7 }
        #expect(container.kernel.take() == [.attributes(row.ino)])
        try container.cloud.change(row.key, .attributes) { $0.flags.insert(.pinned) }
        #expect(container.kernel.take().isEmpty)
        let name = try ItemName("b")
        try container.cloud.change(row.key, .moved) { $0.entry?.name = name }
        let news = container.kernel.take()
        #expect(news.contains(.entry(1, "a")) && news.contains(.listing(1)))
        container.fs.forget(row.ino, 1)
        try container.cloud.change(row.key, .attributes) { $0.size = 8 }
        #expect(container.kernel.take().isEmpty)
    }

    @Test func absencesAreBounded() throws {
        let container = try TestContainer()
        for number in 0..<1100 { #expect(try container.lookup("n\(number)") == nil) }
        // Each beyond the limit makes the kernel forget another one.
        #expect(container.kernel.take().count == 76)
        #expect(container.raw.violation(whileIdle: true) == nil)
    }

    @Test func lookupsAreCounted() throws {
        let container = try TestContainer()
        let row = try container.cloud.add("a", [1])
        _ = try container.lookup("a")
        _ = try container.lookup("a")
        container.fs.forget(row.ino, 1)
        _ = container.kernel.take()
        try container.cloud.change(row.key, .attributes) { $0.size = 7 }
        #expect(container.kernel.take() == [.attributes(row.ino)])
        container.fs.forget(row.ino, 1)
        container.fs.forget(1, 1000)
        #expect(container.raw.violation(whileIdle: true) == nil)
    }
}
