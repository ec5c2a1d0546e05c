package import UbiquityCore
package import UbiquitySystem

// A backing file is for the daemon alone: who may use the document the mount decides.
extension ContentStore {
    private static let permissions: UInt32 = 0o600

    /// Whose the contents are: the one who owns the folder they are in, also if another (root, say) looks at them.
    package func owner() throws(UbiquityError) -> UInt32 {
        try describing("look at the contents' folder", at: directory) { () throws(Errno) in
            try FileSystem.status(directory).user
        }
    }

    package func hasOwnRights(_ status: FileStatus) throws(UbiquityError) -> Bool {
        guard status.permissions == Self.permissions else { return false }
        // What root's daemon makes in another's state folder is root's.
        guard status.user != ProcessHost.userID else { return true }
        return try status.user == owner()
    }

    /// Makes a content's file its owner's alone again.
    package func reclaim(_ id: ContentID) throws(UbiquityError) {
        let folder = try describing("look at the contents' folder", at: directory) { () throws(Errno) in
            try FileSystem.status(directory)
        }
        try describing("take back the content", at: path(of: id)) { () throws(Errno) in
            let status = try FileSystem.status(path(of: id))
            // What a link leads to is somebody else's.
            guard status.isFile else { return }
            if status.user != folder.user {
                try FileSystem.setOwner(path(of: id), user: folder.user, group: folder.group)
            }
            if status.permissions != Self.permissions { try FileSystem.setPermissions(path(of: id), Self.permissions) }
        }
    }
}
