import Testing
import UbiquityContent
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityVFS

/// Rules for files that the kernel serves without the file system.
@Suite struct PassthroughTests {
    let kernel = FakePassthrough()
    let container: TestContainer
    init() throws { container = try TestContainer(passthrough: kernel) }

    private func open(_ ino: UInt64, _ flags: OpenFlags = []) async throws -> OpenedFile {
        try await container.fs.open(ino, flags: flags, caller: container.caller).value
    }

    private func row(_ ino: UInt64) throws -> ItemRow { try #require(try container.index.row(ino: ino)) }

    @Test func allHandlesOfAnInodeHaveOneRegistration() async throws {
        let ino = try container.create("a", "text")
        let first = try await open(ino), second = try await open(ino, .readWrite)
        #expect(first.backing != nil && first.backing == second.backing)
        #expect(!first.keepsCache && !second.keepsCache)
        container.fs.release(first.handle)
        #expect(try await open(ino).backing == first.backing)
        #expect(kernel.count == 1)
    }

    @Test func firstOpenDecidesUntilTheLastClose() async throws {
        container.cloud.allow(1000)
        let row = try container.cloud.add("a", Array(repeating: 1, count: 5000))
        let partial = try await open(row.ino)
        #expect(partial.backing == nil)
        container.cloud.allow(.max)
        let whole = try await open(row.ino, .readWrite)
        #expect(try self.row(row.ino).contentState == .complete)
        #expect(whole.backing == nil)
        container.fs.release(partial.handle)
        let third = try await open(row.ino)
        #expect(third.backing == nil)
        for opened in [whole, third] { container.fs.release(opened.handle) }
        let later = try await open(row.ino)
        #expect(later.backing != nil)
        container.fs.release(later.handle)
        #expect(kernel.count == 1)
        try container.unlink("a")
        #expect(kernel.count == 0)
        #expect(container.raw.violation(whileIdle: true) == nil)
    }

    @Test func writesPastTheFileSystemAreFoundAtTheLastClose() async throws {
        let ino = try container.create("a", "before")
        let generation = try row(ino).generation
        let opened = try await open(ino, .writeOnly)
        #expect(try row(ino).isWriting)
        try kernel.open(opened).write(Array("behind".utf8), at: 0)
        #expect(try container.fs.attributes(of: ino).modifiedAt > (try row(ino).modifiedAt))
        container.fs.release(opened.handle)
        let after = try row(ino)
        #expect(after.generation > generation && !after.isWriting && after.dirty.contains(.content))
        #expect(try await container.content(of: ino) == "behind")
    }

    /// A store to a page that is mapped and dirty leaves the file's times as they are.
    @Test func lateCloseIsTheChangeOnlyAfterAMapping() async throws {
        for (name, flags) in [("a", OpenFlags.writeOnly), ("b", .readWrite)] {
            let ino = try container.create(name, "before")
            let opened = try await open(ino, flags)
            try kernel.open(opened).write(Array("behind".utf8), at: 0)
            // Longer than an immediate close takes.
            try await Task.sleep(for: .milliseconds(50))
            container.fs.release(opened.handle)
            #expect(try await eventually { try row(ino).isWriting == false })
            let after = try row(ino)
            #expect((after.lastChange < after.dirtyAt) == (flags == .writeOnly), "\(name)")
        }
    }

    /// Its times show stores through a mapping.
    @Test func unnamedFilesAttributesAreNotCached() throws {
        let made = try container.fs.createUnnamed(
            parent: 1, mode: 0o600, flags: [.readWrite], caller: container.caller)
        #expect(made.opened.backing != nil && made.attributes.isChanging)
        container.fs.release(made.opened.handle)
        container.fs.forget(made.attributes.ino, 1)
    }

    @Test func openingForWritingAloneChangesNothing() async throws {
        let ino = try container.create("a", "text")
        let before = try row(ino)
        let opened = try await open(ino, .readWrite)
        container.fs.release(opened.handle)
        #expect(try await eventually { try row(ino).isWriting == false })
        #expect(try row(ino).generation == before.generation)
        #expect(try row(ino).modifiedAt == before.modifiedAt)
    }

    @Test func fsyncTellsOfWritesAndGoesToTheDisk() async throws {
        let ino = try container.create("a")
        let opened = try await open(ino, .readWrite)
        let generation = try row(ino).generation
        try kernel.open(opened).write([1, 2, 3], at: 0)
        try container.fs.sync(opened.handle)
        #expect(try row(ino).size == 3 && row(ino).generation > generation)
        container.fs.release(opened.handle)
    }

    @Test func openFileIsRecordedPeriodically() async throws {
        let ino = try container.create("a", "x")
        let opened = try await open(ino, .writeOnly)
        let generation = try row(ino).generation
        let file = try kernel.open(opened)
        try file.write([1, 2, 3], at: 0)
        // It has just changed, so it may still be changing.
        container.raw.flush()
        #expect(try row(ino).generation == generation)
        container.raw.flush()
        #expect(try row(ino).generation == generation + 1 && row(ino).isWriting)
        container.raw.flush()
        #expect(try row(ino).generation == generation + 1)
        // The record of a constantly written file is not delayed for ever; that of a new file waits for its close.
        func goOn() throws {
            for number in 0..<20 {
                try file.write([UInt8(number)], at: 0)
                container.raw.flush()
            }
        }
        try goOn()
        #expect(try row(ino).generation == generation + 1)
        try container.cloud.change(row(ino).key, .attributes) { $0.dirty.remove(.created) }
        try goOn()
        #expect(try row(ino).generation > generation + 1)
        container.fs.release(opened.handle)
    }

    /// A program keeps its lock file open while it runs. A command may write into its output file after a while.
    @Test func openEmptyFileIsRecordedAfterSomeLooks() async throws {
        let made = try container.fs.create(
            parent: 1, name: Array("lock".utf8), mode: 0o644, flags: [.writeOnly, .create], caller: container.caller).immediate
        let emptied = try container.create("a", "text")
        let opened = try await open(emptied, [.writeOnly, .truncate])
        let new = made.attributes.ino
        func looks(_ count: Int) throws -> [Int64] {
            for _ in 0..<count { container.raw.flush() }
            return try [new, emptied].map { try row($0).generation }
        }
        let before = try looks(0)
        #expect(try looks(12) == before)
        let after = try looks(2)
        #expect(zip(before, after).allSatisfy { $0 < $1 })
        #expect(try row(emptied).isWriting && row(new).isWriting)
        // One record is enough.
        #expect(try looks(30) == after)
        // Later writes are checked as before.
        try kernel.open(opened).write([1, 2, 3], at: 0)
        #expect(try looks(1) == after)
        #expect(try looks(1) == [after[0], after[1] + 1])
        for handle in [made.opened.handle, opened.handle] { container.fs.release(handle) }
    }

    @Test func mappingBeyondTheHandleIsWatched() async throws {
        let ino = try container.create("a", "text")
        let opened = try await open(ino, .readWrite)
        // For the kernel a mapping is one more writer of the backing file.
        var mapping: FileDescriptor? = try kernel.open(opened)
        container.fs.release(opened.handle)
        let key = try row(ino).key
        #expect(try row(ino).isWriting)
        #expect(try container.raw.isOpen(key))
        #expect(container.raw.violation(whileIdle: true) == nil)
        let generation = try row(ino).generation
        try mapping?.write(Array("late".utf8), at: 0)
        mapping = nil
        try await endOfWriting(to: ino)
        #expect(try row(ino).generation > generation)
        #expect(try await eventually { try !container.raw.isOpen(key) })
    }

    /// Any program may sync the file, also one that does not write.
    @Test func syncByAReaderKeepsTheWatch() async throws {
        let ino = try container.create("a", "text")
        let opened = try await open(ino, .readWrite)
        var mapping: FileDescriptor? = try kernel.open(opened)
        container.fs.release(opened.handle)
        try mapping?.write(Array("soon".utf8), at: 0)
        let reader = try await open(ino)
        try container.fs.sync(reader.handle)
        container.fs.release(reader.handle)
        #expect(try row(ino).isWriting)
        let generation = try row(ino).generation
        try mapping?.write(Array("late".utf8), at: 0)
        mapping = nil
        try await endOfWriting(to: ino)
        #expect(try row(ino).generation > generation)
    }

    /// A write that runs during the record has set the times before, and does not set them again.
    @Test func closeAfterRecordBesideWriterRecordsAgain() async throws {
        let ino = try container.create("a", "text")
        let opened = try await open(ino, .readWrite)
        try kernel.open(opened).write(Array("next".utf8), at: 0)
        try container.fs.sync(opened.handle)
        let generation = try row(ino).generation
        container.fs.release(opened.handle)
        #expect(try row(ino).generation > generation && row(ino).isWriting == false)
        // A handle without writes does not count.
        let idle = try await open(ino, .readWrite), after = try row(ino).generation
        try container.fs.sync(idle.handle)
        container.fs.release(idle.handle)
        #expect(try row(ino).generation == after)
    }

    private func endOfWriting(to ino: UInt64) async throws {
        #expect(try await eventually { try row(ino).isWriting == false })
    }

    @Test func mappedFileCanBeReopened() async throws {
        let ino = try container.create("a", "text")
        let opened = try await open(ino, .readWrite)
        var mapping: FileDescriptor? = try kernel.open(opened)
        container.fs.release(opened.handle)
        for _ in 0..<3 {
            let again = try await open(ino, .readWrite)
            #expect(again.backing != nil)
            container.fs.release(again.handle)
        }
        let reader = try await open(ino)
        try mapping?.write(Array("late".utf8), at: 0)
        mapping = nil
        try await endOfWriting(to: ino)
        // A reader does not delay the end of writing.
        #expect(try row(ino).dirty.contains(.content))
        container.fs.release(reader.handle)
        #expect(container.raw.violation(whileIdle: true) == nil)
        #expect(try await container.content(of: ino) == "late")
    }

    @Test func unlinkedMappedFileIsForgotten() async throws {
        let ino = try container.create("a", "text")
        let opened = try await open(ino, .readWrite)
        var mapping: FileDescriptor? = try kernel.open(opened)
        try container.unlink("a")
        try mapping?.write([1], at: 0)
        container.fs.release(opened.handle)
        mapping = nil
        #expect(try await eventually { container.raw.violation(whileIdle: true) == nil })
        #expect(container.raw.openHandleCount == 0)
    }

    @Test func writersOfADeadDaemonAreWatched() async throws {
        let ino = try container.create("a", "text")
        var survivor: FileDescriptor? = try FileDescriptor.open(
            container.contents.path(of: try #require(row(ino).content)), .readWrite)
        _ = try container.index.beginWriting(ino: ino)
        try container.raw.adoptWriters()
        #expect(try row(ino).isWriting)
        let generation = try row(ino).generation
        try survivor?.write(Array("more".utf8), at: 0)
        survivor = nil
        try await endOfWriting(to: ino)
        #expect(try row(ino).generation > generation)
    }

    @Test func settingTimesDoesNotHideAWrite() async throws {
        let ino = try container.create("a", "text")
        let opened = try await open(ino, .writeOnly)
        let generation = try row(ino).generation
        try kernel.open(opened).write([1], at: 0)
        let time = Timestamp(seconds: 1_000_000_000, nanoseconds: 1)
        _ = try await container.set(ino, AttributeChanges(modifiedAt: .at(time)))
        container.fs.release(opened.handle)
        #expect(try row(ino).generation > generation)
        #expect(try row(ino).modifiedAt == time)
    }

    @Test func truncatingKeepsTheBackingFileOfOthers() async throws {
        let ino = try container.create("a", "text")
        let reader = try await open(ino)
        let file = try kernel.open(reader, .readOnly)
        let writer = try await open(ino, [.writeOnly, .truncate])
        #expect(writer.backing == reader.backing)
        try kernel.open(writer).write([7], at: 0)
        #expect(try file.read(count: 10, at: 0) == [7])
        _ = try await container.set(ino, AttributeChanges(size: 0))
        #expect(try file.status().size == 0)
        for opened in [reader, writer] { container.fs.release(opened.handle) }
        #expect(try row(ino).size == 0)
    }

    @Test func rightsOfAFileAreLeftToTheDaemon() async throws {
        let ino = try container.create("a", "x")
        _ = try await container.set(ino, AttributeChanges(mode: 0o4755))
        let opened = try await open(ino, .readWrite)
        #expect(opened.backing == nil)
        container.fs.release(opened.handle)
        _ = try await container.set(ino, AttributeChanges(mode: 0o755))
        let passed = try await open(ino, .writeOnly)
        _ = try await container.set(ino, AttributeChanges(mode: 0o4755))
        try kernel.open(passed).write([1], at: 0)
        container.fs.release(passed.handle)
        #expect(try row(ino).mode == 0o4755)
    }

    /// The kernel reports a write by a user who may not keep the bits. It also reports a chown to the same owner.
    @Test(arguments: [false, true]) func kernelReportsClearedPrivileges(isUnlinked: Bool) async throws {
        let ino = try container.create("a", "x")
        let passed = try await open(ino, .writeOnly)
        if isUnlinked { try container.unlink("a") }
        func mode() throws -> UInt32 { try container.fs.attributes(of: ino, handle: passed.handle).mode & 0o7777 }
        for (given, left) in [(0o6775, 0o775), (0o2664, 0o2664), (0o1777, 0o1777)] as [(UInt32, UInt32)] {
            _ = try await container.set(ino, AttributeChanges(mode: given), handle: passed.handle)
            try kernel.open(passed).write([1], at: 0)
            #expect(try mode() == given)
            let before = try container.fs.attributes(of: ino, handle: passed.handle).changedAt
            let after = try await container.set(ino, AttributeChanges(dropsPrivileges: true), handle: passed.handle)
            #expect(after.mode & 0o7777 == left)
            #expect(try mode() == left)
            #expect(after.changedAt > before)
        }
        container.fs.release(passed.handle)
        guard !isUnlinked else { return }
        // A user who does not own the file, and does not write.
        _ = try await container.set(ino, AttributeChanges(mode: 0o4755))
        let stranger = Caller(uid: 2000, gid: 2000, pid: 0)
        #expect(throws: Errno.EPERM) {
            _ = try container.fs.setAttributes(of: ino, AttributeChanges(dropsPrivileges: true), caller: stranger)
        }
        #expect(try row(ino).mode & 0o7777 == 0o4755)
        let other = try await open(ino, [.writeOnly, .nonBlocking])
        #expect(try row(ino).mode & 0o7777 == 0o4755)
        guard case .now(let left) = try container.fs.setAttributes(
            of: ino, AttributeChanges(dropsPrivileges: true), caller: stranger)
        else { throw Errno.EIO }
        #expect(left.mode & 0o7777 == 0o755)
        container.fs.release(other.handle)
        let folder = try container.makeDirectory("d")
        _ = try await container.set(folder, AttributeChanges(mode: 0o2777))
        #expect(try await container.set(folder, AttributeChanges(dropsPrivileges: true)).mode & 0o7777 == 0o2777)
    }

    @Test func mappedFilesTimesAreNotCached() async throws {
        let ino = try container.create("a", "x")
        _ = try container.lookup("a")
        #expect(try !container.fs.attributes(of: ino).isChanging)
        _ = container.kernel.take()
        let opened = try await open(ino, .readWrite)
        #expect(container.kernel.take() == [.attributes(ino)])
        #expect(try container.fs.attributes(of: ino).isChanging)
        container.fs.release(opened.handle)
        #expect(try await eventually { try !container.fs.attributes(of: ino).isChanging })
    }

    @Test func createUsesPassthrough() throws {
        let made = try container.fs.create(
            parent: 1, name: Array("a".utf8), mode: 0o644, flags: [.readWrite, .create], caller: container.caller).immediate
        #expect(made.opened.backing != nil)
        #expect(made.attributes.isChanging)
        #expect(container.kernel.take().isEmpty)
        container.fs.release(made.opened.handle)
        #expect(kernel.registrations == 1)
    }

    // MARK: Repeated reads

    /// Opens it for reading, like a program that stats the file first.
    private func look(_ ino: UInt64) async throws -> OpenedFile {
        let opened = try await open(ino)
        _ = try container.fs.attributes(of: ino, handle: opened.handle)
        container.fs.release(opened.handle)
        return opened
    }

    @Test func frequentlyReadSmallFileIsServedFromPages() async throws {
        let ino = try container.create("a", "text")
        for _ in 0..<2 { #expect(try await look(ino).backing != nil) }
        let first = try await look(ino), next = try await look(ino)
        #expect(first.backing == nil && !first.keepsCache)
        #expect(next.backing == nil && next.keepsCache)
        // The kernel keeps nothing of it.
        #expect(kernel.count == 0)
        // A file that another reader has open stays shared for a writer.
        let reader = try await open(ino), writer = try await open(ino, .readWrite)
        #expect(reader.backing == nil && writer.backing == nil)
        try container.write("more", to: writer.handle)
        for opened in [reader, writer] { container.fs.release(opened.handle) }
        // It has been written to: its next reader may be the only one.
        let later = try await look(ino)
        #expect(later.backing != nil && !later.keepsCache)
        #expect(try await container.content(of: ino) == "more")
        #expect(container.raw.violation(whileIdle: true) == nil)
    }

    @Test func pagesOfBeforeAWriteAreNotKept() async throws {
        let ino = try container.create("a", "text")
        for _ in 0..<4 { _ = try await look(ino) }
        let writer = try await open(ino, .writeOnly)
        try kernel.open(writer).write(Array("TEXT".utf8), at: 0)
        container.fs.release(writer.handle)
        for _ in 0..<2 { #expect(try await look(ino).backing != nil) }
        let read = try await look(ino)
        #expect(read.backing == nil && !read.keepsCache)
    }

    /// The kernel may cache the bytes of a damaged content. It may also cache earlier bytes of a content that a start
    /// or the doctor replaces without a notification.
    @Test func pagesOfADamagedOrAnotherContentAreNotKept() async throws {
        for isDamaged in [true, false] {
            let ino = try container.create("a\(isDamaged)", "text")
            for _ in 0..<3 { _ = try await look(ino) }
            #expect(try await look(ino).keepsCache)
            let row = try row(ino)
            if isDamaged {
                for state in [ContentState.partial, .complete] {
                    try container.cloud.change(row.key, .attributes) { $0.contentState = state }
                }
            } else {
                let other = ContentID(try container.index.newContentNumber())
                try container.contents.create(other).write(Array("TEXT".utf8), at: 0)
                try container.index.write(.startup) { transaction in
                    var next = row
                    next.content = other
                    try transaction.update(next, before: row)
                }
            }
            let read = try await look(ino)
            #expect(read.backing == nil && !read.keepsCache)
            #expect(try await look(ino).keepsCache)
        }
    }

    @Test func largeOrWrittenFileKeepsPassthrough() async throws {
        let large = try container.create("large", String(repeating: "x", count: 200_000))
        for _ in 0..<5 { #expect(try await look(large).backing != nil) }
        let small = try container.create("small", "text")
        for _ in 0..<3 { _ = try await look(small) }
        // An open for writing alone ends the sharing.
        let writer = try await open(small, .readWrite)
        #expect(writer.backing != nil)
        for _ in 0..<3 { #expect(try await look(small).backing == writer.backing) }
        container.fs.release(writer.handle)
    }
}
