import Glibc
import Testing
import UbiquityContent
import UbiquityCoordination
import UbiquityCore
import UbiquityIndex
import UbiquitySystem

@testable import UbiquityVFS

/// One folder, and programs without a parent.

@Suite struct PlaceholderTests {
    private static let text = Array((0..<5000).map { UInt8(97 + $0 % 26) })
    private var text: [UInt8] { Self.text }

    @Test func looksLikeTheFile() throws {
        let container = try TestContainer()
        let row = try container.cloud.add("a", text)
        let found = try #require(try container.lookup("a"))
        #expect(found.ino == row.ino)
        #expect(found.size == 5000)
        #expect(found.blocks == 1)
        #expect(found.modifiedAt == row.modifiedAt)
        #expect(container.cloud.begins == 0)
        #expect(try container.status(row.ino, "downloading-status") == "not-downloaded")
    }

    @Test func readWaitsOnlyForItsBytes() async throws {
        let container = try TestContainer()
        container.cloud.allow(1000)
        let row = try container.cloud.add("a", text)
        let handle = try await container.open(row.ino)
        #expect(try await container.read(handle, at: 0, 1000) == String(decoding: text[..<1000], as: UTF8.self))
        // Present bytes are answered at once; missing ones wait.
        guard case .now = try container.fs.read(handle, offset: 0, length: 500) else {
            Issue.record("present bytes were waited for")
            return
        }
        guard case .later(let work) = try container.fs.read(handle, offset: 1500, length: 10) else {
            Issue.record("missing bytes were answered")
            return
        }
        let waiting = Task { try await work() }
        #expect(try await eventually { container.cloud.waits > 0 })
        container.cloud.allow(2000)
        #expect(try await waiting.value.length == 10)
        #expect(try container.fs.attributes(of: row.ino).blocks >= 1)
        container.fs.release(handle)
        #expect(container.cloud.interests == 0)
    }

    /// The kernel has a size for the inode, and would truncate another content to it.
    @Test func openMeetingAnotherContentIsRetried() async throws {
        let container = try TestContainer()
        let row = try container.cloud.add("a", text)
        guard case .later(let opening) = try container.fs.open(row.ino, flags: [], caller: container.caller) else {
            throw Errno.EIO
        }
        try container.cloud.change(row.key, .replaced) { $0.ino += 1000 }
        #expect(await errno { _ = try await opening() } == .ESTALE)
        #expect(container.cloud.interests == 0)
        let handle = try await container.open(row.ino + 1000)
        #expect(try await container.read(handle, at: 0, 10) == String(decoding: text[..<10], as: UTF8.self))
    }

    /// The kernel retries an open only once after ESTALE. Another change would make the second open fail too if it had
    /// to wait for its content.
    @Test(arguments: [[], .readWrite] as [OpenFlags])
    func openOfAReplacedPlaceholderBringsTheNewContentFirst(_ flags: OpenFlags) async throws {
        let container = try TestContainer(smallContent: Int64(text.count))
        container.cloud.allow(0)
        let row = try container.cloud.add("a", text)
        guard case .later(let opening) = try container.fs.open(row.ino, flags: flags, caller: container.caller) else {
            throw Errno.EIO
        }
        try container.cloud.change(row.key, .replaced) { $0.ino += 1000 }
        let failing = Task { await errno { _ = try await opening() } }
        #expect(try await eventually { container.cloud.waits > 0 })
        // During the download the content changes again.
        try container.cloud.change(row.key, .replaced) { $0.ino += 1000 }
        container.cloud.allow(.max)
        #expect(await failing.value == .ESTALE)
        guard case .now(let opened) = try container.fs.open(row.ino + 2000, flags: flags, caller: container.caller) else {
            Issue.record("the second open must wait")
            return
        }
        #expect(try await container.read(opened.handle, at: 0, 10) == String(decoding: text[..<10], as: UTF8.self))
        container.fs.release(opened.handle)
        #expect(container.cloud.interests == 0 && container.raw.openHandleCount == 0)
    }

