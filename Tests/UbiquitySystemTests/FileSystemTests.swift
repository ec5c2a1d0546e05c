import Testing
import UbiquityCore
import UbiquitySystem
import UbiquityTestSupport

@Suite struct FileSystemTests {
    let folder: TemporaryFolder
    init() throws { folder = try TemporaryFolder() }

    private func touch(_ name: String, _ bytes: [UInt8] = []) throws {
        try FileDescriptor.open(folder(name), [.writeOnly, .create, .exclusive]).write(bytes)
    }

    @Test func makesDirectoriesAndRemovesTrees() throws {
        try FileSystem.makeDirectories(folder("a/b/c"))
        try FileSystem.makeDirectories(folder("a/b/c/"))
        try touch("a/b/file")
        try FileSystem.symlink("/tmp", at: folder("a/link"))
        #expect(throws: Errno.ENOTDIR) { try FileSystem.makeDirectories(folder("a/b/file/x")) }
        #expect(throws: Errno.ENOTDIR) { try FileSystem.makeDirectories(folder("a/b/file")) }
        try FileSystem.removeTree(folder("a"))
        #expect(try !FileSystem.exists(folder("a")))
        #expect(try FileSystem.exists("/tmp"))
        try FileSystem.removeTree(folder("a"))
    }

    @Test func listsNamesThatAreNotUTF8() throws {
        let odd: [UInt8] = [0x66, 0xFF, 0x0A]
        _ = try FileDescriptor.open(Path.join(Array(folder.path.utf8), odd), [.writeOnly, .create])
        try FileSystem.makeDirectory(folder("dir"))
        let entries = try FileSystem.entries(of: folder.path)
        #expect(Set(entries.map(\.name)) == [odd, Array("dir".utf8)])
        #expect(entries.first { $0.text == "dir" }?.kind == .directory)
        #expect(throws: Errno.ENOENT) { try FileSystem.entries(of: folder("none")) }
    }

    @Test func renameModesBehaveAsTheKernels() throws {
        try touch("a", [1])
        try touch("b", [2])
        #expect(throws: Errno.EEXIST) { try FileSystem.rename(folder("a"), to: folder("b"), .noReplace) }
        try FileSystem.rename(folder("a"), to: folder("b"), .exchange)
        #expect(try SmallFile.read(folder("a"), limit: 10) == [2])
        try FileSystem.rename(folder("a"), to: folder("b"))
        #expect(try SmallFile.read(folder("b"), limit: 10) == [2])
        #expect(try SmallFile.read(folder("a"), limit: 10) == nil)
    }

    @Test func linksAndTimes() throws {
        try touch("a")
        try FileSystem.link(folder("a"), as: folder("b"))
        try FileSystem.symlink([0xFE, 0x2F], at: folder("link"))
        #expect(try FileSystem.readLink(folder("link")) == [0xFE, 0x2F])
        #expect(try FileSystem.status(folder("b")).links == 2)
        #expect(try FileSystem.status(folder("link")).isSymlink)
        let time = Timestamp(seconds: 5, nanoseconds: 6)
        try FileSystem.setTimes(folder("link"), accessed: nil, modified: time)
        #expect(try FileSystem.status(folder("link")).modifiedAt == time)
        try FileSystem.makeNode(folder("fifo"), mode: 0o010600, device: 0)
        #expect(try FileSystem.status(folder("fifo")).kind == .fifo)
        #expect(try FileSystem.realPath(folder("./b")) == FileSystem.realPath(folder.path) + "/b")
        #expect(try FileSystem.fileSystemStatus(folder.path).totalBytes > 0)
    }

    @Test func freeSpaceIsLimitedByDiskAndQuota() throws {
        let disk = try FileSystem.fileSystemStatus(folder.path)
        let block = disk.blockSize
        try #require(disk.availableBlocks >= 3)
        func room(_ quota: Int64, _ used: Int64) -> [Int64] {
            let status = disk.within(quota: quota, used: used)
            #expect((status.blockSize, status.files, status.freeFiles) == (block, disk.files, disk.freeFiles))
            return [status.blocks, status.freeBlocks, status.availableBlocks]
        }
        #expect(room(10 * block, 7 * block) == [10, 3, 3])
        #expect(room(10 * block - 1, 7 * block) == [9, 2, 2])
        #expect(room(3 * block, 7 * block) == [7, 0, 0])
        #expect(room(0, 0) == [0, 0, 0])
        #expect(room(.max, 7 * block) == [disk.freeBlocks + 7, disk.freeBlocks, disk.availableBlocks])
    }

    @Test(arguments: [
        ("/a/b", "/a", "b"), ("/a", "/", "a"), ("a", ".", "a"), ("/a/b//", "/a", "b"), ("/", "/", "/"),
        ("a//b", "a", "b"),
    ])
    func pathsAreSplit(_ path: String, _ parent: String, _ name: String) {
        #expect(Path.parent(of: path) == parent)
        #expect(Path.name(of: path) == name)
    }

    @Test func pathsKeepTheirBytes() {
        // Two spellings of one text are two files.
        #expect(Array(Path.join("/cafe\u{301}", "x").utf8) == Array("/cafe\u{301}/x".utf8))
        #expect(Path.join("/", "x") == "/x")
    }

    @Test func errnoHasATextAndACode() {
        #expect(Errno.ENOENT.description == "No such file or directory")
        let error = UbiquityError(Errno.ENOSPC, doing: "write", at: "/x")
        #expect(error.code == .noSpace)
        #expect(error.message == "cannot write: No space left on device")
        #expect(UbiquityError(Errno.EDQUOT, doing: "write").code == .noSpace)
        #expect(Errno(rawValue: 99_999).code == .io)
        #expect(throws: UbiquityError(.notFound, "cannot look: No such file or directory", at: "there")) {
            try describing("look", at: "there") { () throws(Errno) in throw .ENOENT }
        }
    }
}
