import Glibc
import Testing
import UbiquityCloudStore
import UbiquityCore
import UbiquitySystem
import UbiquityTestSupport
import UbiquityWire

/// The files of a `FileChunkStore`, and faults of both stores.
@Suite struct ChunkFileTests {
    private let folder: ChunkFolder
    private let chunks = ChunkSamples.chunks(0..<4)
    private var ids: [ChunkID] { chunks.map(\.id) }

    init() throws { folder = try ChunkFolder() }

    @Test func onlyTheOwnerMayReadTheFolder() throws {
        let store = try folder.open()
        try store.store(chunks)
        try store.makeDurable(ids)
        let file = folder.file(of: ids[0])
        #expect(try FileSystem.status(file).permissions == 0o600)
        #expect(try FileSystem.status(Path.parent(of: file)).permissions == 0o700)
        #expect(try FileSystem.status(Path.join(folder.path, "incoming")).permissions == 0o700)
    }

    /// The target of a link in the place of a folder belongs to somebody else: nothing in it is removed.
    @Test(arguments: ["dropped", "incoming"]) func nothingIsRemovedBehindALink(name: String) throws {
        let other = try ChunkFolder()
        _ = try FileDescriptor.open(Path.join(other.path, "theirs"), [.readWrite, .create])
        _ = try folder.open()
        let path = Path.join(folder.path, name)
        try FileSystem.removeDirectory(path)
        try FileSystem.symlink(other.path, at: path)
        let store = try folder.open()
        try store.store(chunks)
        try store.makeDurable(ids)
        try store.forEachStored { _, _ in }
        #expect(try FileSystem.entries(of: other.path).map(\.text) == ["theirs"])
        #expect(try FileSystem.status(path).isDirectory)
    }