    /// The kernel looks the name up again, and finds nothing.
    @Test(arguments: [[], .readWrite] as [OpenFlags]) func openFindingTheItemGoneIsRetried(_ flags: OpenFlags) async throws {
        let container = try TestContainer()
        let row = try container.cloud.add("a", text)
        _ = try container.lookup("a")
        guard case .later(let opening) = try container.fs.open(row.ino, flags: flags, caller: container.caller) else {
            throw Errno.EIO
        }
        _ = container.kernel.take()
        try container.cloud.remove(row.key)
        #expect(await errno { _ = try await opening() } == .ESTALE)
        #expect(try container.lookup("a") == nil)
        #expect(container.cloud.interests == 0 && container.raw.openHandleCount == 0)
        #expect(container.raw.violation(whileIdle: true) == nil)
        // Watchers get the same event as for any other deletion.
        #expect(container.kernel.take() == [.entry(1, "a"), .listing(1)])
    }

    @Test func writerWaitingForARemovedItemFails() async throws {
        let container = try TestContainer()
        container.cloud.allow(0)
        let row = try container.cloud.add("a", text)
        _ = try container.lookup("a")
        let opening = Task { try await container.open(row.ino, .readWrite) }
        #expect(try await eventually { container.cloud.waits > 0 })
        try container.cloud.remove(row.key)
        container.cloud.allow(.max)
        #expect(await errno { _ = try await opening.value } == .ESTALE)
        #expect(try container.lookup("a") == nil)
        #expect(container.cloud.interests == 0 && container.raw.openHandleCount == 0)
        #expect(container.raw.violation(whileIdle: true) == nil)
    }

    /// The downloaded part would have to be downloaded again.
    @Test(arguments: [false, true]) func awaitedContentIsNotEvicted(truncates: Bool) async throws {
        let container = try TestContainer()
        container.cloud.allow(0)
        let row = try container.cloud.add("a", text)
        let waiting = Task {
            if truncates {
                _ = try await container.set(row.ino, AttributeChanges(size: 10))
            } else {
                container.fs.release(try await container.open(row.ino, .readWrite))
            }
        }
        #expect(try await eventually { container.cloud.waits > 0 })
        let caller = container.caller
        func evict() async -> Errno? {
            await errno {
                try await container.fs.setXattr(
                    of: row.ino, name: Array("user.ubiquity.evict".utf8), value: [UInt8(ascii: "1")], flags: 0,
                    caller: caller
                ).value
            }
        }
        #expect(await evict() == .EBUSY)
        container.cloud.allow(.max)
        try await waiting.value
        #expect(await evict() == .EPERM)
        #expect(container.raw.violation(whileIdle: true) == nil)
    }

    @Test func cancelledReadEnds() async throws {
        let container = try TestContainer()
        container.cloud.allow(0)
        let row = try container.cloud.add("a", text)
        let handle = try await container.open(row.ino)
        guard case .later(let work) = try container.fs.read(handle, offset: 0, length: 10) else { throw Errno.EIO }
        let reading = Task { try await work() }
        #expect(try await eventually { container.cloud.waits > 0 })
        reading.cancel()
        #expect(await errno { _ = try await reading.value } == .EINTR)
        container.fs.release(handle)
    }

    @Test func openOfASmallFileWaitsForItsContent() async throws {
        let container = try TestContainer(smallContent: 100)
        container.cloud.allow(0)
        let row = try container.cloud.add("a", Array(text.prefix(100)))
        let opening = Task { try await container.open(row.ino) }
        #expect(try await eventually { container.cloud.waits > 0 })
        opening.cancel()
        #expect(await errno { _ = try await opening.value } == .EINTR)
        #expect(container.raw.violation(whileIdle: true) == nil)
        container.cloud.allow(.max)
        container.fs.release(try await container.open(row.ino))
        #expect(try container.index.row(ino: row.ino)?.contentState == .complete)
        #expect(container.raw.violation(whileIdle: true) == nil)
    }

