import Glibc
import Testing
import UbiquityContent
import UbiquityCore
import UbiquitySystem
import UbiquityTestSupport

/// A file system of 1 MiB, if this process may mount one. It is unmounted with the object.
private final class TinyDisk {
    let folder: TemporaryFolder

    init?() {
        guard geteuid() == 0, let folder = try? TemporaryFolder() else { return nil }
        guard mount("tmpfs", folder.path, "tmpfs", 0, "size=1m") == 0 else { return nil }
        self.folder = folder
    }

    deinit { umount2(folder.path, Int32(MNT_DETACH)) }

    static let isPossible = TinyDisk() != nil
}

@Suite struct FullDiskTests {
    private let bytes = Samples.bytes(3 << 20, seed: 30)

    private func fill(_ content: PartialContent) -> UbiquityError? {
        for index in content.manifest.indices {
            let range = content.layout.range(of: index)
            do {
                try content.store(index, bytes[Int(range.lowerBound)..<Int(range.upperBound)])
            } catch {
                return error
            }
        }
        return nil
    }

    /// With a negative reserve the disk itself reports that it is full; with a positive one, the check before it does.
    @Test(.enabled(if: TinyDisk.isPossible, "needs the right to mount"), arguments: [Int64.min / 2, 200_000])
    func fullDiskKeepsPresentChunks(_ reserve: Int64) throws {
        let disk = try #require(TinyDisk())
        let path = disk.folder("file")
        let file = try FileDescriptor.open(path, [.readWrite, .create])
        let manifest = Chunker.manifest(of: bytes)
        let content = try PartialContent(
            id: ContentID(1), file: file, manifest: manifest, size: Int64(bytes.count), reserve: reserve)
        let error = try #require(fill(content))
        #expect(error.code == .noSpace)
        let here = manifest.count - content.missing(from: 0).count
        #expect(here > 0)
        #expect(content.missing(from: 0) == Array(here..<manifest.count))
        let resumed = try PartialContent(
            id: ContentID(1), file: file, manifest: manifest, size: Int64(bytes.count), reserve: reserve)
        try resumed.verifyExisting()
        #expect(resumed.missing(from: 0) == content.missing(from: 0))
        if reserve > 0 { #expect(try FileSystem.fileSystemStatus(disk.folder.path).availableBytes >= reserve) }
    }

    @Test func reserveStaysFree() throws {
        let folder = try TemporaryFolder()
        let file = try FileDescriptor.open(folder("file"), [.readWrite, .create])
        let content = try PartialContent(
            id: ContentID(1), file: file, manifest: Chunker.manifest(of: bytes), size: Int64(bytes.count),
            reserve: .max / 2)
        #expect(fill(content)?.code == .noSpace)
        #expect(content.presentBytes == 0)
        #expect(try file.status().blocks == 0)
    }
}
