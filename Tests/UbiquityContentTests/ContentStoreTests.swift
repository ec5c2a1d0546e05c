import Glibc
import Testing
@testable import UbiquityContent
import UbiquityCore
import UbiquitySystem
import UbiquityTestSupport

@Suite struct ContentStoreTests {
    let folder: TemporaryFolder
    let store: ContentStore

    init() throws {
        folder = try TemporaryFolder()
        store = try ContentStore(stateFolder: folder.path)
    }

    @Test func createsOpensAndRemoves() throws {
        let id = ContentID(0x1A3F)
        #expect(try !store.exists(id))
        try store.create(id).write([1, 2, 3], at: 0)
        #expect(store.path(of: id) == folder("content/006/1a3f"))
        #expect(try store.open(id, writable: false).read(count: 9, at: 0) == [1, 2, 3])
        #expect(throws: Errno.EBADF) { try store.open(id, writable: false).write([1], at: 0) }
        #expect(try store.status(of: id)?.size == 3)
        #expect(try store.status(of: id)?.permissions == 0o600)
        try store.syncName(of: id)
        let twice = #expect(throws: UbiquityError.self) { try store.create(id) }
        #expect(twice?.code == .alreadyExists)
        try store.remove(id)
        try store.remove(id)
        #expect(try store.status(of: id) == nil)
        let gone = #expect(throws: UbiquityError.self) { try store.open(id, writable: true) }
        #expect(gone?.code == .notFound)
    }

    @Test func removedContentCanStillBeRead() throws {
        let file = try store.create(ContentID(7))
        try file.write([9], at: 0)
        try store.remove(ContentID(7))
        #expect(try file.read(count: 1, at: 0) == [9])
    }

    @Test func listsEveryContentForTheSweep() throws {
        let ids = [1, 2, 1023, 1024, 1025, 0x3FFFF, 0x40000, 0x7FFF_FFFF_FFFF].map { ContentID($0) }
        for id in ids { _ = try store.create(id) }
        // Foreign files: no number, a number of another folder, another spelling of a number.
        try SmallFile.publish([], at: folder("content/001/note"))
        try SmallFile.publish([], at: folder("content/001/2"))
        try SmallFile.publish([], at: folder("content/002/80A"))
        #expect(Set(try store.all()) == Set(ids))
        let reopened = try ContentStore(stateFolder: folder.path)
        #expect(Set(try reopened.all()) == Set(ids))
    }

    /// In that format the folders get the numbers in turn.
    @Test func oldStoreFormatIsKept() throws {
        let old = try TemporaryFolder()
        for name in ["00", "3f", "ff"] { try FileSystem.makeDirectories(old("content/" + name)) }
        try SmallFile.publish([1], at: old("content/3f/1a3f"))
        for _ in 0..<2 {
            let store = try ContentStore(stateFolder: old.path)
            #expect(try store.all() == [ContentID(0x1A3F)])
            #expect(try store.open(ContentID(0x1A3F), writable: false).read(count: 1, at: 0) == [1])
            #expect(store.path(of: ContentID(0x2FF)) == old("content/ff/2ff"))
        }
    }

    /// An older program has created its folders in it.
    @Test func storeWithBothFolderKindsIsANewOne() throws {
        try store.create(ContentID(0x1A3F)).write([1], at: 0)
        for name in ["00", "3f"] { try FileSystem.makeDirectories(folder("content/" + name)) }
        #expect(try ContentStore(stateFolder: folder.path).all() == [ContentID(0x1A3F)])
    }

    /// Only where the file system supports the hint.
    @Test func foldersAreSpreadOverTheDisk() throws {
        let (get, set, spread) = (0x8008_6601 as UInt, 0x4008_6602 as UInt, 0x2_0000 as Int32)  // FS_IOC_…, FS_TOPDIR_FL
        func flags(of path: String, adding added: Int32 = 0) throws -> Int32? {
            let directory = try FileDescriptor.open(path, [.readOnly, .directory])
            var flags: Int32 = 0
            guard ioctl(directory.rawValue, get, &flags) == 0 else { return nil }
            flags |= added
            return added == 0 || ioctl(directory.rawValue, set, &flags) == 0 ? flags : nil
        }
        let other = try TemporaryFolder(), fresh = try TemporaryFolder()
        guard try flags(of: other.path, adding: spread) != nil else { return }
        _ = try ContentStore(stateFolder: fresh.path)
        #expect(try flags(of: fresh("content")).map { $0 & spread } == spread)
    }

    /// A program that makes a replacement during an index sync syncs the content itself: its journal entry may reach
    /// the disk with that sync.
    @Test func replacementDuringAnIndexSyncDoesNotWait() throws {
        for number in 1...3 { try store.create(ContentID(Int64(number))).write([1], at: 0) }
        func waiting() -> Set<ContentID> { store.replacements.withLock { $0.waiting } }
        try store.noteReplacement(ContentID(1))
        #expect(waiting() == [ContentID(1)])
        try store.beginIndexSync()
        #expect(waiting() == [])
        try store.noteReplacement(ContentID(2))
        #expect(waiting() == [])
        store.endIndexSync()
        try store.noteReplacement(ContentID(3))
        #expect(waiting() == [ContentID(3)])
    }

