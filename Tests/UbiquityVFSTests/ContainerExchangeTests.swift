import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
@testable import UbiquityVFS

/// CI-12, CI-13: a mount serves another container, as the account changes.
@Suite struct ContainerExchangeTests {
    @Test func numbersOfTwoContainersNeverMeet() {
        let first = NodeNumbers.first, second = first.next
        for ino: UInt64 in [2, 1000, VersionNodes.firstNumber + 7, Replays.wingsInode] {
            #expect(first.number(ino) == ino && second.number(ino) != ino)
            #expect(second.ino(second.number(ino)) == ino)
            #expect(first.ino(second.number(ino)) == nil && second.ino(first.number(ino)) == nil)
            let (generation, inside) = NodeNumbers.split(second.number(ino))
            #expect(generation == second.generation && inside == ino)
        }
        #expect(second.number(1) == 1 && second.ino(1) == 1 && second.number(0) == 0)
    }

    @Test("CI-13: files that were open keep what programs read")
    func openFilesStayReadable() async throws {
        let container = try TestContainer()
        let ino = try container.create("f", "text")
        let placeholder = try container.cloud.add("p", Array("remote".utf8))
        let reading = try await container.open(ino), writing = try await container.open(ino, [.readWrite])
        try container.write("more", to: writing, at: 4)
        let missing = try await container.open(UInt64(placeholder.ino))
        let files = container.fs.exchange.departedFiles()
        container.fs.releaseAll()
        #expect(container.raw.openHandleCount == 0 && container.raw.violation(whileIdle: true) == nil)
        #expect(try container.index.row(ino: ino)?.size == 8)
        let data = try files.read(reading, offset: 4, length: 100)
        #expect(data.offset == 4 && data.length == 100)
        #expect(try files.attributes(of: ino).size == 8)
        #expect(throws: Errno.ESTALE) { try files.read(missing, offset: 0, length: 1) }
        #expect(throws: Errno.ESTALE) { try files.attributes(of: 1 << 20) }
        for handle in [reading, writing, missing] { files.release(handle) }
        #expect(files.isEmpty)
        #expect(throws: Errno.ESTALE) { try files.read(reading, offset: 0, length: 1) }
    }

    @Test("CI-12: everything that the kernel knows of the old container is invalidated")
    func kernelForgetsTheOldContainer() throws {
        let container = try TestContainer()
        let folder = try container.makeDirectory("d")
        let file = try container.create("f", in: folder, "text")
        #expect(try container.lookup("absent") == nil)
        _ = container.kernel.take()
        container.fs.exchange.invalidate()
        let news = Set(container.kernel.take())
        let expected: [RecordingKernelCache.News] = [
            .entry(1, "d"), .entry(folder, "f"), .attributes(file), .listing(folder), .listing(1),
        ]
        #expect(news.isSuperset(of: expected), "\(news)")
    }

    @Test("CI-13: an empty container of nobody takes no items")
    func vacantContainerIsReadOnly() throws {
        let container = try TestContainer(vacancy: "signed out")
        #expect(throws: Errno.EROFS) { try container.create("f") }
        #expect(throws: Errno.EROFS) { try container.makeDirectory("d") }
        let name = Array("user.ubiquity.container".utf8)
        #expect(try container.fs.xattr(of: 1, name: name) == Array("test (signed out)".utf8))
    }
}