    @Test func truncatingAtOpenDownloadsNothing() async throws {
        let container = try TestContainer()
        let row = try container.cloud.add("a", text)
        let handle = try await container.open(row.ino, [.writeOnly, .truncate])
        try container.write("short", to: handle)
        container.fs.release(handle)
        #expect(container.cloud.begins == 0)
        #expect(try await container.content(of: row.ino) == "short")
        #expect(try container.index.row(ino: row.ino)?.dirty.contains(.content) == true)
    }

    @Test func truncatingToNothingDownloadsNothing() async throws {
        let container = try TestContainer()
        let row = try container.cloud.add("a", text)
        #expect(try await container.set(row.ino, AttributeChanges(size: 0)).size == 0)
        #expect(container.cloud.begins == 0)
        #expect(try container.index.row(ino: row.ino)?.isWriting == false)
        #expect(container.raw.violation(whileIdle: true) == nil)
    }

    @Test func truncatingToSomeLengthNeedsTheContent() async throws {
        let container = try TestContainer()
        let row = try container.cloud.add("a", text)
        #expect(try await container.set(row.ino, AttributeChanges(size: 3)).size == 3)
        #expect(try await container.content(of: row.ino) == "abc")
        #expect(container.cloud.begins == 1)
    }

    @Test func readerOfAPartialFileSeesItsTruncation() async throws {
        let container = try TestContainer()
        container.cloud.allow(1000)
        let row = try container.cloud.add("a", text)
        let reader = try await container.open(row.ino)
        let writer = try await container.open(row.ino, [.writeOnly, .truncate])
        try container.write("new", to: writer)
        #expect(try await container.read(reader) == "new")
        container.fs.release(writer)
        container.fs.release(reader)
        #expect(container.cloud.interests == 0)
    }

    /// The task that downloaded the last chunk may have failed after it, and its download may be over: the whole
    /// content is here.
    @Test(arguments: [false, true]) func completedContentIsWritableAtOnce(isOver: Bool) async throws {
        let container = try TestContainer()
        container.cloud.finishesItself(false)
        container.cloud.endsDownloads(isOver)
        let row = try container.cloud.add("a", text), handle = try await opened(container, row.ino)
        try container.write("XYZ", to: handle)
        container.fs.release(handle)
        #expect(try await container.content(of: row.ino).hasPrefix("XYZ"))
    }

    /// The open continues when a program has opened the file for writing, or fails.
    private func opened(
        _ container: TestContainer, _ ino: UInt64, meanwhile body: () async throws -> Void = {}
    ) async throws -> UInt64 {
        let handle = Lock<UInt64?>(nil)
        let opening = Task {
            let opened = try await container.open(ino, .readWrite)
            handle.withLock { $0 = opened }
        }
        defer { opening.cancel() }
        try await body()
        try #require(try await eventually { handle.withLock { $0 != nil } })
        return try #require(handle.withLock { $0 })
    }

    /// As on a disk without space for the remaining content.
    @Test func waitRestartsWhenItsDownloadIsGivenUp() async throws {
        let container = try TestContainer()
        container.cloud.finishesItself(false)
        container.cloud.ignoresEnds(true)
        container.cloud.endsDownloads(true)
        let row = try container.cloud.add("a", text)
        let handle = try await opened(container, row.ino) {
            // By then the former waits for the inode have ended.
            #expect(try await eventually { container.cloud.ignoredEnds > 0 && container.raw.rooms.completions.isAwaited(row.ino) })
            container.cloud.ignoresEnds(false)
            try container.cloud.change(row.key, .attributes) { row in
                row.content = nil
                row.contentState = .none
            }
        }
        container.fs.release(handle)
        #expect(container.cloud.begins == 2)
    }

