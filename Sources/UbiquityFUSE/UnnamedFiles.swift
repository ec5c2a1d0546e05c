/// Files without a name (O_TMPFILE), for which libfuse 3.14 has no operation.
///
/// The kernel's request has the same form as one for a file with a name, and expects the same answer. Its name is "/",
/// which no file has. So libfuse receives it as an ordinary creation.
enum UnnamedFiles {
    /// From `fuse_kernel.h`.
    private static let request: UInt32 = 51
    private static let creation: UInt32 = 35

    /// Whether a creation is of a file without a name.
    static func isMeant(by name: UnsafePointer<CChar>?) -> Bool {
        name?.pointee == CChar(bitPattern: UInt8(ascii: "/"))
    }

    /// - Parameter buffer: a request with at least its length and opcode.
    static func translate(_ buffer: UnsafeMutableRawPointer) {
        guard buffer.loadUnaligned(fromByteOffset: 4, as: UInt32.self) == request else { return }
        buffer.storeBytes(of: creation, toByteOffset: 4, as: UInt32.self)
    }
}
