import Testing
import UbiquitySystem
import UbiquityTestSupport

/// Finding the writers of a file.
@Suite struct WriterTests {
    let folder: TemporaryFolder
    init() throws { folder = try TemporaryFolder() }

    @Test func writersAreDistinguishedFromReaders() throws {
        let writer = try FileDescriptor.open(folder("file"), [.readWrite, .create])
        let reader = try writer.reopenedForReading()
        #expect(try reader.hasWriters())
        try writer.write([1], at: 0)
        try writer.startWriteback()
        withExtendedLifetime(writer) {}
        #expect(try !soleReader().hasWriters())
    }

    /// A reader of a file without writers; another reader exists.
    private func soleReader() throws -> FileDescriptor {
        let name = folder("other")
        _ = try FileDescriptor.open(name, [.readWrite, .create])
        _ = try FileDescriptor.open(name, .readOnly)
        return try FileDescriptor.open(name, .readOnly)
    }

    @Test func unnamedFileCanBeReopened() throws {
        let writer = try FileDescriptor.open(folder("gone"), [.readWrite, .create])
        try writer.write([1, 2], at: 0)
        try FileSystem.unlink(folder("gone"))
        #expect(try writer.reopenedForReading().read(count: 5, at: 0) == [1, 2])
    }
}
