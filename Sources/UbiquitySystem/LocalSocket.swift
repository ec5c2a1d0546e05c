import Glibc
import UbiquityCore

/// Unix sockets, as far as no HTTP is spoken over them.
package enum LocalSocket {
    /// Whether a living process listens at the path. It is connected to and left again.
    package static func isListening(_ path: String) -> Bool {
        guard let address = try? SocketAddressPath(path) else { return false }
        let number = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard number >= 0 else { return false }
        let descriptor = FileDescriptor(owning: number)
        var name = sockaddr_un()
        name.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(address.usable.utf8)
        withUnsafeMutableBytes(of: &name.sun_path) { room in
            for (position, byte) in bytes.enumerated() where position < room.count - 1 { room[position] = byte }
        }
        return withUnsafePointer(to: &name) { name in
            name.withMemoryRebound(to: sockaddr.self, capacity: 1) { name in
                connect(descriptor.rawValue, name, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
            }
        }
    }
}
