import Glibc

/// The service manager that started this process. Messages to it are datagrams, as sd_notify(3) describes.
package struct ServiceManager: Sendable {
    /// A line of a message.
    package enum Message: Hashable, Sendable {
        /// The service is usable.
        case ready
        /// A sentence for `systemctl status`.
        case status(String)
        /// The service ends.
        case stopping
        /// The service works. Without this message the manager restarts it.
        case watchdog

        /// One line: a line feed in a status would begin another message.
        var line: String {
            switch self {
            case .ready: "READY=1"
            case .status(let text): "STATUS=" + text.split(whereSeparator: \.isNewline).joined(separator: " ")
            case .stopping: "STOPPING=1"
            case .watchdog: "WATCHDOG=1"
            }
        }
    }

    /// The address in `NOTIFY_SOCKET`: a path, or "@" and an abstract name.
    private let address: String
    /// Whether the manager expects watchdog messages from this process.
    package let watches: Bool

    /// Returns nil if no service manager started this process.
    /// - Parameter variable: an environment variable; nil if it is unset or empty.
    package init?(variable: (String) -> String? = ProcessHost.variable) {
        guard let address = variable("NOTIFY_SOCKET"), address.first == "/" || address.first == "@" else { return nil }
        self.address = address
        let isOther = variable("WATCHDOG_PID").map { $0 != "\(ProcessHost.id)" } ?? false
        watches = variable("WATCHDOG_USEC") != nil && !isOther
    }

    /// Sends a message. A manager that cannot be reached gets none: the service works without it.
    package func send(_ messages: Message...) {
        // The service does not depend on its manager.
        try? sendOrFail(messages)
    }

    private func sendOrFail(_ messages: [Message]) throws(Errno) {
        let kind = Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
        let socket = FileDescriptor(owning: try check(Glibc.socket(AF_UNIX, kind, 0)))
        var name = sockaddr_un()
        name.sun_family = sa_family_t(AF_UNIX)
        var bytes = Array(address.utf8)
        let capacity = MemoryLayout.size(ofValue: name.sun_path)
        guard bytes.count < capacity else { throw .ENAMETOOLONG }
        if bytes[0] == UInt8(ascii: "@") { bytes[0] = 0 }
        withUnsafeMutableBytes(of: &name.sun_path) { $0.copyBytes(from: bytes) }
        let length = socklen_t(MemoryLayout<sockaddr_un>.size - capacity + bytes.count)
        let text = Array(messages.map(\.line).joined(separator: "\n").utf8)
        try withUnsafePointer(to: &name) { name throws(Errno) in
            try name.withMemoryRebound(to: sockaddr.self, capacity: 1) { name throws(Errno) in
                _ = try check(sendto(socket.rawValue, text, text.count, Int32(MSG_NOSIGNAL), name, length))
            }
        }
    }
}
