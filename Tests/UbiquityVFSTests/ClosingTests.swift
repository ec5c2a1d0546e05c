import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityVFS

/// Closes that the file system records with the next change, or a little later.
@Suite struct ClosingTests {
    private let container: TestContainer
    /// The changes of each transaction since the container was made.
    private let transactions = Lock<[[IndexEvent.Kind]]>([])

    init() throws {
        container = try TestContainer(delaysCloses: true)
        container.index.observe { [transactions] events in transactions.withLock { $0.append(events.map(\.kind)) } }
    }

    private func make(_ name: String, _ text: String) throws -> (ino: UInt64, handle: UInt64) {
        let made = try container.fs.create(
            parent: 1, name: Array(name.utf8), mode: 0o644, flags: [.writeOnly, .create], caller: container.caller).immediate
        try container.write(text, to: made.opened.handle)
        return (made.attributes.ino, made.opened.handle)
    }

    /// Creates a file and closes it, and waits until the index has it.
    private func makeNoted(_ name: String, _ text: String) throws -> UInt64 {
        let (ino, handle) = try make(name, text)
        container.fs.release(handle)
        #expect(container.raw.openHandleCount == 0)
        return ino
    }

    private func row(_ ino: UInt64) throws -> ItemRow { try #require(try container.index.row(ino: ino)) }

    @Test func renameCarriesADeferredClose() async throws {
        let document = try row(makeNoted("document", "old"))
        let (ino, handle) = try make("document.tmp", "new content")
        try container.fs.sync(handle)
        transactions.withLock { $0 = [] }
        container.fs.release(handle)
        try container.rename("document.tmp", to: "document")
        let saved = try row(ino)
        #expect(saved.key == document.key)
        #expect(saved.size == 11)
        #expect(!saved.isWriting)
        let made = transactions.withLock { $0 }
        // Neither at the sync nor at the close, unless the delay was over before the rename.
        #expect(made.count <= 2)
        #expect(made.last?.contains(.replaced) == true)
        #expect(try await container.content(of: ino) == "new content")
        #expect(container.raw.violation(whileIdle: true) == nil)
    }

    @Test func nextCreationCarriesADeferredClose() throws {
        let (first, handle) = try make("first", "one")
        container.fs.release(handle)
        let (second, other) = try make("second", "two")
        #expect(try row(first).size == 3)
        #expect(try !row(first).isWriting)
        #expect(try row(second).isWriting)
        container.fs.release(other)
        #expect(container.raw.violation(whileIdle: true) == nil)
        #expect(try row(second).size == 3)
    }

    @Test func deferredCloseIsRecordedAfterAWhile() async throws {
        for round in 0..<3 {
            let (ino, handle) = try make("file\(round)", "text")
            container.fs.release(handle)
            #expect(try await eventually { try !row(ino).isWriting })
            #expect(try row(ino).size == 4)
        }
    }

    @Test func reopenBeforeDeferredCloseKeepsTheWriter() async throws {
        let (ino, handle) = try make("file", "text")
        container.fs.release(handle)
        let again = try await container.open(ino, .writeOnly)
        #expect(container.raw.openHandleCount == 1)
        #expect(try row(ino).isWriting)
        try container.write("and more", to: again, at: 4)
        container.fs.release(again)
        #expect(container.raw.violation(whileIdle: true) == nil)
        #expect(try row(ino).size == 12)
        #expect(try !row(ino).isWriting)
    }

    @Test func failedRenameKeepsTheDeferredClose() throws {
        try container.makeDirectory("folder")
        let (ino, handle) = try make("file", "text")
        container.fs.release(handle)
        #expect(errno { try container.rename("file", to: "folder") } == .EISDIR)
        #expect(container.raw.violation(whileIdle: true) == nil)
        #expect(try row(ino).size == 4)
        #expect(try !row(ino).isWriting)
    }

    @Test func failedCreationKeepsTheDeferredClose() throws {
        _ = try makeNoted("taken", "")
        let (ino, handle) = try make("file", "text")
        container.fs.release(handle)
        #expect(errno { _ = try make("taken", "") } == .ESTALE)
        #expect(container.raw.violation(whileIdle: true) == nil)
        #expect(try row(ino).size == 4)
    }

    @Test func deferredClosesBeyondTheLimitAreRecorded() throws {
        let made = try (0..<100).map { try make("file\($0)", "text") }
        for (_, handle) in made { container.fs.release(handle) }
        #expect(container.raw.openHandleCount == 0)
        for (ino, _) in made {
            #expect(try row(ino).size == 4)
            #expect(try !row(ino).isWriting)
        }
        #expect(container.raw.violation(whileIdle: true) == nil)
    }

    @Test func queryRecordsDeferredClose() throws {
        let (ino, handle) = try make("file", "text")
        let key = try row(ino).key
        container.fs.release(handle)
        #expect(try !container.raw.isOpen(key))
        let (other, second) = try make("other", "text")
        let otherKey = try row(other).key
        container.fs.release(second)
        #expect(try container.raw.whileClosed(otherKey) { true } == true)
        let (third, last) = try make("third", "text")
        container.fs.release(last)
        #expect(container.raw.writtenInodes.isEmpty)
        #expect(try !row(third).isWriting)
    }

    @Test func removalsTruncationsAndTimesFollowTheDeferredClose() async throws {
        let (removed, first) = try make("removed", "text")
        container.fs.release(first)
        try container.unlink("removed")
        #expect(try container.index.row(ino: removed)?.isWriting != true)
        let (emptied, second) = try make("emptied", "text")
        container.fs.release(second)
        let generation = try row(emptied).generation
        _ = try await container.set(emptied, AttributeChanges(size: 0))
        #expect(try row(emptied).size == 0)
        #expect(try row(emptied).generation > generation)
        let (touched, third) = try make("touched", "text")
        container.fs.release(third)
        _ = try await container.set(touched, AttributeChanges(modifiedAt: .at(Timestamp(nanoseconds: 5))))
        #expect(try row(touched).size == 4)
        #expect(container.raw.violation(whileIdle: true) == nil)
        #expect(try row(touched).modifiedAt == Timestamp(nanoseconds: 5))
    }

    @Test func ignoreFileAppliesToTheNextFile() throws {
        let (_, handle) = try make(".ubiquityignore", "*.tmp\n")
        container.fs.release(handle)
        let ino = try container.create("file.tmp")
        #expect(try row(ino).isExcluded)
        let (_, other) = try make("rules", "*.new\n")
        container.fs.release(other)
        try container.rename("rules", to: ".ubiquityignore")
        #expect(try row(container.create("file.new")).isExcluded)
    }

    /// The kernel reports a close late: a program may rename the file before.
    @Test func renameBeforeTheReleaseRecordsTheSize() async throws {
        _ = try makeNoted("document", "old")
        let (ino, handle) = try make("document.tmp", "new content")
        try container.fs.sync(handle)
        try container.rename("document.tmp", to: "document")
        #expect(try row(ino).size == 11)
        #expect(try row(ino).isWriting)
        container.fs.release(handle)
        #expect(container.raw.violation(whileIdle: true) == nil)
        #expect(try !row(ino).isWriting)
        #expect(try await container.content(of: ino) == "new content")
    }

    @Test func renameRecordsWritesOfSeveralHandles() async throws {
        _ = try makeNoted("document", "old")
        let (ino, handle) = try make("document.tmp", "new content")
        let (second, third) = (try await container.open(ino, .writeOnly), try await container.open(ino, .writeOnly))
        container.fs.release(handle)
        container.fs.release(second)
        try container.rename("document.tmp", to: "document")
        #expect(try row(ino).size == 11)
        #expect(try row(ino).isWriting)
        container.fs.release(third)
        #expect(container.raw.violation(whileIdle: true) == nil)
        #expect(try !row(ino).isWriting)
    }

    /// The entry of a new file in the durable index is enough for the next start to find it.
    @Test func firstSyncOfANewFileIsRecordedWithTheClose() async throws {
        let (ino, handle) = try make("file", "text")
        try container.fs.sync(handle)
        // A sync that takes longer than the delay of the record sees that record, which is not durable yet.
        let isDurable = container.index.hasDurableChanges
        let isRecorded = try row(ino).size == 4
        #expect(isDurable || isRecorded)
        #expect(try container.index.interruptedWriters().map(\.ino) == [ino])
        #expect(try await eventually { try row(ino).size == 4 })
        #expect(try row(ino).isWriting)
        // A file that is synced repeatedly is one that stays open.
        try container.write("more", to: handle, at: 4)
        try container.fs.sync(handle)
        #expect(try row(ino).size == 8)
        container.fs.release(handle)
        #expect(container.raw.violation(whileIdle: true) == nil)
        #expect(try !row(ino).isWriting)
    }
}
