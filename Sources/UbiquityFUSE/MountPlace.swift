internal import CFUSE
internal import UbiquityCore
internal import UbiquitySystem

/// The folder for a mount, held open from the checks to the mount.
///
/// Root's mount is visible to every user. If another user could exchange the folder between check and mount, the mount
/// would cover any folder of the machine. So root refuses a path that others can change, and mounts on the checked
/// descriptor, whatever folder has the name by then. For a user, fusermount3 makes the same checks.
struct MountPlace: Sendable {
    /// Absolute, without symlinks.
    let path: String
    private let folder: FileDescriptor

    /// Opens the folder, or the mount that a dead process has left there.
    /// - Throws: `.notFound`, `.notDirectory` (also for a symlink), `.inUse` (the folder was just exchanged),
    ///   `.notPermitted` (root mounts where others can exchange the folder).
    init(_ path: String) throws(UbiquityError) {
        self.path = path
        folder = try describing("mount", at: path) { () throws(Errno) in
            try FileDescriptor.open(path, [.pathOnly, .directory, .noFollow])
        }
        let real = try describing("mount", at: path) { [folder] () throws(Errno) in
            String(decoding: try FileSystem.readLink(Self.name(of: folder)), as: UTF8.self)
        }
        guard real == path else {
            throw UbiquityError(
                .inUse, "cannot mount: another program replaced the folder during the mount", at: path,
                remedy: "check which program renames folders there, then mount again")
        }
    }

    /// A path to the opened folder, even if another folder has taken its name since.
    var target: String { Self.name(of: folder) }

    private static func name(of folder: FileDescriptor) -> String { "/proc/self/fd/\(folder.rawValue)" }

    /// Throws `.notPermitted` if root mounts and another user could exchange the folder.
    /// - Parameter isLeft: whether a dead mount is there, whose owner cannot be determined.
    func requireTrusted(isLeft: Bool = false) throws(UbiquityError) {
        guard ProcessHost.userID == 0 else { return }
        let found = try describing("check who may change the folder", at: path) {
            [folder, path] () throws(Errno) -> (folder: String, doubt: TrustedFolders.Doubt)? in
            let trusted = try TrustedFolders()
            if !isLeft, let doubt = trusted.doubt(aboutOwnerOf: try folder.status()) { return (path, doubt) }
            return try trusted.doubt(aboveFolder: path)
        }
        guard let found else { return }
        let reason = switch found.doubt {
        case .owner(let user): "user \(user) owns the folder or one above it, and could exchange it while root mounts"
        case .writableByOthers: "other users may write to a folder above it, and could exchange it while root mounts"
        }
        throw UbiquityError(
            .notPermitted, "cannot mount: \(reason)", at: found.folder,
            remedy: "mount as the folder's owner, or on a folder below which only root may write, for example in /mnt")
    }

    /// Throws `.directoryNotEmpty` if the mount would hide files.
    func requireEmpty() throws(UbiquityError) {
        let entries = try describing("read the folder", at: path) { [target] () throws(Errno) in
            try FileSystem.entries(of: target)
        }
        guard entries.isEmpty else {
            throw UbiquityError(
                .directoryNotEmpty, "cannot mount: the folder is not empty, its files would be hidden", at: path,
                remedy: "name an empty folder")
        }
    }

    /// Mounts a session on the folder.
    /// - Parameter isWatched: whether libfuse starts a process that unmounts by path, which must know the path.
    func mount(_ session: OpaquePointer, isWatched: Bool) -> Bool {
        let isByDescriptor = ProcessHost.userID == 0 && !isWatched
        return withExtendedLifetime(folder) { fuse_session_mount(session, isByDescriptor ? target : path) == 0 }
    }

    /// Attaches a copy of a mount beneath the mount that is here.
    func put(_ copy: MountCopy) throws(Errno) { try copy.put(beneath: folder) }
}
