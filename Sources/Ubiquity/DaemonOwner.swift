import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// Checks that a container's state folder and socket belong to this process's user. Commands send nothing to other
/// users' sockets: a foreign process could pose as a daemon and collect paths and tokens.
enum DaemonOwner {
    private static let writableByOthers: UInt32 = 0o022

    /// Returns why the daemon of a state folder must not be asked; nil if it may be. Nothing is sent.
    static func refusal(stateFolder: String) -> String? {
        do throws(Errno) {
            let folder = try FileSystem.statusFollowing(stateFolder)
            guard folder.user == ProcessHost.userID else { return Self.foreign("its state folder", folder.user) }
            guard folder.permissions & writableByOthers == 0 else {
                return "other users may write to its state folder; run: chmod go-w \(stateFolder)"
            }
            let socket = try FileSystem.status(stateFolder + "/" + ControlRoute.socketName)
            return socket.user == ProcessHost.userID ? nil : foreign("its socket", socket.user)
        } catch {
            // Without a folder or a socket there is no daemon; the connection attempt reports that.
            return error == .EACCES ? foreign("it", nil) : nil
        }
    }

    /// Returns the refusal for a daemon that runs as another user.
    static func refusal(of peer: SocketPeer) -> String? { peer.isOwnUser ? nil : foreign("its daemon", peer.user) }

    private static func foreign(_ subject: String, _ user: UInt32?) -> String {
        guard let user else { return "it belongs to another user; this command runs as \(UserName.own)" }
        return "\(subject) belongs to another user, \(UserName.text(user)); this command runs as \(UserName.own)"
    }
}

/// The socket belongs to another user, so nothing was sent.
struct ForeignDaemon: Error {
    var reason: String
}
