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

    /// Blocks of the file system, which alone can be holes.
    private static let block = 4096
    /// Bytes of zeros that are worth a hole: each costs a call.
    private static let leastHole = 16_384

    /// Writes bytes at an offset, and holes where they are zeros for long.
    static func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64, to file: FileDescriptor) throws(Errno) {
        var written = 0
        for hole in holes(in: bytes, at: offset) {
            try writeData(bytes, written..<hole.lowerBound, at: offset, to: file)
            try write(offset + Int64(hole.lowerBound)..<offset + Int64(hole.upperBound), to: file)
            written = hole.upperBound
        }
        try writeData(bytes, written..<bytes.count, at: offset, to: file)
    }

    private static func writeData(
        _ bytes: UnsafeRawBufferPointer, _ range: Range<Int>, at offset: Int64, to file: FileDescriptor
    ) throws(Errno) {
        guard !range.isEmpty else { return }
        try file.write(UnsafeRawBufferPointer(rebasing: bytes[range]), at: offset + Int64(range.lowerBound))
    }

    /// Runs of blocks, as they lie in the file, that are all zeros.
    static func holes(in bytes: UnsafeRawBufferPointer, at offset: Int64) -> [Range<Int>] {
        var found = [Range<Int>](), run: Range<Int>?
        var position = Int((Int64(block) - offset % Int64(block)) % Int64(block))
        while position + block <= bytes.count {
            if areAll(UnsafeRawBufferPointer(rebasing: bytes[position..<position + block])) {
                run = (run?.lowerBound ?? position)..<position + block
            } else if let ended = run {
                if ended.count >= leastHole { found.append(ended) }
                run = nil
            }
            position += block
        }
        if let run, run.count >= leastHole { found.append(run) }
        return found
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
