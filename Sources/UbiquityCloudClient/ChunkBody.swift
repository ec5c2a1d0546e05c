import AsyncHTTPClient
import NIOCore
internal import UbiquityWire

/// The frames of chunks as a request's body, each chunk copied once and not before it is sent.
struct ChunkBody: AsyncSequence, Sendable {
    typealias Element = ByteBuffer

    let chunks: [Chunk]

    /// Bytes of the whole body.
    var length: Int { chunks.reduce(0) { $0 + ChunkFrame.headerLength + $1.bytes.count } }

    func makeAsyncIterator() -> Iterator { Iterator(chunks: chunks) }

    struct Iterator: AsyncIteratorProtocol {
        let chunks: [Chunk]
        private var position = 0

        init(chunks: [Chunk]) { self.chunks = chunks }

        /// The frames of the next chunk and of as many small ones after it as go together.
        mutating func next() async -> ByteBuffer? {
            guard position < chunks.count else { return nil }
            var end = position
            var length = 0
            while end < chunks.count {
                let more = ChunkFrame.headerLength + chunks[end].bytes.count
                if end > position, length + more > ClientLimits.frameBatchBytes { break }
                length += more
                end += 1
            }
            var bytes = ByteBufferAllocator().buffer(capacity: length)
            for chunk in chunks[position..<end] {
                bytes.writeBytes(ChunkFrame.header(chunk.id, length: chunk.bytes.count))
                bytes.writeBytes(chunk.bytes)
            }
            position = end
            return bytes
        }
    }
}
