internal import CFUSE
internal import UbiquityCore
internal import UbiquitySystem

/// Gives a session its place in the tree of folders.
///
/// Where a mount is left whose daemon has died, the new one takes its place at one stroke: it is put beneath that one,
/// which is then taken away. In between, programs that go on meanwhile would write into the folder below both, and what
/// they were told is done would be hidden, or keep the mount from coming back at all.
enum SessionMount {
    /// Makes a session where nothing is mounted.
    /// - Parameter new: makes one that is not mounted.
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
            // An older kernel, or a user who may not do that.
            fuse_session_destroy(session)
            try MountPoint.clearDead(path, source: configuration.source)
        }
        let place = try MountPoint.free(path)
        let session = try new()
        guard place.mount(session, isWatched: configuration.options.contains(watched)) else {
            fuse_session_destroy(session)
            throw UbiquityError(
                .notPermitted, "cannot mount: the kernel or fusermount3 refused", at: path,
                remedy: "is the package fuse3 installed, /dev/fuse there, and the folder yours? What was said of it "
                    + "stands above, or in daemon.log in the state folder")
        }
        return session
    }

    /// libfuse watches over the folder that it has mounted on itself.
    private static let watched = "auto_unmount"

    /// - Returns: false if that is not possible here; then all is as it was.
    private static func replace(
        _ session: OpaquePointer, _ configuration: FUSESession.Configuration
    ) throws(UbiquityError) -> Bool {
        guard ProcessHost.userID == 0, !configuration.options.contains(watched) else { return false }
        let path = configuration.mountPoint
        // What is left on top of each other by processes that died in here becomes one.
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
        // Unless somebody has taken it away just now.
        if try MountedFileSystem.all().contains(left) { try MountPoint.clear(path) }
        return true
    }

    /// A folder for the moment: libfuse mounts on one that it can look at. Nil if there can be none.
    private static func folderAside(_ source: String) -> String? {
        let folder = Path.join(source, "mounting")
        do {
            try FileSystem.makeDirectories(folder)
            // A process that was killed just then has left its own.
            try MountPoint.clearDead(folder, source: source)
            return folder
        } catch {
            return nil
        }
    }
}
