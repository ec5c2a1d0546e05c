internal import NIOCore
internal import UbiquityCore
internal import UbiquityWire

/// Splits a stream of chunk frames and stores the chunks in batches. So a request keeps one batch in memory and not its
/// whole body.
struct ChunkUpload {
    private let service: any CloudService
    private var decoder = ChunkFrameDecoder()
    private var batch: [Chunk] = []
    private var batchBytes = 0
    private var count = 0
    private var bytes = 0

    init(service: any CloudService) { self.service = service }

    mutating func take(_ part: ByteBuffer) async throws {
        let chunks = try part.withUnsafeReadableBytes { raw throws(UbiquityError) in try decoder.push(raw) }
        for chunk in chunks { try await take(chunk) }
    }

    private mutating func take(_ chunk: Chunk) async throws {
        count += 1
        bytes += chunk.bytes.count
        try ChunkIDs.checkCount(count)
        guard bytes <= Limits.maximumChunkBytesPerRequest else {
            throw UbiquityError(.tooLarge, "more than \(Limits.maximumChunkBytesPerRequest) bytes of chunks")
        }
        batch.append(chunk)
        batchBytes += chunk.bytes.count
        if batchBytes >= ServerLimits.uploadBatchBytes { try await pass() }
    }

    mutating func finish() async throws {
        do {
            try decoder.finish()
        } catch {
            throw UbiquityError(.invalid, "the body ends inside a chunk")
        }
        try await pass()
    }

    /// Stores the complete chunks of a body that broke off; they need not be sent again.
    mutating func keep() async {
        let chunks = batch
        batch = []
        guard !chunks.isEmpty else { return }
        // The client has gone; the upload of these chunks continues without it.
        await Task { [service] in try? await service.upload(chunks) }.value
    }

    private mutating func pass() async throws {
        guard !batch.isEmpty else { return }
        let chunks = batch
        batch = []
        batchBytes = 0
        try await service.upload(chunks)
    }
}
