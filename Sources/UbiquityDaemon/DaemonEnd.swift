import UbiquityCore
import UbiquityFUSE
import UbiquitySystem

/// Waits for the end of a daemon that no longer serves a container.
///
/// A daemon flushes its index after its mount has gone. `umount` directly followed by `mount` finds it in that state.
struct DaemonEnd {
    /// In milliseconds: interval between two looks at the lock.
    static let interval: Int32 = 5
    /// Looks at a daemon that is ending: 5 s.
    static let maximumLooks = 1000
    /// Looks at a daemon whose mount has gone and that has not marked itself as ending: 1 s. It notices the end of the
    /// mount within milliseconds, unless the unmount was lazy and programs still use the mount.
    static let maximumLooksBeforeMark = 200

    /// Path of the container's lock.
    let lock: String
    /// Whether the container's mount is in the mount table.
    let isMounted: () throws(UbiquityError) -> Bool
    /// Waits for `interval`.
    var pause: () -> Void = { ProcessLock.pause(milliseconds: interval) }

    /// Waits for the end; returns at once if the daemon serves the mount.
    /// - Returns: the process that still holds the lock; nil if none does.
    func wait() throws(UbiquityError) -> ProcessLock.Holder? {
        var looks = 0, looksAtMarked = 0
        while let holder = try ProcessLock.state(of: lock) {
            if holder.isEnding {
                guard looksAtMarked < Self.maximumLooks else { return holder }
                looksAtMarked += 1
            } else {
                guard looks < Self.maximumLooksBeforeMark, try !isMounted() else { return holder }
                looks += 1
            }
            pause()
        }
        return nil
    }
}

extension ContainerFolder {
    /// Waits for a daemon that is ending. Throws `.inUse` if one serves the container.
    /// - Parameter action: for the message, for example "mount".
    func requireUnused(to action: String) throws(UbiquityError) {
        let end = DaemonEnd(lock: lock) { () throws(UbiquityError) in try MountPoint.isMounted(source: path) }
        guard let holder = try end.wait() else { return }
        let process = "process \(holder.process)"
        let container = "container \"\(Path.name(of: path))\" of this device"
        if holder.isEnding {
            throw UbiquityError(
                .inUse, "cannot \(action): \(process), which served \(container), has not ended yet", at: path,
                remedy: "try again in a moment")
        }
        guard try MountPoint.isMounted(source: path) else {
            throw UbiquityError(
                .inUse, "cannot \(action): \(process) serves \(container), detached with --lazy", at: path,
                remedy: "end the programs that use its files; if there are none, try again in a moment")
        }
        throw UbiquityError(
            .inUse, "cannot \(action): \(container) is mounted by \(process)", at: path,
            remedy: "unmount it first, or use another --state")
    }
}