    /// The kernel reports a failed write once, and then treats the pages as written.
    @Test func replacementWithAFailedSyncIsWrittenAgain() throws {
        let id = ContentID(1), bytes = Samples.bytes(3_000_000, seed: 3)
        try store.create(id).write(bytes, at: 0)
        try store.noteReplacement(id)
        let before = try #require(try store.status(of: id))
        FaultPoints.setHook { $0 == "content.sync" ? UbiquityError(.io, "a bad sector") : nil }
        defer { FaultPoints.setHook(nil) }
        #expect(throws: UbiquityError.self) { try store.beginIndexSync() }
        store.endIndexSync()
        #expect(store.failure(of: id)?.code == .io)
        FaultPoints.setHook(nil)
        // A repair would undo this writer's changes.
        let writer = try store.open(id, writable: true)
        #expect(throws: UbiquityError.self) { try withExtendedLifetime(writer) { try store.beginIndexSync() } }
        store.endIndexSync()
        _ = consume writer
        try store.beginIndexSync()
        store.endIndexSync()
        #expect(store.failure(of: id) == nil)
        let after = try #require(try store.status(of: id))
        #expect(after.changedAt > before.changedAt && after.modifiedAt == before.modifiedAt, "written")
        #expect(try store.open(id, writable: false).read(count: bytes.count, at: 0) == bytes)
    }

    @Test func stagingIsEmptyAfterAStart() throws {
        try FileSystem.makeDirectory(Path.join(store.stagingDirectory, "dir"))
        try SmallFile.publish([1], at: Path.join(store.stagingDirectory, "dir/file"))
        _ = try ContentStore(stateFolder: folder.path)
        #expect(try FileSystem.entries(of: store.stagingDirectory).isEmpty)
    }

    @Test func duplicateHasTheBytesAndTheHoles() throws {
        let file = try store.create(ContentID(1))
        try file.truncate(to: 10 << 20)
        let bytes = Samples.bytes(100_000, seed: 1)
        try file.write(bytes, at: 4 << 20)
        let copy = try store.duplicate(ContentID(1), as: ContentID(2))
        #expect(try copy.status().size == 10 << 20)
        #expect(try copy.read(count: bytes.count, at: 4 << 20) == bytes)
        #expect(try copy.status().blocks * 512 < 1 << 20)
        try copy.write([0xFF], at: 4 << 20)
        #expect(try file.read(count: 1, at: 4 << 20) == [bytes[0]])
    }

    /// The target of a link belongs to somebody else: the store neither lists nor moves it, and creates nothing in it.
    @Test(arguments: [true, false]) func fileInPlaceOfFolderIsMovedAside(isLink: Bool) throws {
        let other = try TemporaryFolder(), bucket = folder("content/003")
        for name in ["passwd", "c01"] {
            _ = try FileDescriptor.open(other(name), [.readWrite, .create])
        }
        try FileSystem.removeDirectory(bucket)
        if isLink {
            try FileSystem.symlink(other.path, at: bucket)
        } else {
            _ = try FileDescriptor.open(bucket, [.readWrite, .create])
        }
        #expect(try store.all().isEmpty)
        #expect(try store.strayFiles() == ["003"])
        let aside = try store.setAside(stray: "003")
        #expect(try FileSystem.status(aside).kind == (isLink ? .symlink : .file))
        #expect(try FileSystem.status(bucket).isDirectory && store.strayFiles().isEmpty)
        // The same at the start of the store.
        try FileSystem.removeDirectory(bucket)
        try FileSystem.rename(aside, to: bucket)
        let reopened = try ContentStore(stateFolder: folder.path)
        #expect(try FileSystem.entries(of: folder("set-aside")).map(\.text) == ["stray-003"])
        #expect(try FileSystem.status(bucket).isDirectory)
        _ = try reopened.create(ContentID(0xC02))
        #expect(try Set(FileSystem.entries(of: other.path).map(\.text)) == ["passwd", "c01"])
    }

    /// Users may keep the contents on another disk.
    @Test func storeBehindALinkIsKept() throws {
        let other = try TemporaryFolder()
        _ = try FileDescriptor.open(other("theirs"), [.readWrite, .create])
        let state = try TemporaryFolder()
        try FileSystem.symlink(other.path, at: state("content"))
        let store = try ContentStore(stateFolder: state.path)
        _ = try store.create(ContentID(5))
        #expect(try store.all() == [ContentID(5)])
        #expect(try store.strayFiles().isEmpty)
    }

    @Test func usageCountsAllocatedBytes() throws {
        try store.create(ContentID(1)).truncate(to: 100 << 20)
        try store.create(ContentID(2)).write(Samples.bytes(1 << 20, seed: 2), at: 0)
        let usage = try store.usage()
        #expect(usage.files == 2)
        #expect((1 << 20..<2 << 20).contains(usage.bytes))
        #expect(try store.availableBytes() > 0)
    }

    /// A search for contents without an item must not find those that are being removed.
    @Test func contentBeingRemovedCountsAsRetired() throws {
        let ids = (1...3).map { ContentID($0) }
        for id in ids { _ = try store.create(id) }
        store.retire(ids)
        struct Refusal: Error {}
        #expect(throws: Refusal.self) {
            try store.removeRetired {
                #expect(ids.allSatisfy(store.isRetired))
                throw Refusal()
            }
        }
        #expect(ids.allSatisfy(store.isRetired))
        let count = try store.removeRetired { #expect(ids.allSatisfy(store.isRetired)) }
        #expect(count == 3)
        #expect(try ids.allSatisfy { try !store.exists($0) && !store.isRetired($0) })
    }
}
