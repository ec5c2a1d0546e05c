import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySystem

import UbiquityVFS

/// Backing files that stay open after the last close.
@Suite struct IdleContentsTests {
    let kernel = FakePassthrough()
    let container: TestContainer
    init() throws { container = try TestContainer(passthrough: kernel) }

    private func openAndClose(_ ino: UInt64, _ flags: OpenFlags = []) async throws -> BackingID? {
        let opened = try await container.fs.open(ino, flags: flags, caller: container.caller).value
        container.fs.release(opened.handle)
        return opened.backing
    }

    @Test func openingAgainRegistersNothing() async throws {
        let ino = try container.create("a", "text")
        let first = try await openAndClose(ino)
        #expect(first != nil)
        #expect(try await openAndClose(ino) == first)
        // A writer uses the same registration, and leaves it to the next reader.
        #expect(try await openAndClose(ino, .writeOnly) == first)
        #expect(try await openAndClose(ino) == first)
        #expect(kernel.registrations == 1)
        #expect(container.raw.violation(whileIdle: true) == nil)
    }

    @Test func readAfterWriteSeesTheNewBytes() async throws {
        let ino = try container.create("a", "before")
        _ = try await openAndClose(ino)
        let opened = try await container.fs.open(ino, flags: .writeOnly, caller: container.caller).value
        try kernel.open(opened).write(Array("behind".utf8), at: 0)
        container.fs.release(opened.handle)
        #expect(try await container.content(of: ino) == "behind")
    }

    @Test func removedFileIsReleased() async throws {
        let ino = try container.create("a", "text")
        _ = try await openAndClose(ino)
        #expect(container.raw.idle.count == 1)
        try container.unlink("a")
        #expect(container.raw.idle.count == 0 && kernel.count == 0)
    }

    @Test func fileRemovedWhileOpenIsNotKept() async throws {
        let ino = try container.create("a", "text")
        let opened = try await container.fs.open(ino, flags: [], caller: container.caller).value
        try container.unlink("a")
        container.fs.release(opened.handle)
        #expect(container.raw.idle.count == 0 && kernel.count == 0)
    }

    @Test func replacedFileIsReleased() async throws {
        let old = try container.create("a", "old"), new = try container.create("b", "new")
        for ino in [old, new] { _ = try await openAndClose(ino) }
        #expect(kernel.count == 2)
        try container.rename("b", to: "a")
        #expect(container.raw.idle.count == 0 && kernel.count == 0)
        let ino = try #require(try container.lookup("a")).ino
        #expect(try await container.content(of: ino) == "new")
    }

    @Test func evictionFindsNothingOpen() async throws {
        let ino = try container.create("a", "text")
        _ = try await openAndClose(ino)
        let key = try #require(try container.index.row(ino: ino)).key
        let isGone = try container.raw.whileClosed(key) { container.raw.idle.count == 0 && kernel.count == 0 }
        #expect(isGone == true)
    }

    // MARK: The table

    private func content(_ number: Int64) throws -> IdleContents.Content {
        IdleContents.Content(file: try .open("/dev/null", .readOnly), id: ContentID(number), backing: nil)
    }

    @Test func oldestDescriptorsAreClosedFirst() throws {
        let idle = IdleContents(capacity: IdleContents.capacity), now = Timestamp(nanoseconds: 1)
        var gone = [IdleContents.Content]()
        // One file suffices: the table does not read it.
        let file = try content(0).file
        for number in 0..<UInt64(IdleContents.capacity + 10) {
            let next = IdleContents.Content(file: file, id: ContentID(Int64(number)), backing: nil)
            gone += idle.put(number, next, now: now)
        }
        #expect(gone.map(\.id.rawValue) == Array(0..<10))
        #expect(idle.count == IdleContents.capacity)
        #expect(idle.file(5, ContentID(5)) == nil)
        #expect(idle.file(10, ContentID(10)) != nil && idle.file(10, ContentID(11)) == nil)
    }

    @Test func contentPutBackCountsAsNew() throws {
        let idle = IdleContents(capacity: IdleContents.capacity), file = try content(0).file
        func put(_ ino: UInt64, at time: Int64) {
            let content = IdleContents.Content(file: file, id: ContentID(Int64(ino)), backing: nil)
            _ = idle.put(ino, content, now: Timestamp(nanoseconds: time))
        }
        put(1, at: 0)
        put(2, at: 0)
        let later = IdleContents.lifetime
        for _ in 0..<3 * IdleContents.capacity {
            #expect(idle.remove(1) != nil)
            put(1, at: later)
        }
        #expect(idle.removeOld(now: Timestamp(nanoseconds: later + 1)).map(\.id.rawValue) == [2])
        #expect(idle.removeOld(now: Timestamp(nanoseconds: 2 * later + 1)).map(\.id.rawValue) == [1])
        #expect(idle.count == 0)
    }
}
