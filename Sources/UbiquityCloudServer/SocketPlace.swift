internal import UbiquityCore
internal import UbiquitySystem

/// Creates a Unix socket at its path: it is bound in a folder that only this user may enter, gets its mode there, and
/// is renamed into place. So no other user can connect before the mode is set, and a dead server's socket is replaced
/// atomically.
final class SocketPlace: Sendable {
    /// The socket's file, to distinguish this server's from a later server's at the same path.
    private struct Identity: Equatable {
        let device: UInt64
        let inode: UInt64
    }

    let path: String
    private let folder: String
    private let staged: SocketAddressPath
    private let identity = Lock<Identity?>(nil)

    /// - Throws: `.inUse` if a process listens at the path, `.alreadyExists` if another file is there.
    init(_ path: String, random: some RandomSource) throws {
        try Self.checkIsFree(path)
        let folder = "\(path).\(String(random.next(), radix: 36))"
        try describing("make the socket's folder", at: folder) { () throws(Errno) in
            try FileSystem.makeDirectory(folder, mode: 0o700)
        }
        self.path = path
        self.folder = folder
        staged = try SocketAddressPath(Path.join(folder, "s"))
    }

    /// The path to bind to. Valid while this object lives.
    var bindPath: String { staged.usable }

    /// Makes the bound socket visible.
    func publish() throws {
        let socket = Path.join(folder, "s")
        try describing("put the socket in place", at: path) { () throws(Errno) in
            try FileSystem.setPermissions(socket, 0o600)
            let status = try FileSystem.status(socket)
            identity.withLock { $0 = Identity(device: status.device, inode: status.inode) }
            try FileSystem.rename(socket, to: path)
        }
        removeFolder()
    }

    /// Removes the socket, if it is still this server's: from now on clients find no server and start another.
    func retire() {
        let ours = identity.withLock { identity -> Identity? in
            defer { identity = nil }
            return identity
        }
        // A file that cannot be removed is a dead socket, which the next server replaces.
        if let ours, let status = try? FileSystem.status(path),
            ours == Identity(device: status.device, inode: status.inode)
        {
            try? FileSystem.unlink(path)
        }
        removeFolder()
    }

    private func removeFolder() {
        // Nothing in it is needed any more, and its name is never used again.
        try? FileSystem.removeTree(folder)
    }

    private static func checkIsFree(_ path: String) throws {
        do {
            let status = try FileSystem.status(path)
            guard status.kind == .socket else {
                throw UbiquityError(
                    .alreadyExists, "cannot listen: the path exists and is not a socket", at: path,
                    remedy: "remove it or choose another path")
            }
        } catch let error as Errno where error == .ENOENT {
            return
        } catch let error as Errno {
            throw UbiquityError(error, doing: "listen", at: path)
        }
        guard !LocalSocket.isListening(path) else {
            throw UbiquityError(.inUse, "another server listens there", at: path, remedy: "end that server first")
        }
    }
}
