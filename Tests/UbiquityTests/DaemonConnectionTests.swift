import Glibc
import Testing
@testable import Ubiquity
import UbiquityControl
@testable import UbiquitySystem

/// A daemon's socket with as many who wait to be taken up as it has room for.
private final class CrowdedSocket: Sendable {
    let folder = "/tmp/ubiquity-crowd-\(SystemRandom().next())"
    private let listener: FileDescriptor
    private let crowd: Lock<[FileDescriptor]>

    init() throws {
        try FileSystem.makeDirectories(folder)
        let address = try Self.address(folder + "/" + ControlRoute.socketName)
        let listener = try Self.made()
        guard Self.call(address, { bind(listener.rawValue, $0, $1) }) == 0, listen(listener.rawValue, 0) == 0 else {
            throw Errno(rawValue: errno)
        }
        var waiting = [FileDescriptor]()
        while true {
            let client = try Self.made(SOCK_NONBLOCK.rawValue)
            guard Self.call(address, { connect(client.rawValue, $0, $1) }) == 0 else { break }
            waiting.append(client)
        }
        guard errno == EAGAIN else { throw Errno(rawValue: errno) }
        self.listener = listener
        crowd = Lock(waiting)
    }

    deinit { try? FileSystem.removeTree(folder) }

    /// The crowd leaves, and who comes now is answered, until one has asked for something.
    func serve() throws {
        crowd.withLock { $0 = [] }
        while true {
            guard try listener.waitUntilReadable(milliseconds: 20_000) else { throw Errno.ETIMEDOUT }
            let client = FileDescriptor(owning: try check(accept(listener.rawValue, nil, nil)))
            var request = [UInt8](repeating: 0, count: 4096)
            guard recv(client.rawValue, &request, request.count, 0) > 0 else { continue }
            let answer = Array("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".utf8)
            _ = send(client.rawValue, answer, answer.count, Int32(MSG_NOSIGNAL))
            return
        }
    }

    private static func made(_ flags: UInt32 = 0) throws -> FileDescriptor {
        FileDescriptor(owning: try check(socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | flags), 0)))
    }

    private static func address(_ path: String) throws -> sockaddr_un {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { room in
            for (place, byte) in path.utf8.enumerated() where place < room.count - 1 { room[place] = byte }
        }
        return address
    }

    private static func call(
        _ address: sockaddr_un, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32
    ) -> Int32 {
        withUnsafePointer(to: address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
    }
}

@Suite struct DaemonConnectionTests {
    /// Where more ask at once than a socket lets wait, connect(2) fails with EAGAIN: the daemon is there and busy.
    @Test func whoComesToAFullQueueWaitsForItsTurn() async throws {
        let socket = try CrowdedSocket()
        let connection = try DaemonConnection(stateFolder: socket.folder)
        let asked = Task { try await connection.requireAnswer() }
        // It has been turned away by then, or comes later: both are well.
        try await Task.sleep(for: .milliseconds(200))
        async let served: Void = BlockingPool(name: "crowd", threads: 1).run { try socket.serve() }
        let outcome = await asked.result
        await connection.close()
        try outcome.get()
        try await served
    }

    @Test func whoNeverGetsThereIsToldThatItDoesNotAnswer() async throws {
        let socket = try CrowdedSocket()
        let connection = try DaemonConnection(stateFolder: socket.folder)
        let failure = await #expect(throws: MountUnreachable.self) { try await connection.requireAnswer() }
        #expect(failure?.description.contains("does not answer, though it runs") == true)
        await connection.close()
    }
}
