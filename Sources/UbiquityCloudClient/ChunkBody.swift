import AsyncHTTPClient
import NIOCore
internal import UbiquityWire

/// The frames of chunks as a request's body. Each chunk is copied once, when it is sent.
struct ChunkBody: AsyncSequence, Sendable {
    typealias Element = ByteBuffer

    let chunks: [Chunk]

    /// Bytes of the whole body.
    var length: Int { chunks.reduce(0) { $0 + ChunkFrame.headerLength + $1.bytes.count } }

    func makeAsyncIterator() -> Iterator { Iterator(chunks: chunks) }

    struct Iterator: AsyncIteratorProtocol {
        let chunks: [Chunk]
        private var position = 0
        /// Bytes already returned of the chunk at `position`, including its header.
        private var given = 0

        init(chunks: [Chunk]) { self.chunks = chunks }

        /// The next bytes: several small chunks, or a part of a large one.
        mutating func next() async -> ByteBuffer? {
            guard position < chunks.count else { return nil }
            var bytes = ByteBufferAllocator().buffer(capacity: ClientLimits.frameBytes + ChunkFrame.headerLength)
            while position < chunks.count, bytes.readableBytes < ClientLimits.frameBytes {
                let chunk = chunks[position]
                if given == 0 {
                    bytes.writeBytes(ChunkFrame.header(chunk.id, length: chunk.bytes.count))
                    given = ChunkFrame.headerLength
                }
                let start = given - ChunkFrame.headerLength
                let room = Swift.max(0, ClientLimits.frameBytes - bytes.readableBytes)
                let end = Swift.min(chunk.bytes.count, start + room)
                bytes.writeBytes(chunk.bytes[start..<end])
                given += end - start
                guard end == chunk.bytes.count else { break }
                (position, given) = (position + 1, 0)
            }
            return bytes
        }
    }
}
