import Testing
import UbiquityContent
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
@testable import UbiquityVFS

@Suite struct DurabilityTests {
    @Test func fsyncTellsTheIndexWhileTheFileStaysOpen() async throws {
        let container = try TestContainer()
        let ino = try container.create("a")
        let handle = try await container.open(ino, .readWrite)
        try container.write("synced", to: handle)
        #expect(try container.index.row(ino: ino)?.size == 0)
        try container.fs.sync(handle)
        let row = try #require(try container.index.row(ino: ino))
        #expect(row.size == 6)
        #expect(row.isWriting)
        try container.fs.syncDirectory()
        container.fs.release(handle)
        #expect(try container.index.row(ino: ino)?.generation == row.generation)
    }

    /// The kernel reports a close late. If the power fails before, a truncated new content must be recognizable, so
    /// that the old one is restored.
    @Test func saveRenamedBeforeItsReleaseIsRecordedWithItsSize() throws {
        let container = try TestContainer()
        try container.create("document", "old")
        let new = try container.fs.create(
            parent: 1, name: Array("new".utf8), mode: 0o644, flags: [.writeOnly, .create], caller: container.caller).immediate
        try container.write("new content", to: new.opened.handle)
        try container.rename("new", to: "document")
        #expect(try container.index.read { try $0.replacedContents() }.map(\.newSize) == [11])
        #expect(try container.index.row(ino: new.attributes.ino)?.size == 11)
        container.fs.release(new.opened.handle)
        #expect(try container.index.row(ino: new.attributes.ino)?.size == 11)
    }

    /// As `sed -i` does: the kernel may serve the new file, and a mapping of it may exist until its release.
    @Test func passthroughSaveIsRecordedWithItsSize() throws {
        let kernel = FakePassthrough(), container = try TestContainer(passthrough: kernel)
        try container.create("document", "old")
        let new = try container.fs.create(
            parent: 1, name: Array("new".utf8), mode: 0o600, flags: [.readWrite, .create], caller: container.caller).immediate
        try kernel.open(new.opened).write(Array("new content".utf8), at: 0)
        try container.rename("new", to: "document")
        #expect(try container.index.read { try $0.replacedContents() }.map(\.newSize) == [11])
        #expect(try container.index.row(ino: new.attributes.ino)?.size == 11)
        container.fs.release(new.opened.handle)
    }

    /// Then it is smaller than the content at the replacement, which must not look like a loss.
    @Test func truncatedReplacementIsNotTakenForLost() async throws {
        let container = try TestContainer()
        try container.create("document", "old")
        let ino = try container.create("new", "new content")
        try container.rename("new", to: "document")
        #expect(try container.index.read { try $0.replacedContents() }.count == 1)
        let handle = try await container.open(ino, .writeOnly)
        _ = try await container.set(ino, AttributeChanges(size: 3), handle: handle)
        #expect(try container.index.read { try $0.replacedContents() }.isEmpty)
        container.fs.release(handle)
    }

    /// Its bytes may not be on the disk, whatever its size.
    @Test func replacingDownloadIsSynced() async throws {
        let container = try TestContainer()
        try container.create("document", "old")
        let row = try container.cloud.add("a", Array("text".utf8))
        #expect(try await container.content(of: row.ino) == "text")
        let known = try #require(try container.index.row(ino: row.ino)), content = try #require(known.content)
        try container.index.write(.remote) { transaction in
            try transaction.setContent(
                ContentRecord(
                    content: content, version: try #require(known.version), size: 4, manifest: Manifest([]),
                    unsyncedBoot: [1]))
        }
        #expect(try container.index.read { try $0.isUnsynced(content) })
        try container.rename("a", to: "document")
        #expect(try container.index.read { try $0.replacedContents() }.isEmpty)
    }

    /// The kernel reports a failure once: another sync of the same content succeeds.
    @Test func failedBackgroundSyncIsReportedToAll() async throws {
        let container = try TestContainer()
        let ino = try container.create("document", "text")
        let content = try #require(try container.index.row(ino: ino)?.content)
        FaultPoints.setHook { $0 == "content.sync" ? UbiquityError(.io, "a bad sector") : nil }
        defer { FaultPoints.setHook(nil) }
        #expect(throws: UbiquityError.self) { try container.contents.sync(content) }
        FaultPoints.setHook(nil)
        // A program that rewrites the whole content is not affected.
        let opened = try await container.fs.open(ino, flags: [.writeOnly, .truncate], caller: container.caller).value
        try container.write("new", to: opened.handle)
        try container.fs.sync(opened.handle)
        container.fs.release(opened.handle)
        #expect(try await container.content(of: ino) == "new")
    }

