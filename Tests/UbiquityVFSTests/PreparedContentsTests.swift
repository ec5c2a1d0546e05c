import Testing
import UbiquityContent
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityVFS

/// Backing files that are created in advance.
struct PreparedContentsTests {
    /// Creates files until some backing files are prepared.
    /// - Returns: the number of created files.
    private func makeUntilPrepared(_ container: TestContainer) throws -> Int {
        for count in 1...10_000 {
            try container.create("f\(count)")
            if try container.contents.all().count > count { return count }
        }
        throw UbiquityError(.timedOut, "nothing was made in advance")
    }

    @Test func programsThatMakeManyFilesHaveThemMadeInAdvance() throws {
        let passthrough = FakePassthrough()
        let container = try TestContainer(passthrough: passthrough, preparation: .inline)
        try container.create("alone")
        #expect(try container.contents.all().count == 1)
        let made = try makeUntilPrepared(container) + 1
        let registrations = passthrough.registrations
        let ahead = try container.contents.all().count - made
        #expect(ahead <= 64)
        for number in 0..<10 {
            let created = try container.fs.create(
                parent: 1, name: Array("p\(number)".utf8), mode: 0o644, flags: [.readWrite, .create],
                caller: container.caller).immediate
            try passthrough.open(created.opened).write(Array("content \(number)".utf8), at: 0)
            container.fs.release(created.opened.handle)
        }
        #expect(passthrough.registrations == registrations, "the kernel knew them before")
        for number in 0..<10 {
            let found = try #require(try container.lookup("p\(number)"))
            let row = try #require(try container.index.row(ino: found.ino))
            #expect(row.size == 9)
            let content = try #require(row.content)
            let bytes = try container.contents.open(content, writable: false).read(count: 20, at: 0)
            #expect(String(decoding: bytes, as: UTF8.self) == "content \(number)")
        }
    }

    @Test func leftoverContentsAreRemovedAtTheEnd() throws {
        let passthrough = FakePassthrough()
        let container = try TestContainer(passthrough: passthrough, preparation: .inline)
        let made = try makeUntilPrepared(container)
        #expect(passthrough.count > container.raw.idle.count)
        container.raw.endPreparation()
        try container.contents.removeRetired {}
        #expect(try container.contents.all().count == made)
        #expect(passthrough.count == container.raw.idle.count)
        for number in 0..<5 { try container.create("after\(number)") }
        #expect(try container.contents.all().count == made + 5, "none are made any more")
    }

    /// Two threads that create files, and a third that prepares the contents.
    @Test func eachFileHasAContentOfItsOwn() async throws {
        let container = try TestContainer(
            passthrough: FakePassthrough(), preparation: BlockingPool(name: "new-files", threads: 1))
        await withThrowingTaskGroup(of: Void.self) { group in
            for lane in 0..<2 {
                group.addTask {
                    for number in 0..<300 { try container.create("\(lane)-\(number)") }
                }
            }
        }
        let contents = try container.names().map { name in
            try container.lookup(name).flatMap { try container.index.row(ino: $0.ino)?.content }
        }
        #expect(contents.count == 600 && Set(contents).count == 600 && !contents.contains(nil))
        #expect(try container.index.contradictions(isAlone: true) == [])
        container.raw.endPreparation()
    }

    /// A write clears the file's privileges, which the kernel would not do here.
    @Test func fileWithPrivilegesGetsNoPassthrough() throws {
        let passthrough = FakePassthrough()
        let container = try TestContainer(passthrough: passthrough, preparation: .inline)
        _ = try makeUntilPrepared(container)
        let before = passthrough.count
        let created = try container.fs.create(
            parent: 1, name: Array("tool".utf8), mode: 0o4755, flags: [.readWrite, .create], caller: container.caller).immediate
        #expect(created.opened.backing == nil)
        #expect(passthrough.count == before - 1)
        container.fs.release(created.opened.handle)
    }
}