    /// A user's program has read it to its end. The index does not record that yet, which must not matter.
    @Test func backgroundReaderOpensJustCompletedContent() async throws {
        let program = Path.name(of: String(decoding: try FileSystem.readLink("/proc/self/exe"), as: UTF8.self))
        let container = try TestContainer(backgroundReaders: BackgroundReaders(names: [program]))
        let scanner = Caller(uid: 1000, gid: 1000, pid: getpid())
        container.cloud.finishesItself(false)
        let (row, other) = (try container.cloud.add("a", text), try container.cloud.add("b", text))
        let missing = try container.fs.open(row.ino, flags: [], caller: scanner)
        guard case .now(let refused) = missing else { throw Errno.EIO }
        #expect(await errno { _ = try await container.read(refused.handle) } == .EDEADLK)
        container.fs.release(refused.handle)
        let reader = try await container.open(row.ino)
        #expect(try await container.read(reader, at: 0, 5000) == String(decoding: text, as: UTF8.self))
        guard case .now(let here) = try container.fs.open(row.ino, flags: [], caller: scanner) else { throw Errno.EIO }
        #expect(try await container.read(here.handle, at: 0, 3) == "abc")
        container.fs.release(here.handle)
        container.fs.release(reader)
        // Also truncate(2) by its name.
        let content = try await container.cloud.begin(other.key)
        try await container.cloud.fill(content, 0..<content.size)
        let cut = try container.fs.setAttributes(of: other.ino, AttributeChanges(size: 3), caller: scanner)
        guard case .now = cut else { throw Errno.EIO }
        container.cloud.release(content)
        #expect(try await container.content(of: other.ino) == "abc")
    }

    /// There is nothing to download: a backup reads it to its end, and a non-blocking reader needs one attempt only.
    @Test func backgroundReaderOpensEmptyPlaceholder() async throws {
        let program = Path.name(of: String(decoding: try FileSystem.readLink("/proc/self/exe"), as: UTF8.self))
        let container = try TestContainer(backgroundReaders: BackgroundReaders(names: [program]))
        let row = try container.cloud.add("e", [])
        let scanner = Caller(uid: 1000, gid: 1000, pid: getpid())
        let opens: [(OpenFlags, Caller)] = [([], scanner), (.nonBlocking, scanner), (.nonBlocking, container.caller)]
        for (flags, caller) in opens {
            let opened = try await container.fs.open(row.ino, flags: flags, caller: caller).value
            #expect(try await container.read(opened.handle) == "")
            container.fs.release(opened.handle)
        }
    }

    /// An app with a claim on the document, or one that must save it first, delays a user's program but no scanner.
    @Test func refusedOpenWaitsForNoClaim() async throws {
        let coordination = Coordination(
            isStrict: false, surroundings: NoSurroundings(), timekeeper: SystemTimekeeper())
        let program = Path.name(of: String(decoding: try FileSystem.readLink("/proc/self/exe"), as: UTF8.self))
        let container = try TestContainer(
            coordination: coordination, backgroundReaders: BackgroundReaders(names: [program]))
        let scanner = Caller(uid: 1000, gid: 1000, pid: getpid())
        container.cloud.finishesItself(false)
        let row = try container.cloud.add("a", text)
        let claim = try await coordination.claim(
            ClaimRequest(owner: .system, intents: [ClaimIntent(row.claimTarget, .writing(nil))]))
        guard case .now(let refused) = try container.fs.open(row.ino, flags: [], caller: scanner) else {
            Issue.record("a scanner waits for a refused content")
            return
        }
        #expect(await errno { _ = try await container.read(refused.handle) } == .EDEADLK)
        container.fs.release(refused.handle)
        guard case .later = try container.fs.open(row.ino, flags: [], caller: container.caller) else {
            Issue.record("a user's program did not wait for the claim")
            return
        }
        coordination.end(claim)
        // Nothing is claimed: the scanner gets a content that has just arrived, and then has a claim on the file.
        let content = try await container.cloud.begin(row.key)
        try await container.cloud.fill(content, 0..<content.size)
        guard case .now(let here) = try container.fs.open(row.ino, flags: [], caller: scanner) else { throw Errno.EIO }
        #expect(try await container.read(here.handle, at: 0, 3) == "abc")
        container.fs.release(here.handle)
        container.cloud.release(content)
    }

