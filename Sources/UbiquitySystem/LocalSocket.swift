import Glibc
import UbiquityCore

/// Unix sockets, for uses that need no HTTP client.
package enum LocalSocket {
    /// Pause before the next attempt while the accept queue is full (milliseconds).
    private static let pause: Int32 = 50

    /// Returns whether a living process listens at the path, even if it is busy or stopped. It connects and
    /// disconnects.
    package static func isListening(_ path: String) -> Bool {
        do throws(Errno) {
            _ = try connected(path)
            return true
        } catch { return error == .EAGAIN }
    }

    /// Returns the process that listens at the path; nil if there is none, or it accepts no connection now.
    package static func listener(_ path: String) -> SocketPeer? {
        guard let connection = try? connected(path) else { return nil }
        return try? SocketPeer(of: connection)
    }

    /// Returns whether an HTTP server of this user at the path answers within the time. Nothing is sent to another
    /// user's process. Blocks.
    package static func answers(_ path: String, within milliseconds: Int32) -> Bool {
        var left = milliseconds
        while true {
            do throws(Errno) {
                let connection = try connected(path)
                guard try SocketPeer(of: connection).isOwnUser else { return false }
                try connection.send(Array("OPTIONS / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".utf8))
                return try connection.waitUntilReadable(milliseconds: max(0, left))
            } catch {
                // The accept queue is full.
                guard error == .EAGAIN, left > 0 else { return false }
                _ = poll(nil, 0, pause)
                left -= pause
            }
        }
    }

    /// Throws `EAGAIN` if a process listens but its accept queue is full.
    private static func connected(_ path: String) throws(Errno) -> FileDescriptor {
        guard let address = try? SocketAddressPath(path) else { throw .ENOENT }
        let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
        let connection = FileDescriptor(owning: try check(socket(AF_UNIX, kind, 0)))
        var name = sockaddr_un()
        name.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(address.usable.utf8)
        withUnsafeMutableBytes(of: &name.sun_path) { room in
            for (position, byte) in bytes.enumerated() where position < room.count - 1 { room[position] = byte }
        }
        let length = socklen_t(MemoryLayout<sockaddr_un>.size)
        _ = try withUnsafePointer(to: &name) { name throws(Errno) in
            try name.withMemoryRebound(to: sockaddr.self, capacity: 1) { name throws(Errno) in
                try check(connect(connection.rawValue, name, length))
            }
        }
        return connection
    }
}

extension FileDescriptor {
    /// Sends a short message, all of it or nothing. If the peer is gone it throws `EPIPE`, without a signal.
    fileprivate func send(_ message: [UInt8]) throws(Errno) {
        _ = try retrying { Glibc.send(rawValue, message, message.count, Int32(MSG_NOSIGNAL)) }
    }
}
