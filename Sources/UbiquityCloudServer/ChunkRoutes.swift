import Hummingbird
internal import NIOCore
internal import UbiquityCloudStore
internal import UbiquityCore
internal import UbiquitySystem
internal import UbiquityWire

/// Uploads and downloads of chunks.
struct ChunkRoutes: Sendable {
    let access: CloudAccess
    let departures: Departures

    func add(to router: Router<CloudContext>) {
        let chunks = router.group("v1/containers/:container/chunks")
        chunks.post(use: upload)
        chunks.post("missing", use: missing)
        chunks.post("unsound", use: unsound)
        chunks.post("fetch", use: fetch)
        chunks.get(":chunk", use: chunk)
    }

    /// Counts as writing: it keeps the chunks for the commit that follows.
    @Sendable private func missing(_ request: Request, _ context: CloudContext) async throws -> Response {
        let service = try await access.service(request, context, isWriting: true)
        let asked = try await request.message(ChunkIDs.self, limit: ServerLimits.chunkIDsLength)
        return try Response(ChunkIDs(await service.missingChunks(of: asked.ids)), for: request)
    }

    @Sendable private func unsound(_ request: Request, _ context: CloudContext) async throws -> Response {
        let service = try await access.service(request, context)
        let asked = try await request.message(ChunkIDs.self, limit: ServerLimits.chunkIDsLength)
        return try Response(ChunkIDs(await service.unsoundChunks(of: asked.ids)), for: request)
    }

    @Sendable private func upload(_ request: Request, _ context: CloudContext) async throws -> Response {
        let (holder, service) = try await access.signedIn(request, context, isWriting: true)
        try request.announcedLength(limit: ServerLimits.uploadLength)
        try await access.uploads.run(1, of: holder.account) {
            var upload = ChunkUpload(service: service)
            do {
                for try await part in request.body { try await upload.take(part) }
                try await upload.finish()
            } catch {
                await upload.keep()
                // A device sends only chunks that it has hashed: a frame that does not match its id was damaged in
                // transit.
                guard request.isProven, (error as? UbiquityError)?.code == .invalid else { throw error }
                throw DamagedRequest(reason: "\(error)")
            }
        }
        return Response(status: .noContent)
    }

    @Sendable private func fetch(_ request: Request, _ context: CloudContext) async throws -> Response {
        let service = try await access.service(request, context)
        let wanted = try await request.message(ChunkIDs.self, limit: ServerLimits.chunkIDsLength).ids
        let body = ResponseBody { writer in
            let frames = ChunkFrameWriter(writer)
            do {
                try await departures.whilePresent(context.channel) {
                    try await service.fetchChunks(wanted) { try await frames.write($0) }
                }
            } catch {
                // The status 200 has been sent: the stream itself must carry the error.
                let failure = Failures.told(error)
                Failures.log(error, status: failure.status, of: request, logger: context.logger)
                try await frames.fail(failure.error)
            }
            try await frames.finish()
        }
        return Response(
            status: .ok, headers: [.contentType: WireFormat.chunkMediaType, .cacheControl: "no-store"], body: body)
    }

    @Sendable private func chunk(_ request: Request, _ context: CloudContext) async throws -> Response {
        let service = try await access.service(request, context)
        guard let text = context.parameters.get("chunk"), let id = ChunkID(hex: text) else {
            throw UbiquityError(.invalid, "a chunk's id is 64 hexadecimal digits")
        }
        let found = Box<Chunk?>(nil)
        try await service.fetchChunks([id]) { chunk in found.lock.withLock { $0 = chunk } }
        guard let chunk = found.lock.withLock({ $0 }) else { throw UbiquityError(.notFound, "no such chunk", at: text) }
        var headers: HTTPFields = [
            .contentType: "application/octet-stream", .acceptRanges: "bytes", .eTag: "\"\(id)\"",
            .cacheControl: "private, immutable",
        ]
        let length = chunk.bytes.count
        guard let field = request.header("range"), let range = try ChunkRange.parse(field, length: length) else {
            return Response(status: .ok, headers: headers, body: .init(byteBuffer: ByteBuffer(bytes: chunk.bytes)))
        }
        headers[.contentRange] = "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(length)"
        return Response(
            status: .partialContent, headers: headers, body: .init(byteBuffer: ByteBuffer(bytes: chunk.bytes[range])))
    }
}
