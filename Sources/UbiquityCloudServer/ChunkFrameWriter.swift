import Hummingbird
internal import NIOCore
internal import UbiquitySystem
internal import UbiquityWire

/// Writes chunks to an answer's body, each copied once. Small ones are sent together.
///
/// Shared with the closure that receives the chunks, which is called one chunk at a time: hence unchecked.
final class ChunkFrameWriter: @unchecked Sendable {
    private var writer: any ResponseBodyWriter
    private var pending = ByteBuffer()

    init(_ writer: any ResponseBodyWriter) { self.writer = writer }

    /// Waits while the client reads more slowly than chunks arrive.
    func write(_ chunk: Chunk) async throws {
        let length = ChunkFrame.headerLength + chunk.bytes.count
        if pending.readableBytes > 0, pending.readableBytes + length > ServerLimits.frameBatchBytes {
            try await flush()
        }
        pending.reserveCapacity(minimumWritableBytes: max(length, min(ServerLimits.frameBatchBytes, length * 4)))
        pending.writeBytes(ChunkFrame.header(chunk.id, length: chunk.bytes.count))
        pending.writeBytes(chunk.bytes)
        if pending.readableBytes >= ServerLimits.frameBatchBytes { try await flush() }
    }

    /// Ends the stream with an error.
    func fail(_ error: any Error) async throws { pending.writeBytes(try ChunkFrame.failure(error)) }

    func finish() async throws {
        try await flush()
        try await writer.finish(nil)
    }

    private func flush() async throws {
        guard pending.readableBytes > 0 else { return }
        let bytes = pending
        pending = ByteBuffer()
        try await writer.write(bytes)
    }
}

/// A value that a `@Sendable` closure leaves for its caller.
final class Box<Value: Sendable>: Sendable {
    let lock: Lock<Value>
    init(_ value: Value) { lock = Lock(value) }
}
