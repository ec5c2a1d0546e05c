import Testing
import UbiquityContent
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityVFS

/// Descriptors that the process needs for open files.
@Suite struct DescriptorTests {
    /// Keeps no descriptor, like a kernel that keeps none of this process.
    private final class NumbersOnly: Passthrough {
        private let next = Lock<Int32>(1)
        let timesTellAll = true
        var isActive: Bool { true }

        func register(_ file: FileDescriptor) -> BackingID? {
            next.withLock { next in
                defer { next += 1 }
                return BackingID(rawValue: next)
            }
        }

        func unregister(_ id: BackingID) {}
    }

    /// Descriptors of this process for the backing file of the inode.
    private func descriptors(of ino: UInt64, in container: TestContainer) throws -> Int {
        let content = try #require(try container.index.row(ino: ino)?.content)
        let path = Array(container.contents.path(of: content).utf8)
        return try FileSystem.entries(of: "/proc/self/fd").count { entry in
            (try? FileSystem.readLink("/proc/self/fd/\(entry.text)")) == path
        }
    }

    @Test(arguments: [OpenFlags(), .writeOnly, .readWrite], [true, false])
    func openFileHasOneDescriptorWhileManyAreOpen(flags: OpenFlags, hasPassthrough: Bool) async throws {
        let container = try TestContainer(
            passthrough: hasPassthrough ? NumbersOnly() : NoPassthrough(), filesWithTwoDescriptors: 0)
        let ino = try container.create("a", "text")
        let reader = try await container.open(ino)
        container.fs.release(reader)
        let handle = try await container.open(ino, flags)
        #expect(try descriptors(of: ino, in: container) == 1)
        if flags.writes { try container.write("next", to: handle) }
        container.fs.release(handle)
        #expect(try await container.content(of: ino) == (flags.writes ? "next" : "text"))
        #expect(container.raw.violation(whileIdle: true) == nil)
    }

    @Test func newFileHasOneDescriptorWhileManyAreOpen() async throws {
        let container = try TestContainer(passthrough: NumbersOnly(), filesWithTwoDescriptors: 0)
        let made = try container.fs.create(
            parent: TestContainer.root, name: Array("a".utf8), mode: 0o644, flags: [.readWrite, .create],
            caller: container.caller).immediate
        #expect(try descriptors(of: made.attributes.ino, in: container) == 1)
        container.fs.release(made.opened.handle)
    }
}
