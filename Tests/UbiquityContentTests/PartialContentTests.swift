import Testing
import UbiquityCore
import UbiquitySystem

@testable import UbiquityContent
import UbiquityTestSupport

@Suite struct PartialContentTests {
    let folder: TemporaryFolder
    let bytes: [UInt8]
    let manifest: Manifest

    init() throws {
        folder = try TemporaryFolder()
        bytes = Samples.bytes(3 << 20, seed: 20)
        manifest = Chunker.manifest(of: bytes)
    }

    private func content(reserve: Int64 = 0) throws -> PartialContent {
        let file = try FileDescriptor.open(folder("file"), [.readWrite, .create])
        return try PartialContent(
            id: ContentID(1), file: file, manifest: manifest, size: Int64(bytes.count), reserve: reserve)
    }

    private func chunk(_ index: Int, of content: PartialContent) -> [UInt8] {
        let range = content.layout.range(of: index)
        return Array(bytes[Int(range.lowerBound)..<Int(range.upperBound)])
    }

    @Test func chunksInAnyOrderMakeTheWhole() throws {
        let content = try content()
        #expect(try content.file.status().size == Int64(bytes.count))
        #expect(manifest.count > 5)
        var here = Set<Int>()
        for index in manifest.indices.sorted(by: { $0 % 3 > $1 % 3 }) {
            #expect(!content.isComplete)
            #expect(try content.store(index, chunk(index, of: content)))
            here.insert(index)
            #expect(Set(content.missing(from: 0)) == Set(manifest.indices).subtracting(here))
            #expect(content.presentBytes == here.reduce(0) { $0 + Int64(manifest[$1].length) })
            #expect(content.contains(content.layout.range(of: index)))
        }
        #expect(content.isComplete)
        #expect(content.fractionPresent == 1)
        #expect(try content.file.read(count: bytes.count + 1, at: 0) == bytes)
        #expect(try !content.store(0, chunk(0, of: content)))
        let time = Timestamp(seconds: 12_345, nanoseconds: 678)
        try content.finish(modifiedAt: time)
        #expect(try content.file.status().modifiedAt == time)
    }

    /// One block in every sixteen has data, at offsets that are no borders of chunks.
    @Test func longZerosAreHoles() throws {
        var sparse = [UInt8](repeating: 0, count: bytes.count)
        for start in stride(from: 4096 * 3, to: bytes.count - 5000, by: 65_536) {
            sparse.replaceSubrange(start..<start + 5000, with: bytes[start..<start + 5000])
        }
        let manifest = Chunker.manifest(of: sparse)
        let file = try FileDescriptor.open(folder("sparse"), [.readWrite, .create])
        // The earlier bytes are gone.
        try file.write(bytes, at: 0)
        let content = try PartialContent(
            id: ContentID(1), file: file, manifest: manifest, size: Int64(sparse.count), reserve: 0)
        for index in manifest.indices {
            let range = content.layout.range(of: index)
            try content.store(index, Array(sparse[Int(range.lowerBound)..<Int(range.upperBound)]))
        }
        #expect(try file.read(count: sparse.count + 1, at: 0) == sparse)
        #expect(try file.status().blocks * 512 < Int64(sparse.count) / 4)
    }

    @Test func rangesAskForTheirChunksOnly() throws {
        let content = try content()
        let second = content.layout.range(of: 1)
        #expect(content.missing(in: second) == [1])
        #expect(content.missing(in: second.lowerBound - 1..<second.lowerBound + 1) == [0, 1])
        #expect(content.missing(in: second.upperBound - 1..<second.upperBound + 1) == [1, 2])
        #expect(content.missing(in: -5..<Int64.max).count == manifest.count)
        #expect(content.missing(in: -5..<Int64.max, limit: 2) == [0, 1])
        #expect(content.missing(in: 5..<5).isEmpty)
        #expect(content.missing(from: manifest.count - 1) == [manifest.count - 1])
        #expect(content.missing(from: manifest.count).isEmpty)
        try content.store(1, chunk(1, of: content)[...])
        #expect(content.contains(second))
        #expect(!content.contains(second.lowerBound - 1..<second.upperBound))
        // Beyond the end there is nothing to download.
        #expect(content.contains(content.size..<content.size + 10))
        #expect(content.missing(from: 0, limit: 2) == [0, 2])
    }

    @Test func damagedChunksAreRefused() throws {
        let content = try content()
        var damaged = chunk(0, of: content)
        damaged[100] ^= 1
        for wrong in [damaged, chunk(1, of: content), chunk(0, of: content) + [0], chunk(0, of: content).dropLast(), []]
        {
            let error = #expect(throws: UbiquityError.self) { try content.store(0, Array(wrong)) }
            #expect(error?.code == .damaged)
        }
        #expect(content.presentBytes == 0)
        #expect(try content.file.status().blocks == 0)
        #expect(throws: UbiquityError.self) { try content.store(manifest.count, chunk(0, of: content)) }
        #expect(throws: UbiquityError.self) { try content.store(-1, chunk(0, of: content)) }
    }

