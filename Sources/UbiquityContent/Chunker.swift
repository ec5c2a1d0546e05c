package import UbiquityCore

/// Finds the cuts of a content: FastCDC (Xia et al., USENIX ATC 2016) with a gear hash, normalised by two levels.
///
/// A cut follows the first byte, at or beyond the minimum length, at which the hash of the last 64 bytes is below a
/// threshold. Before the average length that happens once in 2^20 bytes, after it once in 2^16, so lengths cluster
/// around the average. At the maximum length there is always a cut. The hash covers only 64 bytes, so an insertion
/// moves only the cuts near it. Cuts depend on the bytes alone, not on the pieces in which they arrive.
package struct Chunker: Sendable {
    /// Each step doubles the hash, so a byte's number is shifted out after 64 steps.
    private static let window = 64
    /// The average length is 2^18, so the plain probability of a cut is 2^-18. The two levels make it 2^-20 and 2^-16.
    /// A hash below 2^(64-n) has n leading zero bits.
    private static let thresholdBeforeAverage: UInt64 = 1 << (64 - 20)
    private static let thresholdAfterAverage: UInt64 = 1 << (64 - 16)

    private var hash: UInt64 = 0
    /// Bytes of the current chunk so far.
    private var length = 0

    package init() {}

    /// Adds bytes that follow the earlier ones.
    /// - Returns: the number of bytes up to the end of the current chunk. The later bytes are then not consumed. Nil if
    ///   all bytes belong to the current chunk, which continues.
    package mutating func nextCut(in buffer: UnsafeRawBufferPointer) -> Int? {
        guard let bytes = buffer.baseAddress?.assumingMemoryBound(to: UInt8.self) else { return nil }
        let count = buffer.count
        // Bytes that leave the hash's window before the minimum length need not be hashed.
        var position = min(count, max(0, Limits.minimumChunkLength - 1 - Self.window - length))
        length += position
        let phases: [3 of (end: Int, threshold: UInt64)] = [
            (Limits.minimumChunkLength - 1, 0),
            (Limits.averageChunkLength - 1, Self.thresholdBeforeAverage),
            (Limits.maximumChunkLength - 1, Self.thresholdAfterAverage),
        ]
        for index in phases.indices where length < phases[index].end && position < count {
            let (end, threshold) = phases[index]
            let stop = min(count, position + end - length)
            let (next, isCut) = roll(bytes, position, stop, threshold)
            length += next - position
            position = next
            if isCut { return cut(at: position) }
        }
        return position < count ? cut(at: position + 1) : nil
    }

    private mutating func cut(at position: Int) -> Int {
        hash = 0
        length = 0
        return position
    }

    /// Hashes bytes up to `end`, or until the hash is below `threshold`.
    /// - Returns: the position after the last hashed byte.
    @inline(__always)
    private mutating func roll(
        _ bytes: UnsafePointer<UInt8>, _ start: Int, _ end: Int, _ threshold: UInt64
    ) -> (next: Int, isCut: Bool) {
        let gear = GearTable.shared.numbers
        var hash = self.hash
        var position = start
        defer { self.hash = hash }
        while position < end {
            hash = (hash &<< 1) &+ gear[Int(bytes[position])]
            position &+= 1
            if hash < threshold { return (position, true) }
        }
        return (position, false)
    }
}

extension Chunker {
    /// The chunks of a content in memory.
    package static func manifest(of bytes: [UInt8]) -> Manifest {
        var builder = ManifestBuilder()
        bytes.withUnsafeBytes { builder.add($0) }
        return builder.finish()
    }
}
