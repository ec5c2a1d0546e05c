import Glibc

/// The process at the other end of a Unix socket, recorded by the kernel when the connection or the listener was made
/// (SO_PEERCRED of unix(7)). The layout is that of `struct ucred`.
package struct SocketPeer: Hashable, Sendable {
    package var process: Int32
    package var user: UInt32
    package var group: UInt32

    /// SO_PEERCRED, as an option of SOL_SOCKET.
    package static let option: Int32 = 17

    package init(process: Int32, user: UInt32, group: UInt32) {
        self.process = process
        self.user = user
        self.group = group
    }

    /// Reads the peer of a connected socket.
    package init(of socket: FileDescriptor) throws(Errno) {
        var peer = SocketPeer(process: 0, user: 0, group: 0)
        var length = socklen_t(MemoryLayout<SocketPeer>.size)
        try withUnsafeMutablePointer(to: &peer) { peer throws(Errno) in
            _ = try check(getsockopt(socket.rawValue, SOL_SOCKET, Self.option, peer, &length))
        }
        self = peer
    }

    /// Whether the peer runs as the user of this process.
    package var isOwnUser: Bool { user == ProcessHost.userID }
}

/// Names of users in messages.
package enum UserName {
    /// Bytes for an entry of the user database.
    private static let bufferSize = 16_384

    /// Returns "eve (1001)"; "user 1001" for a user without a name.
    package static func text(_ user: UInt32) -> String {
        var entry = passwd(), found: UnsafeMutablePointer<passwd>?
        var buffer = [CChar](repeating: 0, count: bufferSize)
        let result = getpwuid_r(uid_t(user), &entry, &buffer, buffer.count, &found)
        guard result == 0, found != nil, let name = entry.pw_name else { return "user \(user)" }
        return "\(String(cString: name)) (\(user))"
    }

    /// The user of this process.
    package static var own: String { text(ProcessHost.userID) }
}
