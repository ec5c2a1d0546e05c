internal import Glibc
internal import UbiquityCore
internal import UbiquitySystem

/// Chunks of nothing but zeros, which a file can have without holding them.
enum ZeroBytes {
    /// The name of the chunk that a long run of zeros is cut into: it never ends before the maximum length.
    static let longestChunk = ChunkReference(
        id: ChunkNaming.name(of: [UInt8](repeating: 0, count: Limits.maximumChunkLength)),
        length: Limits.maximumChunkLength)

    /// The first byte is zero and each is equal to the next; memcmp stops at the first that is not.
    static func areAll(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let start = bytes.baseAddress, bytes.count > 0 else { return true }
        return bytes[0] == 0 && memcmp(start, start + 1, bytes.count - 1) == 0
    }

    /// Makes the range read as zeros, as a hole where the file system has holes.
    static func write(_ range: Range<Int64>, to file: FileDescriptor) throws(Errno) {
        do throws(Errno) {
            try file.allocate([.keepSize, .punchHole], range)
        } catch {
            guard [.EOPNOTSUPP, .ENOSYS].contains(error) else { throw error }
            try file.write([UInt8](repeating: 0, count: Int(range.upperBound - range.lowerBound)), at: range.lowerBound)
        }
    }
}
