import Crypto
internal import UbiquityCore
internal import UbiquityWire

/// Verifies that bytes are the chunk of an id: the id is their SHA-256.
enum ChunkCheck {
    static let lengths = 1...Limits.maximumChunkLength

    static func matches(_ bytes: [UInt8], _ id: ChunkID) -> Bool {
        bytes.withUnsafeBytes { buffer in
            var hash = SHA256()
            hash.update(bufferPointer: buffer)
            return ChunkID(digest: Array(hash.finalize())) == id
        }
    }

    /// - Throws: `.invalid` if the chunk does not match its id.
    static func verify(_ chunk: Chunk) throws(UbiquityError) {
        guard lengths.contains(chunk.bytes.count) else {
            let allowed = "\(lengths.lowerBound) to \(lengths.upperBound)"
            throw UbiquityError(.invalid, "chunk \(chunk.id) has \(chunk.bytes.count) bytes, not \(allowed)")
        }
        guard matches(chunk.bytes, chunk.id) else {
            throw UbiquityError(.invalid, "chunk \(chunk.id) does not match its id")
        }
    }

    /// - Throws: `.damaged` if a stored copy does not match its id.
    static func verify(stored bytes: [UInt8], _ id: ChunkID, at place: String = "") throws(UbiquityError) {
        guard lengths.contains(bytes.count), matches(bytes, id) else {
            throw UbiquityError(
                .damaged, "the stored copy of chunk \(id) is damaged", at: place,
                remedy: "a device that has this content repairs it by uploading it again")
        }
    }
}
