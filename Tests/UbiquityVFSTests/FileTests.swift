import Testing
import UbiquityContent
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
@testable import UbiquityVFS

@Suite struct FileTests {
    /// A local file uses the blocks of its backing file, which may be more or less than its size.
    @Test func blocksAreThoseOfTheContent() async throws {
        let container = try TestContainer()
        let (full, sparse) = (try container.create("reserved", "text"), try container.create("sparse"))
        let handle = try await container.open(full, .writeOnly)
        // FALLOC_FL_KEEP_SIZE
        try container.fs.allocate(handle, mode: 1, offset: 0, length: 65_536, caller: container.caller)
        container.fs.release(handle)
        _ = try await container.set(sparse, AttributeChanges(size: 1 << 20))
        #expect(try container.fs.attributes(of: full).blocks == 128)
        #expect(try container.fs.attributes(of: sparse).blocks == 0)
    }

    @Test func writesAndReads() async throws {
        let container = try TestContainer()
        let ino = try container.create("a", "hello")
        #expect(try await container.content(of: ino) == "hello")
        let attributes = try container.fs.attributes(of: ino)
        #expect(attributes.size == 5)
        #expect(attributes.mode == 0o100644)
        #expect(attributes.links == 1)
        #expect(attributes.uid == 1000)
        #expect(container.raw.violation(whileIdle: true) == nil)
    }

    /// The caller may read the item just before a record of written data, and the file just after it.
    @Test func statSeesRecordMadeBetweenTheLooks() async throws {
        let container = try TestContainer()
        let ino = try container.create("a", "hello")
        let handle = try await container.open(ino, .writeOnly)
        for text in ["longer text", "text"] {
            try container.write(text, to: handle)
            let before = try #require(try container.index.row(ino: ino))
            #expect(before.isWriting)
            try container.raw.recordWrites(to: ino)
            let after = try #require(try container.index.row(ino: ino))
            #expect(after.changedAt > before.changedAt)
            #expect(try container.raw.rooms.attributes.of(before) == container.fs.attributes(of: ino))
            #expect(try container.raw.rooms.attributes.of(before).changedAt == after.changedAt)
        }
        // A reader's handle keeps the file open.
        let reader = try await container.open(ino)
        try container.write("the last", to: handle)
        let before = try #require(try container.index.row(ino: ino))
        container.fs.release(handle)
        #expect(try container.raw.rooms.attributes.of(before) == container.fs.attributes(of: ino))
        container.fs.release(reader)
    }

    @Test func openDuringRecordOfACloseChangesNothing() async throws {
        let container = try TestContainer()
        let ino = try container.create("a", "hello")
        for _ in 0..<500 {
            let generation = try #require(try container.index.row(ino: ino)?.generation)
            let handle = try await container.open(ino, .writeOnly)
            try container.write("other text", to: handle)
            async let closed: Void = Task.detached { container.fs.release(handle) }.value
            for _ in 0..<20 { container.fs.release(try await container.open(ino, .writeOnly)) }
            await closed
            #expect(try container.index.row(ino: ino)?.generation == generation + 1)
        }
    }

    @Test func writerIsRecordedBeforeTheOpenReturns() async throws {
        let container = try TestContainer()
        let ino = try container.create("a", "hello")
        let handle = try await container.open(ino, .readWrite)
        #expect(try container.index.row(ino: ino)?.isWriting == true)
        container.fs.release(handle)
        #expect(try container.index.row(ino: ino)?.isWriting == false)
    }

    @Test func lastCloseRecordsTheChange() async throws {
        let container = try TestContainer()
        let ino = try container.create("a", "hello")
        let before = try #require(try container.index.row(ino: ino))
        let first = try await container.open(ino, .writeOnly)
        let second = try await container.open(ino, .writeOnly)
        try container.write("longer text", to: first)
        container.fs.release(first)
        #expect(try container.index.row(ino: ino)?.generation == before.generation)
        #expect(try container.fs.attributes(of: ino).size == 11)
        container.fs.release(second)
        let after = try #require(try container.index.row(ino: ino))
        #expect(after.generation == before.generation + 1)
        #expect(after.size == 11)
        #expect(try container.fs.attributes(of: ino).modifiedAt == after.modifiedAt)
    }

    /// An answer after the last close, from a row read before it, has the size of that time.
    @Test func attributesAskedForDuringTheLastCloseAreOfWhatWasWritten() async throws {
        let container = try TestContainer()
        let ino = try container.create("a", "")
        let handle = try await container.open(ino, .writeOnly)
        let row = try #require(try container.index.row(ino: ino))
        try container.write("longer text", to: handle)
        #expect(try container.raw.rooms.attributes.of(row).size == 11)
        container.fs.release(handle)
        #expect(try container.raw.rooms.attributes.of(row).size == 11)
    }

