internal import UbiquityCore

/// Removes the chunks from a message and parses them directly. Decoded as messages, the 700,000 chunks of a large file
/// would take five times their bytes.
struct ManifestExtractor {
    /// The message without its chunks. Their manifest is present and empty.
    private(set) var remaining: [UInt8] = []
    private(set) var manifest = Manifest()

    /// - Parameter path: the fields that lead from the message to a chunk.
    init(_ bytes: UnsafeRawBufferPointer, _ range: Range<Int>, path: [Int]) throws(UbiquityError) {
        remaining = try extract(bytes, range, path[...])
    }

    private mutating func extract(
        _ bytes: UnsafeRawBufferPointer, _ range: Range<Int>, _ path: ArraySlice<Int>
    ) throws(UbiquityError) -> [UInt8] {
        var result = [UInt8](), reader = WireReader(bytes, range), position = range.lowerBound
        while let field = reader.next() {
            position = field.whole.upperBound
            guard field.number == path.first, field.type == 2 else {
                result.append(contentsOf: UnsafeRawBufferPointer(rebasing: bytes[field.whole]))
                continue
            }
            if path.count == 1 {
                manifest.append(try Self.chunk(bytes, field.content))
                guard manifest.count <= Limits.maximumChunksPerContent else {
                    throw .malformed("a content of too many chunks")
                }
            } else {
                let inside = try extract(bytes, field.content, path.dropFirst())
                Self.append(UInt64(field.number) << 3 | 2, to: &result)
                Self.append(UInt64(inside.count), to: &result)
                result += inside
            }
        }
        guard position == range.upperBound else { throw .malformed("the message cannot be read") }
        return result
    }

    private static func chunk(
        _ bytes: UnsafeRawBufferPointer, _ range: Range<Int>
    ) throws(UbiquityError) -> ChunkReference {
        var reader = WireReader(bytes, range), id: ChunkID?, length: UInt64 = 0, position = range.lowerBound
        while let field = reader.next() {
            position = field.whole.upperBound
            if field.number == 1, field.type == 2 {
                id = ChunkID(bytes: UnsafeRawBufferPointer(rebasing: bytes[field.content]))
            }
            if field.number == 2, field.type == 0 { length = field.value }
        }
        guard position == range.upperBound, let id, let length = Int(exactly: length) else {
            throw .malformed("a chunk of a manifest lacks its id of \(ChunkID.byteCount) bytes")
        }
        let reference = ChunkReference(id: id, length: length)
        try reference.check()
        return reference
    }

    private static func append(_ number: UInt64, to bytes: inout [UInt8]) {
        var number = number
        while number > 0x7F {
            bytes.append(UInt8(truncatingIfNeeded: number) | 0x80)
            number >>= 7
        }
        bytes.append(UInt8(truncatingIfNeeded: number))
    }
}
