package import UbiquityCore

/// The framing of chunks in a stream: `[id, 32 bytes][length, 4 bytes, big-endian][content]` for each.
///
/// This is no protobuf, because a stream of 16 MiB must be forwarded chunk by chunk and copied once. A stream may fail
/// after its first chunk, when its HTTP status 200 is already sent. It then ends with a failure frame: 32 zero bytes,
/// the length 0xFFFF_FFFF, 4 bytes with the length of a `WireFailure` in protobuf, and the failure.
package enum ChunkFrame {
    package static let headerLength = ChunkID.byteCount + 4
    /// Bytes of a failure: its three texts of at most 4096 bytes, and the other fields.
    static let maximumFailureLength = 16 * 1024
    static let failureMark = UInt32.max

    package static func header(_ id: ChunkID, length: Int) -> [UInt8] { id.bytes + bigEndian(UInt32(clamping: length)) }

    /// The frame of a chunk. To avoid copying the content, send `header` and then the content.
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

    /// The frame that ends a failed stream.
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
