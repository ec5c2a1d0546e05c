import Crypto
package import UbiquityCore

/// Names a chunk by the SHA-256 of its bytes. Only this type knows the rule: a container with encrypted chunks would
/// use a keyed hash here.
package struct ChunkNaming {
    private var hash = SHA256()

    package init() {}

    /// Adds the chunk's next bytes.
    package mutating func add(_ bytes: UnsafeRawBufferPointer) { hash.update(bufferPointer: bytes) }

    package consuming func finish() -> ChunkID { ChunkID(digest: Array(hash.finalize())) }

    package static func name(of bytes: UnsafeRawBufferPointer) -> ChunkID {
        var naming = ChunkNaming()
        naming.add(bytes)
        return naming.finish()
    }

    package static func name(of bytes: [UInt8]) -> ChunkID { bytes.withUnsafeBytes { name(of: $0) } }

    /// Whether the bytes are those of the chunk.
    package static func matches(_ bytes: UnsafeRawBufferPointer, _ chunk: ChunkReference) -> Bool {
        bytes.count == chunk.length && name(of: bytes) == chunk.id
    }
}
