import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// Whether a container's state folder and socket belong to the user of this process. Commands send nothing to others:
/// a foreign process could pose as a daemon, or get paths and tokens.
enum DaemonOwner {
    private static let writableByOthers: UInt32 = 0o022

    /// Why the daemon of a state folder is not asked; nil if it may be. Nothing is sent to find out.
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
            // Without a folder or a socket there is no daemon; connecting says so.
            return error == .EACCES ? foreign("it", nil) : nil
        }
    }

    /// The refusal for a daemon that runs as another user.
    static func refusal(of peer: SocketPeer) -> String? { peer.isOwnUser ? nil : foreign("its daemon", peer.user) }

    private static func foreign(_ subject: String, _ user: UInt32?) -> String {
        guard let user else { return "it is another user's; this command runs as \(UserName.own)" }
        return "\(subject) is another user's, \(UserName.text(user)); this command runs as \(UserName.own)"
    }
}

/// A connection to a socket of another user was refused before anything was sent.
struct ForeignDaemon: Error {
    var reason: String
}
