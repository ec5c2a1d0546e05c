internal import UbiquityCore

/// Cuts and names the chunks of a content that arrives in pieces.
struct ManifestBuilder {
    private var chunker = Chunker()
    private var naming = ChunkNaming()
    private var length = 0
    private var chunks = Manifest()

    /// The number of chunks so far.
    var count: Int { chunks.count }

    mutating func add(_ buffer: UnsafeRawBufferPointer) {
        var rest = buffer
        while let cut = chunker.nextCut(in: rest) {
            take(UnsafeRawBufferPointer(rebasing: rest[..<cut]))
            endChunk()
            rest = UnsafeRawBufferPointer(rebasing: rest[cut...])
        }
        take(rest)
    }

    /// Bytes since the last cut, if the last chunk is one of a long run of zeros that may continue; else nil.
    var lengthSinceZeros: Int? { chunks.last == ZeroBytes.longestChunk ? length : nil }

    /// Adds this many long chunks of zeros, in place of the bytes since the last cut.
    mutating func addZeros(chunks count: Int) {
        chunker = Chunker()
        naming = ChunkNaming()
        length = 0
        chunks.append(contentsOf: repeatElement(ZeroBytes.longestChunk, count: count))
    }

    /// Completes the last chunk. An empty content has no chunk.
    mutating func finish() -> Manifest {
        if length > 0 { endChunk() }
        return chunks
    }

    private mutating func take(_ bytes: UnsafeRawBufferPointer) {
        naming.add(bytes)
        length += bytes.count
    }

    private mutating func endChunk() {
        chunks.append(ChunkReference(id: naming.finish(), length: length))
        naming = ChunkNaming()
        length = 0
    }
}
