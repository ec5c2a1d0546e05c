package import UbiquitySystem

/// Registers backing files with the kernel, which then reads, writes and maps them directly. Implemented by the session
/// with the kernel.
///
/// The kernel's rule (fs/fuse/iomode.c): of the handles that an inode has at one time, either all are served this way,
/// with one registration, or none. `OpenNode.State.service` ensures that.
package protocol Passthrough: Sendable {
    /// Whether registering can succeed.
    var isActive: Bool { get }

    /// Whether each change of a backing file changes its times, even within the same clock tick as a previous look
    /// (kernel 6.13 and the common file systems).
    var timesTellAll: Bool { get }

    /// Registers a backing file.
    /// - Returns: nil if the kernel refuses: then this process serves the file.
    func register(_ file: FileDescriptor) -> BackingID?

    /// Ends a registration. Open handles continue; the number must not be used for another handle.
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
