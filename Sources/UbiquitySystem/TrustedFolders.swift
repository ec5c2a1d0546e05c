import UbiquityCore

/// Whether only this user and root can change what a path leads to, as ssh checks its keys.
///
/// A folder is trusted if it belongs to this user or root, and neither its group nor others may write to it. A folder
/// above may be writable for everybody if it is sticky, as /tmp: nobody can replace what others have in it.
package struct TrustedFolders: Sendable {
    private static let writableByOthers: UInt32 = 0o022
    private static let sticky: UInt32 = 0o1000

    /// Why a path is not trusted.
    package enum Doubt: Hashable, Sendable {
        case owner(UInt32)
        case writableByOthers
    }

    private let owners: [UInt32]

    package init() throws(Errno) {
        // In a user namespace the root folder may belong to an owner that has no number there.
        owners = [0, ProcessHost.userID, try FileSystem.status("/").user]
    }

    /// Nil if nobody else can change the file or folder itself.
    /// - Parameter isAbove: whether it is a folder above the one that counts.
    package func doubt(about status: FileStatus, isAbove: Bool) -> Doubt? {
        if let doubt = doubt(aboutOwnerOf: status) { return doubt }
        let isSafe = status.permissions & Self.writableByOthers == 0
            || status.isDirectory && isAbove && status.permissions & Self.sticky != 0
        return isSafe ? nil : .writableByOthers
    }

    package func doubt(aboutOwnerOf status: FileStatus) -> Doubt? {
        owners.contains(status.user) ? nil : .owner(status.user)
    }

    /// The first folder above that others can change, from the innermost outwards.
    ///
    /// If there is none, nobody else can exchange any part of the path, now or later.
    /// - Parameter path: absolute, without symlinks. Folders that do not exist are passed over.
    package func doubt(aboveFolder path: String) throws(Errno) -> (folder: String, doubt: Doubt)? {
        var place = path
        while place != "/" {
            place = Path.parent(of: place)
            do throws(Errno) {
                if let doubt = doubt(about: try FileSystem.status(place), isAbove: true) { return (place, doubt) }
            } catch .ENOENT { continue }
        }
        return nil
    }
}
