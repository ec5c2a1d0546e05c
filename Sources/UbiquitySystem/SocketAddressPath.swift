import UbiquityCore

/// A Unix socket's path within the 107 bytes of its address, however long the real path is.
///
/// A longer path is replaced by one through an open descriptor of its directory: `/proc/self/fd/7/control.sock`. That
/// path is valid only in this process and while this object lives: keep it until bind or connect has returned.
package final class SocketAddressPath: Sendable {
    /// Bytes in `sockaddr_un.sun_path` less the zero at the end.
    package static let maximumLength = 107

    /// The path to bind or connect to. Remove a listener by its real path.
    package let usable: String
    private let directory: FileDescriptor?

    /// - Throws: `.notFound` if the directory of a long path is missing, `.nameTooLong` if the last name is too long.
    package init(_ path: String) throws(UbiquityError) {
        guard path.utf8.count > Self.maximumLength else {
            usable = path
            directory = nil
            return
        }
        let directory = try describing("open the socket's folder", at: path) { () throws(Errno) in
            try FileDescriptor.open(Path.parent(of: path), [.pathOnly, .directory])
        }
        let short = "/proc/self/fd/\(directory.rawValue)/\(Path.name(of: path))"
        guard short.utf8.count <= Self.maximumLength else {
            throw UbiquityError(.nameTooLong, "the name of a socket is too long", at: path)
        }
        usable = short
        self.directory = directory
    }
}
