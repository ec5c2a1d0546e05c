import CUbiquityShims
import UbiquityCore

/// A copy of a mount that is not attached to the file tree yet. It is destroyed if it is released before.
package struct MountCopy: Sendable {
    private let descriptor: FileDescriptor

    /// Copies a mount. Throws ENOSYS before Linux 5.2, EPERM without CAP_SYS_ADMIN.
    package init(of path: some CPath) throws(Errno) {
        let number = try path.withCPath { path throws(Errno) in try check(CUbiquity_copyMount(path)) }
        descriptor = FileDescriptor(owning: number)
    }

    /// Attaches the copy beneath the mount whose top folder is open. It becomes visible as soon as that mount is
    /// unmounted.
    ///
    /// Throws EINVAL before Linux 6.5, or if the open folder is not a mount's top folder.
    package func put(beneath top: FileDescriptor) throws(Errno) {
        _ = try check(CUbiquity_moveBeneath(descriptor.rawValue, top.rawValue))
    }
}