    /// A failure for a program is one for the index too, which must not record the content as durable.
    @Test func failedProgramSyncIsReportedToAll() async throws {
        let container = try TestContainer()
        let ino = try container.create("document", "text")
        let content = try #require(try container.index.row(ino: ino)?.content)
        #expect(throws: (any Error).self) {
            try container.raw.rooms.contentSync.rememberingFailure(of: content) { () throws(Errno) in throw Errno.EIO }
        }
        let handle = try await container.open(ino, .writeOnly)
        #expect(throws: UbiquityError.self) { try container.contents.sync(content) }
        container.fs.release(handle)
        // Written again, since no program writes to it.
        try container.contents.sync(content)
        let reader = try await container.open(ino)
        try container.fs.sync(reader)
        container.fs.release(reader)
    }

    @Test func writesOfAKilledProcessAreFoundAtTheStart() async throws {
        let container = try TestContainer()
        let ino = try container.create("a", "before")
        _ = try await container.open(ino, .readWrite)
        // The handle is never released, as if the process had died here.
        #expect(try container.index.interruptedWriters().map(\.ino) == [ino])
    }

    @Test func everyErrorHasAnErrno() {
        for code in UbiquityError.Code.allCases {
            #expect(code.errno.rawValue > 0)
            #expect(Errno(describing: UbiquityError(code, "x")) == code.errno)
        }
        #expect(Errno(describing: CancellationError()) == .EINTR)
        #expect(Errno(describing: Errno.EXDEV) == .EXDEV)
        // A limit of the daemon, not of the caller.
        #expect(UbiquityError(Errno.EMFILE, doing: "open a file").code.errno == .ENFILE)
        #expect(UbiquityError.Code.offline.errno == .ENETUNREACH)
        #expect(UbiquityError.Code.quotaExceeded.errno == .EDQUOT)
    }

    @Test func spaceIsThatOfTheDisk() throws {
        let container = try TestContainer()
        let disk = try container.fs.statistics()
        #expect(try disk.totalBytes == FileSystem.fileSystemStatus(container.folder).totalBytes)
        // The account may have less space than the disk, or more.
        container.cloud.account.withLock { $0 = AccountSpace(usedBytes: 1 << 20, quotaBytes: 3 << 20) }
        let small = try container.fs.statistics()
        #expect(small.availableBytes == 2 << 20)
        #expect(small.totalBytes == 3 << 20)
        container.cloud.account.withLock { $0 = AccountSpace(usedBytes: 5 << 20, quotaBytes: 3 << 20) }
        #expect(try container.fs.statistics().availableBytes == 0)
        container.cloud.account.withLock { $0 = AccountSpace(usedBytes: 0, quotaBytes: 1 << 60) }
        #expect(try container.fs.statistics().availableBytes <= disk.totalBytes)
    }

    /// The last close could not be recorded. The next writer, which changes nothing, must not hide that.
    @Test func nextWriterRecordsAFailedClose() async throws {
        let container = try TestContainer()
        let row = try container.cloud.add("a", Array("text".utf8))
        #expect(try await container.content(of: row.ino) == "text")
        let content = try #require(try container.index.row(ino: row.ino)?.content)
        _ = try container.index.beginWriting(ino: row.ino)
        try container.contents.open(content, writable: true).write(Array("edited".utf8), at: 0)
        container.fs.release(try await container.open(row.ino, .readWrite))
        let noted = try #require(try container.index.row(ino: row.ino))
        #expect(noted.dirty.contains(.content) && noted.size == 6 && !noted.isWriting)
    }

    /// With O_SYNC and O_DSYNC no fsync makes the name durable.
    @Test func synchronousWriterHasADurableFile() async throws {
        let container = try TestContainer()
        func create(_ name: String, _ flags: OpenFlags) throws -> UInt64 {
            try container.fs.create(
                parent: TestContainer.root, name: Array(name.utf8), mode: 0o644, flags: flags, caller: container.caller
            ).immediate.opened.handle
        }
        let plain = try create("a", [.readWrite, .create])
        #expect(!container.index.hasDurableChanges)
        let inStep = try create("b", [.readWrite, .create, .dataSync])
        #expect(container.index.hasDurableChanges)
        container.fs.release(inStep)
        container.fs.release(plain)
        #expect(!container.index.hasDurableChanges)
        let row = try #require(try container.lookup("a"))
        container.fs.release(try await container.open(row.ino, [.writeOnly, .dataSync]))
        // The same for an emptied file, and for one written without the kernel's pages.
        let emptied = try create("c", [.readWrite, .create])
        #expect(!container.index.hasDurableChanges)
        let again = try await container.open(try #require(try container.lookup("c")).ino, [.writeOnly, .truncate, .dataSync])
        #expect(container.index.hasDurableChanges)
        for handle in [again, emptied] { container.fs.release(handle) }
        let direct = try create("d", [.readWrite, .create])
        #expect(!container.index.hasDurableChanges)
        _ = try [1].withUnsafeBytes {
            try container.fs.write(direct, offset: 0, $0, isSynced: true, caller: container.caller)
        }
        #expect(container.index.hasDurableChanges)
        container.fs.release(direct)
    }
}