    @Test func unfinishedContentIsNotFinished() throws {
        let error = #expect(throws: UbiquityError.self) { try content().finish(modifiedAt: .zero) }
        #expect(error?.code == .invalid)
    }

    @Test func afterARestartOnlyWholeChunksCount() throws {
        do {
            let first = try content()
            for index in [0, 2, 3] { try first.store(index, chunk(index, of: first)) }
            // A truncated write, and one byte that flipped on the disk.
            try first.file.write(Array(chunk(5, of: first).dropLast(10)), at: first.layout.range(of: 5).lowerBound)
            try first.file.write([chunk(3, of: first)[7] ^ 1], at: first.layout.range(of: 3).lowerBound + 7)
        }
        let resumed = try content()
        #expect(resumed.presentBytes == 0)
        try resumed.verifyExisting()
        #expect(Set(manifest.indices).subtracting(resumed.missing(from: 0)) == [0, 2])
        for index in resumed.missing(from: 0) { try resumed.store(index, chunk(index, of: resumed)) }
        #expect(try resumed.file.read(count: bytes.count, at: 0) == bytes)
    }

    @Test func checkingCanBeCancelled() throws {
        let first = try content()
        for index in manifest.indices { try first.store(index, chunk(index, of: first)) }
        let resumed = try content()
        var asked = 0
        let error = #expect(throws: UbiquityError.self) {
            try resumed.verifyExisting {
                asked += 1
                return asked == 3
            }
        }
        #expect(error?.code == .cancelled)
        #expect(resumed.missing(from: 0) == Array(2..<manifest.count))
        try resumed.verifyExisting()
        #expect(resumed.isComplete)
    }

    @Test func zerosAreHolesAndAreHere() throws {
        let size = 5 << 20
        var sparse = [UInt8](repeating: 0, count: size)
        for position in 0..<1000 { sparse[position] = UInt8(truncatingIfNeeded: position) }
        let manifest = Chunker.manifest(of: sparse)
        let file = try FileDescriptor.open(folder("sparse"), [.readWrite, .create])
        // Bytes of an earlier attempt must not show.
        try file.write([UInt8](repeating: 0xEE, count: size), at: 0)
        let first = try PartialContent(id: ContentID(2), file: file, manifest: manifest, size: Int64(size), reserve: 0)
        try first.verifyExisting()
        #expect(first.presentBytes == 0)
        for index in manifest.indices {
            let range = first.layout.range(of: index)
            try first.store(index, sparse[Int(range.lowerBound)..<Int(range.upperBound)])
        }
        #expect(try file.read(count: size, at: 0) == sparse)
        #expect(try file.status().blocks * 512 < 3 << 20)
        let resumed = try PartialContent(
            id: ContentID(2), file: file, manifest: manifest, size: Int64(size), reserve: 0)
        try resumed.verifyExisting()
        #expect(resumed.missing(from: 0).allSatisfy { manifest[$0] != ZeroBytes.longestChunk })
        #expect(resumed.contains(chunk: 0))
    }

    @Test func chunksAreTakenFromOtherFiles() throws {
        let content = try content()
        let other = try FileDescriptor.open(folder("other"), [.readWrite, .create])
        try other.write([0xAA] + chunk(1, of: content), at: 0)
        #expect(try !content.store(1, from: other, at: 0))
        #expect(try !content.store(1, from: other, at: 50))
        #expect(!content.contains(chunk: 1))
        #expect(try content.store(1, from: other, at: 1))
        #expect(content.contains(chunk: 1))
        let stored = try content.file.read(count: manifest[1].length, at: content.layout.range(of: 1).lowerBound)
        #expect(stored == chunk(1, of: content))
    }

    @Test func emptyContentIsComplete() throws {
        let file = try FileDescriptor.open(folder("empty"), [.readWrite, .create])
        let content = try PartialContent(id: ContentID(3), file: file, manifest: [], size: 0)
        try content.verifyExisting()
        #expect(content.isComplete)
        #expect(content.fractionPresent == 1)
        #expect(content.contains(0..<100))
        #expect(content.missing(from: 0).isEmpty)
        try content.finish(modifiedAt: .zero)
    }

    @Test func manifestsThatCannotBeAreRefused() throws {
        let file = try FileDescriptor.open(folder("bad"), [.readWrite, .create])
        let id = ChunkNaming.name(of: [1])
        for (length, size) in [(0, 0), (-1, -1), (1 << 21, 1 << 21), (10, 11)] {
            let error = #expect(throws: UbiquityError.self) {
                try PartialContent(
                    id: ContentID(4), file: file, manifest: [ChunkReference(id: id, length: length)], size: Int64(size))
            }
            #expect(error?.code == .damaged)
        }
    }

    @Test func manyThreadsStoreAtOnce() async throws {
        let content = try content()
        await withTaskGroup(of: Void.self) { group in
            for start in 0..<4 {
                group.addTask {
                    for step in manifest.indices {
                        let index = (step + start * 3) % manifest.count
                        _ = try? content.store(index, chunk(index, of: content))
                    }
                }
            }
        }
        #expect(content.isComplete)
        #expect(content.presentBytes == Int64(bytes.count))
        #expect(try content.file.read(count: bytes.count, at: 0) == bytes)
    }
}