    @Test func openingWithoutWritingChangesNothing() async throws {
        let container = try TestContainer()
        let ino = try container.create("a", "hello")
        let before = try #require(try container.index.row(ino: ino))
        container.fs.release(try await container.open(ino, .readWrite))
        container.fs.release(try await container.open(ino))
        let after = try #require(try container.index.row(ino: ino))
        #expect(after.generation == before.generation)
        #expect(after.modifiedAt == before.modifiedAt)
        #expect(after.dirty == before.dirty)
    }

    @Test func timesSetWhileWritingAreKept() async throws {
        let container = try TestContainer()
        let ino = try container.create("a", "hello")
        let handle = try await container.open(ino, .readWrite)
        try container.write("hallo", to: handle)
        let time = Timestamp(seconds: 1_000_000_000, nanoseconds: 123_456_789)
        let answer = try await container.set(ino, AttributeChanges(modifiedAt: .at(time)), handle: handle)
        #expect(answer.modifiedAt == time)
        container.fs.release(handle)
        #expect(try container.fs.attributes(of: ino).modifiedAt == time)
        let again = try await container.open(ino, .readWrite)
        #expect(try container.fs.attributes(of: ino).modifiedAt == time)
        container.fs.release(again)
    }

    @Test func truncationMakesShorterAndLonger() async throws {
        let container = try TestContainer()
        let ino = try container.create("a", "hello")
        #expect(try await container.set(ino, AttributeChanges(size: 2)).size == 2)
        #expect(try await container.set(ino, AttributeChanges(size: 4)).size == 4)
        #expect(try await container.content(of: ino) == "he\0\0")
        #expect(try container.index.row(ino: ino)?.size == 4)
        #expect(await errno { _ = try await container.set(ino, AttributeChanges(size: .max)) } == .EFBIG)
        #expect(container.raw.violation(whileIdle: true) == nil)
    }

    @Test func openersOfATruncatedFileSeeIt() async throws {
        let container = try TestContainer()
        let ino = try container.create("a", "something")
        let reader = try await container.open(ino)
        let writer = try await container.open(ino, [.writeOnly, .truncate])
        #expect(try container.fs.attributes(of: ino).size == 0)
        try container.write("new", to: writer)
        #expect(try await container.read(reader) == "new")
        container.fs.release(reader)
        container.fs.release(writer)
        #expect(try container.index.row(ino: ino)?.size == 3)
    }

    /// Also of a file opened for reading only, as on other file systems.
    @Test(arguments: [false, true]) func truncatingNeedsNoWriter(isOpen: Bool) async throws {
        let container = try TestContainer()
        let ino = try container.create("a", "something")
        let other = try await isOpen ? container.open(ino, .readWrite) : nil
        let reader = try await container.open(ino, .truncate)
        #expect(try container.fs.attributes(of: ino).size == 0)
        #expect(try await container.read(reader) == "")
        container.fs.release(reader)
        if let other { container.fs.release(other) }
        let row = try #require(try container.index.row(ino: ino))
        #expect(row.size == 0 && !row.isWriting)
        #expect(container.raw.violation(whileIdle: true) == nil)
    }

    @Test func unlinkedFileStaysWhileOpen() async throws {
        let container = try TestContainer()
        let ino = try container.create("a", "hello")
        _ = try container.lookup("a")
        let handle = try await container.open(ino, .readWrite)
        try container.unlink("a")
        #expect(try container.lookup("a") == nil)
        #expect(try container.fs.attributes(of: ino).links == 0)
        try container.write("HE", to: handle)
        #expect(try await container.read(handle) == "HEllo")
        #expect(try await container.set(ino, AttributeChanges(size: 3), handle: handle).size == 3)
        #expect(try await container.set(ino, AttributeChanges(mode: 0o600), handle: handle).permissions == 0o600)
        try container.fs.sync(handle)
        container.fs.release(handle)
        #expect(await errno { _ = try await container.open(ino) } == .ESTALE)
        try container.contents.removeRetired {}
        #expect(try container.contents.all().isEmpty)
    }

