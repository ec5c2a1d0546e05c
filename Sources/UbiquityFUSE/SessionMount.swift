internal import CFUSE
internal import UbiquityCore
internal import UbiquitySystem

/// Mounts a session on its folder.
///
/// A mount whose daemon has died is replaced in one step: the new mount is attached beneath it, and then the dead one
/// is removed. Without that, programs would write to the folder below in between. Those files would then be hidden, or
/// would prevent the mount.
enum SessionMount {
    /// Makes a session where nothing is mounted.
    /// - Parameter new: makes a session that is not mounted.
    static func make(
        _ configuration: FUSESession.Configuration, new: () throws(UbiquityError) -> OpaquePointer
    ) throws(UbiquityError) -> OpaquePointer {
        let path = configuration.mountPoint
        if try MountPoint.isLeft(at: path, source: configuration.source) {
            let session = try new()
            do throws(UbiquityError) { if try replace(session, configuration) { return session } } catch {
                fuse_session_destroy(session)
                throw error
            }
            // An older kernel, or a user without the right to do that.
            fuse_session_destroy(session)
            try MountPoint.clearDead(path, source: configuration.source)
        }
        let place = try MountPoint.free(path)
        let session = try new()
        guard place.mount(session, isWatched: configuration.options.contains(watched)) else {
            fuse_session_destroy(session)
            throw UbiquityError(
                .notPermitted, "cannot mount: the kernel or fusermount3 refused", at: path,
                remedy: "check that fuse3 is installed, /dev/fuse exists, and the folder is yours; the reason is "
                    + "above, or in daemon.log in the state folder")
        }
        return session
    }

    /// With this option libfuse watches the folder it has mounted on.
    private static let watched = "auto_unmount"

    /// - Returns: false if that is not possible here; then nothing has changed.
    private static func replace(
        _ session: OpaquePointer, _ configuration: FUSESession.Configuration
    ) throws(UbiquityError) -> Bool {
        guard ProcessHost.userID == 0, !configuration.options.contains(watched) else { return false }
        let path = configuration.mountPoint
        // Processes that died in here may have left several mounts on top of each other; reduce them to one.
        guard let left = try MountPoint.onlyOne(at: path, source: configuration.source),
            let aside = folderAside(configuration.source)
        else { return false }
        let place = try MountPlace(path)
        try place.requireTrusted(isLeft: true)
        guard fuse_session_mount(session, aside) == 0 else { return false }
        do throws(Errno) {
            let copy = try MountCopy(of: aside)
            try Unmounting.unmount(Array(aside.utf8), lazy: true)
            try place.put(copy)
        } catch {
            fuse_session_unmount(session)
            return false
        }
        try? FileSystem.removeDirectory(aside)
        // Unless another process has just removed it.
        if try MountedFileSystem.all().contains(left) { try MountPoint.clear(path) }
        return true
    }

    /// A temporary folder for the mount: libfuse needs one that it can examine. Nil if it cannot be created.
    private static func folderAside(_ source: String) -> String? {
        let folder = Path.join(source, "mounting")
        do {
            try FileSystem.makeDirectories(folder)
            // A process that was killed at that moment has left its own mount.
            try MountPoint.clearDead(folder, source: source)
            return folder
        } catch {
            return nil
        }
    }
}