    /// A newly downloaded version is not the one that the item shows by now.
    @Test func writingDoesNotWaitForAVersionThatIsShownNoMore() async throws {
        let container = try TestContainer()
        container.cloud.finishesItself(false)
        let row = try container.cloud.add("a", text)
        let old = try await container.cloud.begin(row.key)
        try await container.cloud.fill(old, 0..<old.size)
        try container.cloud.change(row.key, .replaced) { row in
            row.ino += 1000
            row.content = nil
            row.contentState = .none
            row.version = VersionID(high: 2, low: 2)
        }
        let handle = try await container.open(row.ino + 1000, .readWrite)
        container.fs.release(handle)
        container.cloud.release(old)
        #expect(container.cloud.begins == 2)
        #expect(container.cloud.interests == 0)
    }

    @Test func writingWaitsForTheWholeContent() async throws {
        let container = try TestContainer()
        container.cloud.allow(0)
        let row = try container.cloud.add("a", text)
        guard case .later(let work) = try container.fs.open(row.ino, flags: .readWrite, caller: container.caller) else {
            Issue.record("a writer got a handle on a placeholder")
            return
        }
        let opening = Task { try await work() }
        #expect(try await eventually { container.cloud.waits > 0 })
        container.cloud.allow(.max)
        let handle = try await opening.value.handle
        try container.write("XYZ", to: handle, at: 4997)
        container.fs.release(handle)
        let content = try await container.content(of: row.ino)
        #expect(content.utf8.count == 5000)
        #expect(content.hasPrefix("abc") && content.hasSuffix("XYZ"))
    }

