package import UbiquityCore

/// How chunks travel one after another: `[id, 32 bytes][length, 4 bytes, big-endian][content]` for each.
///
/// No protobuf, because a stream of 16 MiB must be handed on chunk by chunk and copied once. A stream that fails after
/// its first chunk (its HTTP status has gone out as 200 then) ends with a failure frame: 32 zero bytes, the length
/// 0xFFFF_FFFF, 4 bytes with the length of a `WireFailure` in protobuf, and that.
package enum ChunkFrame {
    package static let headerLength = ChunkID.byteCount + 4
    /// Bytes in a failure: its three texts of at most 4096 bytes and the rest.
    static let maximumFailureLength = 16 * 1024
    static let failureMark = UInt32.max

    package static func header(_ id: ChunkID, length: Int) -> [UInt8] { id.bytes + bigEndian(UInt32(clamping: length)) }

    /// The frame of a chunk. Where the content need not be copied, send `header` and then the content.
    package static func encode(_ chunk: Chunk) -> [UInt8] {
        var result = [UInt8]()
        append(chunk, to: &result)
        return result
    }

    package static func append(_ chunk: Chunk, to bytes: inout [UInt8]) {
        bytes.reserveCapacity(bytes.count + headerLength + chunk.bytes.count)
        bytes += header(chunk.id, length: chunk.bytes.count)
        bytes += chunk.bytes
    }

    /// The frame that ends a stream which cannot go on.
    package static func failure(_ thrown: any Error) throws(UbiquityError) -> [UInt8] {
        var failure = WireFailure(thrown)
        failure.missingChunks = []
        let body = try failure.wire(as: .protobuf)
        return [UInt8](repeating: 0, count: ChunkID.byteCount) + bigEndian(failureMark)
            + bigEndian(UInt32(clamping: body.count)) + body
    }

    private static func bigEndian(_ number: UInt32) -> [UInt8] {
        [UInt8(truncatingIfNeeded: number >> 24), UInt8(truncatingIfNeeded: number >> 16),
         UInt8(truncatingIfNeeded: number >> 8), UInt8(truncatingIfNeeded: number)]
    }
}
