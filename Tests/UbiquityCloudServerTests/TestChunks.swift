import Crypto
import UbiquityCore
import UbiquityWire

enum TestChunks {
    static func id(of bytes: [UInt8]) -> ChunkID {
        guard let id = ChunkID(bytes: Array(SHA256.hash(data: bytes))) else { return ChunkID(zero: ()) }
        return id
    }

    static func chunk(_ bytes: [UInt8]) -> Chunk { Chunk(id: id(of: bytes), bytes: bytes) }

    /// Chunks of that length, all different.
    static func make(_ count: Int, length: Int) -> [Chunk] {
        (0..<count).map { number in
            var bytes = [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: length)
            for (position, byte) in "\(number)".utf8.enumerated() where position < length { bytes[position] = byte }
            return chunk(bytes)
        }
    }
}

extension ChunkID {
    /// Any 32 bytes are an id.
    fileprivate init(zero: Void) {
        self = ChunkID(bytes: [UInt8](repeating: 0, count: ChunkID.byteCount)).unsafelyUnwrapped
    }
}
