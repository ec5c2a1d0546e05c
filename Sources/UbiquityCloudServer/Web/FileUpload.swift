internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityWire

/// Cuts the bytes of an uploaded file into chunks as they arrive, and stores those that the cloud lacks. It keeps one
/// batch in memory and not the file.
struct FileUpload {
    private let service: any CloudService
    /// Bytes that the account has free, beyond its quota for one batch.
    private let space: Int64
    private var chunker = Chunker()
    private var chunk = [UInt8]()
    private var batch = [Chunk]()
    private var batchBytes = 0
    private(set) var manifest = Manifest()
    private(set) var size: Int64 = 0

    init(service: any CloudService, space: Int64) {
        self.service = service
        self.space = space
    }

    mutating func add(_ bytes: [UInt8]) async throws {
        size += Int64(bytes.count)
        guard size <= space else {
            throw UbiquityError(
                .quotaExceeded, "the account is full: \(ByteSize.text(max(0, space))) are free",
                remedy: "delete items, or ask the cloud's owner for a larger quota")
        }
        var start = 0
        while let cut = bytes.withUnsafeBytes({ chunker.nextCut(in: UnsafeRawBufferPointer(rebasing: $0[start...])) }) {
            chunk += bytes[start..<(start + cut)]
            start += cut
            try await endChunk()
        }
        chunk += bytes[start...]
    }

    mutating func finish() async throws {
        if !chunk.isEmpty { try await endChunk() }
        try await store()
    }

    private mutating func endChunk() async throws {
        guard manifest.count < Limits.maximumChunksPerContent else {
            throw UbiquityError(.tooLarge, "the file is too large to be uploaded")
        }
        let finished = Chunk(id: ChunkNaming.name(of: chunk), bytes: chunk)
        manifest.append(ChunkReference(id: finished.id, length: chunk.count))
        batchBytes += chunk.count
        chunk = []
        batch.append(finished)
        if batchBytes >= ServerLimits.uploadBatchBytes { try await store() }
    }

    private mutating func store() async throws {
        guard !batch.isEmpty else { return }
        let chunks = batch
        batch = []
        batchBytes = 0
        let missing = Set(try await service.missingChunks(of: Array(Set(chunks.map(\.id)))))
        var seen = Set<ChunkID>()
        let new = chunks.filter { missing.contains($0.id) && seen.insert($0.id).inserted }
        if !new.isEmpty { try await service.upload(new) }
    }
}
