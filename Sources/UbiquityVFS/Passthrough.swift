package import UbiquitySystem

/// The kernel's way to backing files past this process: what is opened through it, the kernel reads, writes and maps by
/// itself. Answered by the session with the kernel.
///
/// The kernel's rules (fs/fuse/iomode.c): all handles that an inode has at one time are either all served so, and then
/// by one registration, or none is. `OpenNode.State.service` keeps to that.
package protocol Passthrough: Sendable {
    /// Whether it is worth asking.
    var isActive: Bool { get }

    /// Whether each change of a backing file shows in its times, even if it comes in the same tick as one that was
    /// looked at (kernel 6.13 and the common file systems).
    var timesTellAll: Bool { get }

    /// Tells the kernel of a backing file.
    /// - Returns: nil if it does not take it: then this process serves the file.
    func register(_ file: FileDescriptor) -> BackingID?

    /// Open handles go on; the number must not be used for another one.
    func unregister(_ id: BackingID)
}

/// The kernel's number of a backing file.
package struct BackingID: Hashable, Sendable {
    package let rawValue: Int32
    package init(rawValue: Int32) { self.rawValue = rawValue }
}

/// For a file system without a kernel.
package struct NoPassthrough: Passthrough {
    package init() {}
    package var isActive: Bool { false }
    package var timesTellAll: Bool { false }
    package func register(_ file: FileDescriptor) -> BackingID? { nil }
    package func unregister(_ id: BackingID) {}
}
