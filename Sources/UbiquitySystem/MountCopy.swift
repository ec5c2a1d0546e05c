import CUbiquityShims
import UbiquityCore

/// A copy of a mount that is nowhere in the tree of folders yet; it goes if it is let go of before.
package struct MountCopy: Sendable {
    private let descriptor: FileDescriptor

    /// ENOSYS before Linux 5.2, EPERM without CAP_SYS_ADMIN.
    package init(of path: some CPath) throws(Errno) {
        let number = try path.withCPath { path throws(Errno) in try check(CUbiquity_copyMount(path)) }
        descriptor = FileDescriptor(owning: number)
    }

    /// Puts it beneath the mount whose top folder is open: it is to be seen there as soon as that is taken away.
    ///
    /// EINVAL before Linux 6.5, or if no mount's top folder is open.
    package func put(beneath top: FileDescriptor) throws(Errno) {
        _ = try check(CUbiquity_moveBeneath(descriptor.rawValue, top.rawValue))
    }
}
