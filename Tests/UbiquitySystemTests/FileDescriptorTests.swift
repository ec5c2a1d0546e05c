import Testing
import UbiquityCore
import UbiquitySystem
import UbiquityTestSupport

@Suite struct FileDescriptorTests {
    let folder: TemporaryFolder
    init() throws { folder = try TemporaryFolder() }

    private func newFile(_ name: String = "file") throws -> FileDescriptor {
        try FileDescriptor.open(folder(name), [.readWrite, .create, .exclusive])
    }

    @Test func readsWhatWasWrittenAtAnOffset() throws {
        let file = try newFile()
        try file.write([1, 2, 3], at: 10)
        #expect(try file.read(count: 20, at: 8) == [0, 0, 1, 2, 3])
        #expect(try file.read(count: 5, at: 100) == [])
        try file.write([9, 8, 7, 6][1...2], at: 0)
        #expect(try file.read(count: 3, at: 0) == [8, 7, 0])
    }

    @Test func sequentialReadsAndWritesMoveThePosition() throws {
        let file = try newFile()
        try file.write([1, 2])
        try file.write([3])
        let other = try FileDescriptor.open(folder("file"), .readOnly)
        #expect(try other.readSome(count: 2) == [1, 2])
        #expect(try other.readSome(count: 2) == [3])
        #expect(try other.readSome(count: 2) == [])
    }

    @Test func missingFileIsENOENT() throws {
        #expect(throws: Errno.ENOENT) { try FileDescriptor.open(folder("none"), .readOnly) }
        #expect(throws: Errno.EINVAL) { try FileDescriptor.open("a\0b", .readOnly) }
    }

    @Test func descriptorIsClosedWithItsObjectAndNotInherited() throws {
        var file: FileDescriptor? = try newFile()
        let number = try #require(file?.rawValue)
        let link = try FileSystem.readLink("/proc/self/fd/\(number)")
        #expect(String(decoding: link, as: UTF8.self) == folder("file"))
        let info = try #require(try SmallFile.read("/proc/self/fdinfo/\(number)", limit: 4096))
        let lines = String(decoding: info, as: UTF8.self).split(separator: "\n")
        let flags = try #require(lines.first { $0.hasPrefix("flags") })
        let value = try #require(flags.split(separator: "\t").last.flatMap { Int($0, radix: 8) })
        #expect(value & 0o2000000 != 0)
        file = nil
        let after = try? FileSystem.readLink("/proc/self/fd/\(number)")
        #expect(after != link)
    }

    @Test func statusTellsSizeTimesAndKind() throws {
        let file = try newFile()
        try file.write([UInt8](repeating: 7, count: 5000), at: 0)
        let accessed = Timestamp(seconds: 1_000, nanoseconds: 5)
        let modified = Timestamp(seconds: -77, nanoseconds: 123_456_789)
        try file.setTimes(accessed: accessed, modified: modified)
        try file.setPermissions(0o640)
        var status = try file.status()
        #expect(status.size == 5000)
        #expect(status.kind == .file)
        #expect(status.permissions == 0o640)
        #expect(status.accessedAt == accessed)
        #expect(status.modifiedAt == modified)
        #expect(status.links == 1)
        try file.setTimes(accessed: nil, modified: .zero)
        status = try FileSystem.status(folder("file"))
        #expect(status.accessedAt == accessed)
        #expect(status.modifiedAt == .zero)
        #expect(status.inode == (try file.status().inode))
        try file.truncate(to: 3)
        #expect(try file.status().size == 3)
    }

    @Test func holesAreFound() throws {
        let file = try newFile()
        try file.truncate(to: 1 << 20)
        #expect(try file.dataRanges(in: 0..<(1 << 20)).isEmpty)
        try file.write([UInt8](repeating: 1, count: 65_536), at: 131_072)
        #expect(try file.dataRanges(in: 0..<(1 << 20)) == [131_072..<196_608])
        #expect(try file.dataRanges(in: 150_000..<160_000) == [150_000..<160_000])
        #expect(try file.nextData(from: 1 << 21) == nil)
        try file.allocate([.keepSize, .punchHole], 131_072..<196_608)
        #expect(try file.dataRanges(in: 0..<(1 << 20)).isEmpty)
        #expect(try file.read(count: 4, at: 131_072) == [0, 0, 0, 0])
    }

    @Test func copiesARangeAndStopsAtTheEnd() throws {
        let source = try newFile("source")
        let bytes = (0..<100_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        try source.write(bytes, at: 0)
        let target = try newFile("target")
        #expect(try target.copy(from: source, at: 10, to: 5, count: 50_000) == 50_000)
        #expect(try target.read(count: 50_000, at: 5) == Array(bytes[10..<50_010]))
        #expect(try target.copy(from: source, at: 99_990, to: 0, count: 1000) == 10)
    }

    @Test func copiesWhereTheKernelDoesNot() throws {
        // Between two file systems copy_file_range fails with EXDEV.
        let source = try newFile("source")
        try source.write([1, 2, 3], at: 0)
        let shared = try FileDescriptor.open("/dev/shm", [.readWrite, .temporary])
        #expect(try shared.copy(from: source, at: 0, to: 0, count: 3) == 3)
        #expect(try shared.read(count: 3, at: 0) == [1, 2, 3])
    }

    @Test func locksExcludeOtherOpens() throws {
        let first = try newFile()
        let second = try FileDescriptor.open(folder("file"), .readWrite)
        #expect(try first.tryLock(.exclusive))
        #expect(try !second.tryLock(.shared))
        try first.unlock()
        #expect(try second.tryLock(.shared))
        #expect(try first.tryLock(.shared))
        #expect(try !first.tryLock(.exclusive))
    }

    @Test func extendedAttributesAreReadAndWritten() throws {
        let file = try newFile()
        #expect(try file.xattr("user.none") == nil)
        try file.setXattr("user.note", [1, 0, 2])
        try file.setXattr("user.empty", [])
        #expect(try file.xattr("user.note") == [1, 0, 2])
        #expect(try FileSystem.xattr(folder("file"), "user.empty") == [])
        #expect(Set(try file.xattrNames().map { String(decoding: $0, as: UTF8.self) }) == ["user.note", "user.empty"])
        #expect(throws: Errno.EEXIST) { try file.setXattr("user.note", [], .create) }
        #expect(throws: Errno.ENODATA) { try file.setXattr("user.other", [], .replace) }
        try file.removeXattr("user.note")
        #expect(throws: Errno.ENODATA) { try FileSystem.removeXattr(folder("file"), "user.note") }
        #expect(try FileSystem.xattrNames(folder("file")) == [Array("user.empty".utf8)])
    }

    @Test func birthTimeIsNotAfterNow() throws {
        if let created = try newFile().createdAt() { #expect(created <= SystemTimekeeper().now()) }
    }
}