    /// Through /proc/self/fd, which leads to the inode. Attributes too exist as long as the file.
    @Test func unlinkedFileCanBeReopened() async throws {
        let container = try TestContainer()
        let ino = try container.create("a", "hello")
        _ = try container.lookup("a")
        let reader = try await container.open(ino)
        try container.unlink("a")
        let name = Array("user.k".utf8)
        func set(_ flags: Int32) async throws {
            try await container.fs.setXattr(of: ino, name: name, value: [1], flags: flags, caller: container.caller).value
        }
        #expect(await errno { try await set(2) } == .ENODATA)
        try await set(1)
        #expect(await errno { try await set(1) } == .EEXIST)
        #expect(try container.fs.xattr(of: ino, name: name) == [1])
        try container.fs.removeXattr(of: ino, name: name, caller: container.caller).immediate
        #expect(errno { _ = try container.fs.xattr(of: ino, name: name) } == .ENODATA)
        #expect(errno { try container.fs.removeXattr(of: ino, name: name, caller: container.caller).immediate } == .ENODATA)
        let writer = try await container.open(ino, .readWrite)
        try container.write("HE", to: writer)
        container.fs.release(reader)
        #expect(try await container.read(writer) == "HEllo")
        let emptying = try await container.open(ino, [.writeOnly, .truncate])
        #expect(try await container.read(writer) == "")
        for handle in [emptying, writer] { container.fs.release(handle) }
        #expect(container.raw.violation(whileIdle: true) == nil)
        #expect(await errno { _ = try await container.open(ino) } == .ESTALE)
        try container.contents.removeRetired {}
        #expect(try container.contents.all().isEmpty)
    }

    @Test func replacedFileStaysWhileOpen() async throws {
        let container = try TestContainer()
        let old = try container.create("a", "old")
        let new = try container.create("b", "new")
        let handle = try await container.open(old)
        try container.rename("b", to: "a")
        #expect(try await container.read(handle) == "old")
        #expect(try container.lookup("a")?.ino == new)
        #expect(try container.fs.attributes(of: old).links == 0)
        #expect(try await container.content(of: new) == "new")
        container.fs.release(handle)
    }

    @Test func privilegesEndWithAWriteByAnother() async throws {
        let container = try TestContainer()
        let ino = try container.create("a", "x")
        _ = try await container.set(ino, AttributeChanges(mode: 0o6755))
        let handle = try await container.open(ino, .readWrite)
        try container.write("y", to: handle)
        #expect(try container.fs.attributes(of: ino).permissions == 0o755)
        _ = try await container.fs.setXattr(
            of: ino, name: Array("security.capability".utf8), value: [1], flags: 0, caller: container.caller
        ).value
        try container.write("z", to: handle)
        #expect(errno { _ = try container.fs.xattr(of: ino, name: Array("security.capability".utf8)) } == .ENODATA)
        container.fs.release(handle)
        _ = try await container.set(ino, AttributeChanges(mode: 0o6745))
        #expect(try await container.set(ino, AttributeChanges(uid: 5)).permissions == 0o2745)
    }

    @Test func rangesAreAllocatedPunchedAndCopied() async throws {
        let container = try TestContainer()
        let ino = try container.create("a", String(repeating: "x", count: 20_000))
        let handle = try await container.open(ino, .readWrite)
        try container.fs.allocate(handle, mode: 0, offset: 0, length: 30_000, caller: container.caller)
        #expect(try container.fs.attributes(of: ino).size == 30_000)
        // FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
        try container.fs.allocate(handle, mode: 3, offset: 0, length: 8192, caller: container.caller)
        #expect(try await container.read(handle, at: 0, 4) == "\0\0\0\0")
        #expect(errno { try container.fs.allocate(handle, mode: 8, offset: 0, length: 4096, caller: container.caller) } == .EOPNOTSUPP)
        let copy = try container.create("b")
        let target = try await container.open(copy, .readWrite)
        let count = try container.fs.copyRange(
            from: handle, at: 10_000, to: target, at: 5, length: 100, caller: container.caller)
        #expect(count == 100)
        #expect(try await container.read(target, at: 5, 3) == "xxx")
        container.fs.release(target)
        container.fs.release(handle)
        #expect(try container.index.row(ino: copy)?.size == 105)
    }

    @Test func allocationBeyondTheAccountsSpaceIsRefused() async throws {
        let container = try TestContainer()
        container.cloud.account.withLock { $0 = AccountSpace(usedBytes: 900, quotaBytes: 1000) }
        let ino = try container.create("a", "text"), local = try container.create("b.nosync")
        let handle = try await container.open(ino, .readWrite), other = try await container.open(local, .readWrite)
        let caller = container.caller
        #expect(errno { try container.fs.allocate(handle, mode: 0, offset: 0, length: 105, caller: caller) } == .EDQUOT)
        #expect(try container.fs.attributes(of: ino).size == 4)
        try container.fs.allocate(handle, mode: 0, offset: 0, length: 104, caller: caller)
        #expect(try container.fs.attributes(of: ino).size == 104)
        // FALLOC_FL_KEEP_SIZE: the content keeps its length.
        try container.fs.allocate(handle, mode: 1, offset: 0, length: 65_536, caller: caller)
        // A file that is never uploaded.
        try container.fs.allocate(other, mode: 0, offset: 0, length: 5000, caller: caller)
        for handle in [handle, other] { container.fs.release(handle) }
    }

