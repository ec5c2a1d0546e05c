import UbiquityCore

/// Checks that only this user and root can change the target of a path, as ssh checks its keys.
///
/// A folder is trusted if it belongs to this user or root, and neither its group nor others may write to it. A folder
/// above may be writable for everybody if it is sticky, as /tmp is: nobody can replace other users' items there.
package struct TrustedFolders: Sendable {
    private static let writableByOthers: UInt32 = 0o022
    private static let sticky: UInt32 = 0o1000

    /// The reason why a path is not trusted.
    package enum Doubt: Hashable, Sendable {
        case owner(UInt32)
        case writableByOthers
    }

    private let owners: [UInt32]

    package init() throws(Errno) {
        // In a user namespace the root folder may belong to an owner without a number there.
        owners = [0, ProcessHost.userID, try FileSystem.status("/").user]
    }

    /// Returns why others can change the file or folder itself; nil if they cannot.
    ///
    /// - Parameter isAbove: Whether it is a folder above the one that counts.
    package func doubt(about status: FileStatus, isAbove: Bool) -> Doubt? {
        if let doubt = doubt(aboutOwnerOf: status) { return doubt }
        let isSafe = status.permissions & Self.writableByOthers == 0
            || status.isDirectory && isAbove && status.permissions & Self.sticky != 0
        return isSafe ? nil : .writableByOthers
    }

    package func doubt(aboutOwnerOf status: FileStatus) -> Doubt? {
        owners.contains(status.user) ? nil : .owner(status.user)
    }

    /// Returns the innermost folder above the path that others can change.
    ///
    /// If there is none, nobody else can replace any part of the path, now or later.
    ///
    /// - Parameter path: An absolute path without symlinks. Missing folders are skipped.
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
