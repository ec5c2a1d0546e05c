import UbiquityCore
import UbiquitySystem

/// Whether only this user and root can change a file or a folder, as ssh checks its keys.
///
/// The file and every folder above it belong to this user or root, and neither their group nor others may write to
/// them. A folder above may be writable for everybody if it is sticky, as /tmp: nobody can replace what others have in
/// it.
enum TrustedPath {
    private static let writableByOthers: UInt32 = 0o022
    private static let sticky: UInt32 = 0o1000

    /// Throws `.notPermitted`, and says which folder is to be changed and how. A path that does not exist yet is
    /// checked as far as it does.
    /// - Parameter purpose: Names the path in the message, for example "the state folder".
    static func require(_ path: String, as purpose: String) throws(UbiquityError) {
        let full = try AbsolutePath.resolved(path)
        guard let root = try status(of: "/") else { return }
        // In a user namespace the root folder may belong to an owner that has no number there.
        let owners = [0, ProcessHost.userID, root.user]
        var place = full
        while true {
            if let status = try status(of: place) {
                try require(status, at: place, isItself: place == full, owners, purpose: purpose)
            }
            guard place != "/" else { return }
            place = Path.parent(of: place)
        }
    }

    private static func status(of path: String) throws(UbiquityError) -> FileStatus? {
        try describing("check who may change it", at: path) { () throws(Errno) -> FileStatus? in
            do throws(Errno) { return try FileSystem.status(path) } catch .ENOENT { return nil }
        }
    }

    private static func require(
        _ status: FileStatus, at path: String, isItself: Bool, _ owners: [UInt32], purpose: String
    ) throws(UbiquityError) {
        guard owners.contains(status.user) else {
            throw UbiquityError(
                .notPermitted, "\(purpose) is not used: user \(status.user) owns it or a folder above it", at: path,
                remedy: "change its owner with 'chown', or use a path that this user or root owns")
        }
        let isSafe = status.permissions & writableByOthers == 0
            || status.isDirectory && !isItself && status.permissions & sticky != 0
        guard isSafe else {
            throw UbiquityError(
                .notPermitted, "\(purpose) is not used: other users may write to it or to a folder above it", at: path,
                remedy: "run: chmod go-w \(path)")
        }
    }
}