    /// A file that is open all day is not the least recently used one at its close.
    @Test(arguments: [OpenFlags(), .writeOnly, [.writeOnly, .truncate]])
    func lastUseIsTheClose(flags: OpenFlags) async throws {
        let container = try TestContainer()
        let ino = try container.create("a", "text")
        func used() throws -> Timestamp {
            container.raw.flushUses()
            return try #require(try container.index.row(ino: ino)).usedAt
        }
        let handle = try await container.open(ino, flags)
        let opened = try used()
        container.fs.release(handle)
        #expect(try used() > opened)
    }

    /// The kernel holds the target's lock until the answer, and a removal of the target then waits with the folder's
    /// lock. So the kernel itself copies missing content, and waits without a lock.
    @Test func copyRangeFromPlaceholderIsLeftToTheKernel() async throws {
        let container = try TestContainer()
        let row = try container.cloud.add("a", [UInt8](repeating: 7, count: 4000))
        container.cloud.allow(1000)
        let (source, target) = (try await container.open(row.ino), try await container.open(container.create("b"), .readWrite))
        func copy(_ offset: Int64, _ length: Int64) throws -> Int64 {
            try container.fs.copyRange(
                from: source, at: offset, to: target, at: offset, length: length, caller: container.caller)
        }
        #expect(errno { _ = try copy(0, 4000) } == .EXDEV)
        #expect(errno { _ = try copy(2000, 4000) } == .EXDEV)
        container.cloud.allow(.max)
        #expect(try await container.read(source, at: 0, 4000).count == 4000)
        #expect(try copy(0, 4000) == 4000)
        for handle in [source, target] { container.fs.release(handle) }
    }

    @Test func badHandlesAreRefused() async throws {
        let container = try TestContainer()
        let ino = try container.create("a", "x")
        #expect(errno { _ = try container.fs.read(99, offset: 0, length: 1) } == .EBADF)
        let handle = try await container.open(ino)
        #expect(errno { try container.write("y", to: handle) } == .EBADF)
        container.fs.release(handle)
        #expect(errno { try container.fs.sync(handle) } == .EBADF)
        let directory = try container.makeDirectory("d")
        #expect(await errno { _ = try await container.open(directory) } == .EISDIR)
        #expect(errno { _ = try container.names(in: ino) } == .ENOTDIR)
    }

    @Test func pagesAreKeptUntilTheContentIsAnother() async throws {
        let container = try TestContainer()
        let ino = try container.create("a", "hello")
        _ = try container.lookup("a")
        let first = try container.fs.open(ino, flags: [], caller: container.caller)
        let second = try container.fs.open(ino, flags: [], caller: container.caller)
        guard case .now(let one) = first, case .now(let two) = second else { throw Errno.EIO }
        #expect(one.handle != two.handle)
        #expect(two.keepsCache)
        container.fs.release(one.handle)
        container.fs.release(two.handle)
        let key = try #require(try container.index.row(ino: ino)?.key)
        try container.cloud.change(key, .attributes) { row in
            row.version = VersionID(high: 9, low: 9)
            row.content = nil
            row.contentState = .none
        }
        let gone = try container.fs.open(ino, flags: [.writeOnly, .truncate], caller: container.caller)
        guard case .now(let three) = gone else { throw Errno.EIO }
        #expect(!three.keepsCache)
        container.fs.release(three.handle)
    }

    /// Its link count has changed.
    @Test func removalOfANameUpdatesTheChangeTime() async throws {
        let container = try TestContainer()
        try container.create("new", "text")
        for replaced in [false, true] {
            let ino = try container.create("a", "text")
            let handle = try await container.open(ino)
            let before = try container.fs.attributes(of: ino)
            if replaced { try container.rename("new", to: "a") } else { try container.unlink("a") }
            let after = try container.fs.attributes(of: ino)
            #expect(after.links == 0 && after.changedAt > before.changedAt && after.modifiedAt == before.modifiedAt)
            container.fs.release(handle)
        }
    }

    /// The file exists: a program must not take it for deleted.
    @Test(arguments: [[], OpenFlags.readWrite])
    func missingContentIsAnIOError(flags: OpenFlags) async throws {
        let container = try TestContainer()
        let ino = try container.create("a", "hello")
        let content = try #require(try container.index.row(ino: ino)?.content)
        _ = container.raw.idle.remove(ino)
        try FileSystem.unlink(container.contents.path(of: content))
        let error = await #expect(throws: (any Error).self) { _ = try await container.open(ino, flags) }
        #expect(error.map { Errno(describing: $0) } == .EIO)
    }
}
