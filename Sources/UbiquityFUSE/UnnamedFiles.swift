/// Files without a name (O_TMPFILE), which libfuse 3.14 has no operation for.
///
/// The kernel's request has the form of one for a file with a name, and wants the same answer; the name in it is "/",
/// which no file has. So libfuse is given it as that.
enum UnnamedFiles {
    /// From `fuse_kernel.h`.
    private static let request: UInt32 = 51
    private static let creation: UInt32 = 35

    /// Whether a creation is of a file without a name.
    static func isMeant(by name: UnsafePointer<CChar>?) -> Bool {
        name?.pointee == CChar(bitPattern: UInt8(ascii: "/"))
    }

    /// - Parameter buffer: a request, of which at least the length and what it asks for are there.
    static func translate(_ buffer: UnsafeMutableRawPointer) {
        guard buffer.loadUnaligned(fromByteOffset: 4, as: UInt32.self) == request else { return }
        buffer.storeBytes(of: creation, toByteOffset: 4, as: UInt32.self)
    }
}
