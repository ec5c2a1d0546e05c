internal import UbiquityCore
internal import UbiquitySystem

/// A pool of buffers of the maximum chunk length. Allocating and zeroing a megabyte for each chunk costs as much as
/// hashing it.
enum BufferPool {
    static let bufferSize = Limits.maximumChunkLength
    /// Idle buffers to keep: one for each thread that hashes or writes at a time, 16 MiB in all.
    private static let maximumKept = 16

    private static let kept = Lock([UnsafeMutableRawBufferPointer]())

    static func withBuffer<R, E: Error>(_ body: (UnsafeMutableRawBufferPointer) throws(E) -> R) throws(E) -> R {
        let buffer = kept.withLock { $0.popLast() } ?? .allocate(byteCount: bufferSize, alignment: 4096)
        defer {
            let isKept = kept.withLock { kept in
                guard kept.count < maximumKept else { return false }
                kept.append(buffer)
                return true
            }
            if !isKept { buffer.deallocate() }
        }
        return try body(buffer)
    }
}