    @Test func nonBlockingWritersBecomeOnesWithTheirFirstWrite() async throws {
        let container = try TestContainer()
        let row = try container.cloud.add("a", text)
        let flags: OpenFlags = [.readWrite, .nonBlocking]
        func open() throws -> UInt64 {
            guard case .now(let opened) = try container.fs.open(row.ino, flags: flags, caller: container.caller)
            else { throw Errno.EIO }
            return opened.handle
        }
        // A handle without writes waits for nothing, and is no writer.
        let idle = try open()
        #expect(container.raw.writtenInodes == [])
        #expect(container.raw.violation(whileIdle: true) == nil)
        container.fs.release(idle)
        #expect(container.cloud.begins == 0)
        // A write waits for the content, and reports why it is not downloaded.
        container.cloud.fail(UbiquityError(.offline, "for a reason"))
        let handle = try open()
        func write() async throws {
            let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: 3, alignment: 1)
            bytes.copyBytes(from: Array("XYZ".utf8))
            let answer = try container.fs.writeWhenWritable(
                handle, offset: 0, UnsafeRawBufferPointer(bytes), isSynced: false, caller: container.caller)
            bytes.deallocate()
            #expect(try await answer.value == 3)
        }
        #expect(await errno { try await write() } == .ENETUNREACH)
        container.cloud.fail(nil)
        try await write()
        #expect(container.raw.writtenInodes == [row.ino])
        #expect(container.raw.violation(whileIdle: true) == nil)
        container.fs.release(handle)
        #expect(try await container.content(of: row.ino).hasPrefix("XYZ"))
        #expect(container.raw.violation(whileIdle: true) == nil)
        // Cancelled before the content arrived.
        container.cloud.allow(0)
        let other = try container.cloud.add("b", text)
        guard case .now(let opened) = try container.fs.open(other.ino, flags: flags, caller: container.caller)
        else { throw Errno.EIO }
        guard case .later(let waiting) = try container.fs.awaitWritable(opened.handle) else { throw Errno.EIO }
        let waiter = Task { try await waiting() }
        waiter.cancel()
        #expect(await errno { try await waiter.value } == .EINTR)
        container.fs.release(opened.handle)
        #expect(try await eventually { container.cloud.interests == 0 })
        #expect(container.raw.violation(whileIdle: true) == nil)
    }

    @Test(arguments: [
        (UbiquityError.Code.offline, Errno.ENETUNREACH), (.timedOut, .ETIMEDOUT), (.damaged, .EIO), (.noSpace, .ENOSPC),
        (.signedOut, .ESTALE), (.notUploadedYet, .EAGAIN),
    ])
    func failuresHaveTheirErrno(_ code: UbiquityError.Code, _ expected: Errno) async throws {
        let container = try TestContainer()
        let row = try container.cloud.add("a", text)
        container.cloud.fail(UbiquityError(code, "for a reason"))
        #expect(await errno { _ = try await container.open(row.ino) } == expected)
        #expect(await errno { _ = try await container.open(row.ino, .readWrite) } == expected)
        #expect(container.raw.violation(whileIdle: true) == nil)
        container.cloud.fail(nil)
        #expect(try await container.content(of: row.ino).utf8.count == 5000)
    }

    @Test("MP-10: an open that waits for content ends when the file is removed", arguments: [OpenFlags([]), .readWrite])
    func waitingOpenEndsWithTheFile(flags: OpenFlags) async throws {
        let container = try TestContainer(smallContent: 10_000)
        container.cloud.allow(0)
        let row = try container.cloud.add("a", text)
        let opening = Task { await errno { _ = try await container.open(row.ino, flags) } }
        #expect(try await eventually { container.cloud.waits > 0 })
        try container.unlink("a")
        #expect(await opening.value == .ESTALE)
        #expect(container.cloud.interests == 0)
        #expect(container.raw.violation(whileIdle: true) == nil)
    }

    @Test func metadataNeverDownloads() async throws {
        let container = try TestContainer()
        let row = try container.cloud.add("a", text)
        let touched = try await container.set(row.ino, AttributeChanges(mode: 0o600, modifiedAt: .now))
        // The present time is used for both.
        #expect(touched.modifiedAt == touched.changedAt)
        _ = try await container.fs.setXattr(
            of: row.ino, name: Array("user.x".utf8), value: [1], flags: 0, caller: container.caller
        ).value
        try container.rename("a", to: "b")
        try container.unlink("b")
        #expect(container.cloud.begins == 0)
        #expect(try container.names().isEmpty)
    }

    @Test func placeholderHasNoHoles() async throws {
        let container = try TestContainer()
        container.cloud.allow(0)
        let row = try container.cloud.add("a", text)
        let handle = try await container.open(row.ino)
        #expect(try container.fs.seek(handle, offset: 10, whence: 3) == 10)
        #expect(try container.fs.seek(handle, offset: 10, whence: 4) == 5000)
        #expect(errno { _ = try container.fs.seek(handle, offset: 5000, whence: 3) } == .ENXIO)
        container.fs.release(handle)
    }

    @Test func remoteReplacementKeepsOpenContents() async throws {
        let container = try TestContainer()
        let row = try container.cloud.add("a", text)
        _ = try await container.content(of: row.ino)
        _ = try container.lookup("a")
        let handle = try await container.open(row.ino)
        _ = container.kernel.take()
        try container.cloud.replace(row.key, Array("newer".utf8))
        #expect(container.kernel.take().contains(.entry(1, "a")))
        #expect(try await container.read(handle, at: 0, 3) == "abc")
        #expect(try container.fs.attributes(of: row.ino).links == 0)
        #expect(await errno { _ = try await container.open(row.ino) } == .ESTALE)
        let found = try #require(try container.lookup("a"))
        #expect(found.ino != row.ino)
        #expect(try await container.content(of: found.ino) == "newer")
        container.fs.release(handle)
    }

    @Test func openItemIsReportedAsOpen() async throws {
        let container = try TestContainer()
        let row = try container.cloud.add("a", text)
        #expect(try !container.raw.isOpen(row.key))
        let handle = try await container.open(row.ino)
        #expect(try container.raw.isOpen(row.key))
        container.fs.release(handle)
        #expect(try !container.raw.isOpen(row.key))
    }
}
