import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityVFS

/// O_NONBLOCK and O_NOATIME on regular files without local content.
@Suite struct NonBlockingTests {
    private let text = Array(String(repeating: "abcde", count: 1000).utf8)

    private func open(_ container: TestContainer, _ ino: UInt64, _ flags: OpenFlags) throws -> OpenedFile {
        guard case .now(let opened) = try container.fs.open(ino, flags: flags, caller: container.caller) else {
            throw Errno.EIO
        }
        return opened
    }

    @Test("O_NONBLOCK: the open returns at once and the read waits for its bytes")
    func nonBlockingReadWaits() async throws {
        let container = try TestContainer()
        container.cloud.allow(0)
        let row = try container.cloud.add("a", text)
        let opened = try open(container, row.ino, .nonBlocking)
        #expect(!opened.bypassesPages, "a direct handle cannot be mapped")
        guard case .later(let work) = try container.fs.read(opened.handle, offset: 0, length: 5) else {
            throw Errno.EIO
        }
        container.cloud.allow(.max)
        #expect(try await work().length == 5)
        container.fs.release(opened.handle)
        #expect(try await eventually { container.cloud.interests == 0 })
    }

    @Test("O_NONBLOCK: a read that cannot be served reports the reason")
    func nonBlockingReadOfflineFails() async throws {
        let container = try TestContainer()
        let row = try container.cloud.add("a", text)
        container.cloud.fail(UbiquityError(.offline, "for a reason"))
        let opened = try open(container, row.ino, .nonBlocking)
        #expect(await errno { _ = try await container.read(opened.handle) } == .ENETUNREACH)
        container.fs.release(opened.handle)
        #expect(container.raw.violation(whileIdle: true) == nil)
    }

    private static let noAccessTime = OpenFlags(rawValue: 0o1000000)

    /// File managers open a file like this to read its first bytes, if its name does not give its type.
    @Test func noAccessTimeOpenOfPlaceholderIsRefused() async throws {
        let container = try TestContainer()
        let row = try container.cloud.add("a", text)
        #expect(errno { _ = try open(container, row.ino, Self.noAccessTime) } == .EDEADLK)
        #expect(errno { _ = try open(container, row.ino, [Self.noAccessTime, .nonBlocking]) } == .EDEADLK)
        #expect(container.cloud.begins == 0)
        // An empty file, a write and a local file need no download, or want it.
        let empty = try container.cloud.add("e", [])
        let writer = try await container.fs.open(
            row.ino, flags: [Self.noAccessTime, .readWrite], caller: container.caller
        ).value
        container.fs.release(writer.handle)
        for ino in [row.ino, empty.ino] {
            let opened = try await container.fs.open(ino, flags: Self.noAccessTime, caller: container.caller).value
            container.fs.release(opened.handle)
        }
        #expect(container.raw.violation(whileIdle: true) == nil)
    }
}
