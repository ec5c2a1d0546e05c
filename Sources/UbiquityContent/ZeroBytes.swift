internal import Glibc
internal import UbiquityCore
internal import UbiquitySystem

/// Chunks of zeros, which a file can store as holes.
enum ZeroBytes {
    /// The chunk into which a long run of zeros is cut. It always has the maximum length.
    static let longestChunk = ChunkReference(
        id: ChunkNaming.name(of: [UInt8](repeating: 0, count: Limits.maximumChunkLength)),
        length: Limits.maximumChunkLength)

    /// The first byte is zero and each byte equals the next. memcmp stops at the first difference.
    static func areAll(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let start = bytes.baseAddress, bytes.count > 0 else { return true }
        return bytes[0] == 0 && memcmp(start, start + 1, bytes.count - 1) == 0
    }

    /// The block size of the file system: only whole blocks can be holes.
    private static let block = 4096
    /// The smallest run of zeros worth a hole, in bytes: each hole costs a system call.
    private static let leastHole = 16_384

    /// Writes bytes at an offset, with holes for long runs of zeros.
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

    /// Runs of blocks, aligned to the file, that are all zeros.
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

    /// Makes the range read as zeros, as a hole if the file system supports holes.
    static func write(_ range: Range<Int64>, to file: FileDescriptor) throws(Errno) {
        do throws(Errno) {
            try file.allocate([.keepSize, .punchHole], range)
        } catch {
            guard [.EOPNOTSUPP, .ENOSYS].contains(error) else { throw error }
            try file.write([UInt8](repeating: 0, count: Int(range.upperBound - range.lowerBound)), at: range.lowerBound)
        }
    }
}
