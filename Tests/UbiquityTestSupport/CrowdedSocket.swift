internal import Glibc
internal import UbiquitySystem

/// A Unix socket with a full accept queue: the next connect(2) fails with EAGAIN.
package final class CrowdedSocket: Sendable {
    /// The socket is in a temporary folder, which is removed with this object.
    package let folder = "/tmp/ubiquity-crowd-\(SystemRandom().next())"
    private let listener: FileDescriptor
    private let crowd: Lock<[FileDescriptor]>

    /// Limit for the wait of `serve` for a client (milliseconds).
    private static let patience: Int32 = 20_000

    package init(named name: String) throws {
        try FileSystem.makeDirectories(folder)
        let address = Self.address(folder + "/" + name)
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

    /// After a while the queue empties. The next clients get no answer, until one sends a request. Blocks, so that the
    /// accept comes in time even if all tasks are busy.
    package func serve(after milliseconds: Int32 = 200) throws {
        _ = poll(nil, 0, milliseconds)
        crowd.withLock { $0 = [] }
        while true {
            guard try listener.waitUntilReadable(milliseconds: Self.patience) else { throw Errno.ETIMEDOUT }
            let number = accept(listener.rawValue, nil, nil)
            guard number >= 0 else { throw Errno(rawValue: errno) }
            let client = FileDescriptor(owning: number)
            var request = [UInt8](repeating: 0, count: 4096)
            guard recv(client.rawValue, &request, request.count, 0) > 0 else { continue }
            let answer = Array("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".utf8)
            _ = send(client.rawValue, answer, answer.count, Int32(MSG_NOSIGNAL))
            return
        }
    }

    private static func made(_ flags: UInt32 = 0) throws -> FileDescriptor {
        let number = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | flags), 0)
        guard number >= 0 else { throw Errno(rawValue: errno) }
        return FileDescriptor(owning: number)
    }

    private static func address(_ path: String) -> sockaddr_un {
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