    @Test func undurableChunksAreLostWithTheProcess() throws {
        let first = try folder.open()
        try first.store(chunks)
        try first.makeDurable([ids[1]])
        #expect(try folder.incoming().count == 3)
        let second = try folder.open()
        #expect(try folder.incoming().isEmpty)
        #expect(try second.missing(of: ids) == [ids[0], ids[2], ids[3]])
        try second.makeDurable([ids[1]])
        #expect(try second.read(ids[1]) == chunks[1].bytes)
        // Each process has its own leftovers; collection removes them all.
        try second.store(chunks)
        let third = try folder.open()
        #expect(try FileSystem.entries(of: Path.join(folder.path, "dropped")).count == 2)
        #expect(try third.missing(of: ids) == [ids[0], ids[2], ids[3]])
        try third.forEachStored { id, _ in #expect(id == ids[1]) }
        #expect(try FileSystem.entries(of: Path.join(folder.path, "dropped")).isEmpty)
    }

    @Test func memoryStoreLosesUndurableChunksToo() throws {
        let store = MemoryChunkStore(timekeeper: ManualTime(sleep: .isCancelled))
        try store.store(chunks)
        try store.makeDurable([ids[1]])
        try store.store([chunks[1]])
        store.losePower()
        #expect(try store.missing(of: ids) == [ids[0], ids[2], ids[3]])
    }

    private func flipBit(of id: ChunkID) throws {
        let file = try FileDescriptor.open(folder.file(of: id), .readWrite)
        let byte = try file.read(count: 1, at: 100)
        try file.write([byte[0] ^ 4], at: 100)
    }

    @Test func flippedBitIsFoundAndRepairedDurably() throws {
        let store = try folder.open()
        try store.store(chunks)
        try store.makeDurable(ids)
        try flipBit(of: ids[2])
        #expect(try store.missing(of: ids).isEmpty)
        #expect(chunkFailure { _ = try store.read(ids[2]) } == .damaged)
        #expect(try store.missing(of: ids) == [ids[2]])
        #expect(throws: MissingChunks(ids: [ids[2]])) { try store.makeDurable(ids) }
        try store.store([chunks[2]])
        #expect(try store.missing(of: ids).isEmpty)
        #expect(try folder.open().read(ids[2]) == chunks[2].bytes)
    }

    @Test func damageInMemoryIsFoundAndRepaired() throws {
        let store = MemoryChunkStore(timekeeper: ManualTime(sleep: .isCancelled))
        try store.store(chunks)
        store.damage(ids[2])
        #expect(chunkFailure { _ = try store.read(ids[2]) } == .damaged)
        #expect(try store.missing(of: ids) == [ids[2]])
        try store.store([chunks[2]])
        #expect(try store.read(ids[2]) == chunks[2].bytes)
    }

    @Test(arguments: [0, 100, 2_000_000])
    func copyOfAnotherSizeIsReplaced(_ size: Int64) throws {
        let store = try folder.open()
        try store.store(chunks)
        try store.makeDurable(ids)
        try FileSystem.truncate(folder.file(of: ids[0]), to: size)
        if size != 100 { #expect(try store.missing(of: ids) == [ids[0]]) }
        #expect(chunkFailure { _ = try store.read(ids[0]) } == .damaged)
        try store.store([chunks[0]])
        #expect(try store.read(ids[0]) == chunks[0].bytes)
        #expect(try FileSystem.status(folder.file(of: ids[0])).size == Int64(chunks[0].bytes.count))
    }

    @Test func vanishedFileIsMissingAndStoredAgain() throws {
        let store = try folder.open()
        try store.store(chunks)
        for name in try folder.incoming() { try FileSystem.unlink("\(folder.path)/incoming/\(name)") }
        #expect(try store.missing(of: ids) == ids)
        #expect(throws: MissingChunks(ids: ids)) { try store.makeDurable(ids) }
        try store.store(chunks)
        try store.makeDurable(ids)
        #expect(try folder.durable() == ids.map(\.description).sorted())
    }

    @Test func chunksAreMadeDurableTogether() throws {
        let store = try folder.open()
        let many = ChunkSamples.chunks(0..<300, length: 50)
        try store.store(many)
        try store.makeDurable(many.map(\.id))
        #expect(try folder.incoming().isEmpty)
        #expect(try folder.open().missing(of: many.map(\.id)).isEmpty)
    }

    /// Bytes in memory after a failed sync may never reach the disk, so they must not count as stored.
    @Test(arguments: [1, 100])
    func failedSyncRequestsTheChunksAgain(_ count: UInt64) throws {
        let store = try folder.open()
        let many = ChunkSamples.chunks(1000..<(1000 + count), length: 50)
        try store.store(many)
        Self.failingSyncs {
            #expect(chunkFailure { try store.makeDurable(many.map(\.id)) } == .io)
        }
        #expect(try store.missing(of: many.map(\.id)) == many.map(\.id))
        #expect(try folder.incoming().isEmpty)
        try store.store(many)
        try store.makeDurable(many.map(\.id))
        #expect(try folder.durable().count == many.count)
    }

    /// Makes every sync of chunks on this thread fail.
    private static func failingSyncs(_ body: () -> Void) {
        FaultPoints.setHook { name in
            name == "chunks.sync" ? UbiquityError(.io, "failed on purpose", at: name) : nil
        }
        defer { FaultPoints.setHook(nil) }
        body()
    }

    /// A bad sector: the copy does not count, and another replaces it.
    @Test func unreadableCopyIsReplaced() throws {
        let store = try folder.open()
        try store.store(chunks)
        try store.makeDurable(ids)
        Self.failingReads {
            #expect(chunkFailure { _ = try store.read(ids[2]) } == .damaged)
            #expect(chunkFailure { try store.store([chunks[1]]) } == nil)
        }
        #expect(try store.missing(of: ids) == [ids[2]])
        Self.failingReads { #expect(chunkFailure { try store.store([chunks[2]]) } == nil) }
        #expect(try store.missing(of: ids).isEmpty)
        let reopened = try folder.open()
        for chunk in chunks { #expect(try reopened.read(chunk.id) == chunk.bytes) }
    }

    /// Makes every read of a stored chunk on this thread fail.
    private static func failingReads(_ body: () -> Void) {
        FaultPoints.setHook { name in name == "chunks.read" ? UbiquityError(.io, "failed on purpose", at: name) : nil }
        defer { FaultPoints.setHook(nil) }
        body()
    }

    @Test func foreignFilesAreIgnored() throws {
        let store = try folder.open()
        try store.store(chunks)
        try store.makeDurable(ids)
        _ = try FileDescriptor.open("\(folder.path)/chunks/00/readme", [.writeOnly, .create])
        var found = Set<ChunkID>()
        try store.forEachStored { id, _ in found.insert(id) }
        #expect(found == Set(ids))
    }
}

/// A file system of 1 MiB, if this process may mount one. It is unmounted with the object.
private final class TinyChunkDisk {
    let folder: ChunkFolder

    init?() {
        guard geteuid() == 0, let folder = try? ChunkFolder() else { return nil }
        guard mount("tmpfs", folder.path, "tmpfs", 0, "size=1m") == 0 else { return nil }
        self.folder = folder
    }

    deinit { umount2(folder.path, Int32(MNT_DETACH)) }

    static let isPossible = TinyChunkDisk() != nil
}

@Suite struct ChunkFullDiskTests {
    @Test(.enabled(if: TinyChunkDisk.isPossible, "needs the right to mount"))
    func fullDiskLeavesNoPartialChunk() throws {
        let disk = try #require(TinyChunkDisk())
        let store = try disk.folder.open()
        let chunks = ChunkSamples.chunks(0..<5, length: 300_000), ids = chunks.map(\.id)
        #expect(chunkFailure { try store.store(chunks) } == .noSpace)
        #expect(try store.missing(of: ids) == Array(ids[3...]))
        #expect(try disk.folder.incoming().count == 3)
        try store.makeDurable(Array(ids[..<3]))
        try store.remove([ids[0]])
        try store.store([chunks[4]])
        #expect(try store.read(ids[4]) == chunks[4].bytes)
    }
}
