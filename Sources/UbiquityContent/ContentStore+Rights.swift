package import UbiquityCore
package import UbiquitySystem

// Access rights of backing files: only the daemon's user has access. The mount decides about access to the document.
extension ContentStore {
    private static let permissions: UInt32 = 0o600

    /// The owner of the contents: the owner of their folder, even if another user such as root runs this.
    package func owner() throws(UbiquityError) -> UInt32 {
        try describing("read the status of the contents' folder", at: directory) { () throws(Errno) in
            try FileSystem.status(directory).user
        }
    }

    package func hasOwnRights(_ status: FileStatus) throws(UbiquityError) -> Bool {
        guard status.permissions == Self.permissions else { return false }
        // Files that root's daemon creates in another user's state folder belong to root.
        guard status.user != ProcessHost.userID else { return true }
        return try status.user == owner()
    }

    /// Restores the owner and the permissions of a content's file.
    package func reclaim(_ id: ContentID) throws(UbiquityError) {
        let folder = try describing("read the status of the contents' folder", at: directory) { () throws(Errno) in
            try FileSystem.status(directory)
        }
        try describing("restore the content's access rights", at: path(of: id)) { () throws(Errno) in
            let status = try FileSystem.status(path(of: id))
            // The target of a link is a foreign file.
            guard status.isFile else { return }
            if status.user != folder.user {
                try FileSystem.setOwner(path(of: id), user: folder.user, group: folder.group)
            }
            if status.permissions != Self.permissions { try FileSystem.setPermissions(path(of: id), Self.permissions) }
        }
    }
}
