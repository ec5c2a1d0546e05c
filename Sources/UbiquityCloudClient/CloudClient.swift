import AsyncHTTPClient
import NIOCore
import NIOHTTP1
internal import UbiquitySystem
package import UbiquityCore
package import UbiquityWire

/// One container of a cloud over HTTP. Implements `CloudService`.
///
/// It tries each request once, and once more if the cloud closed a kept connection just then. The sync engine decides
/// when to retry. The client itself repeats a request that was damaged in transit, a few times. Cancelling a call's
/// task ends the request at once.
package final class CloudClient: CloudService {
    package let container: ContainerID
    private let transport: Transport
    private let base: String
    /// The announced revisions of key-values.
    private let announcements = KeyValueAnnouncements()
    private let fetches = Turns(limit: ClientLimits.fetches)

    /// - Parameters:
    ///   - token: of the account. Nil for the account `local` of a cloud on a Unix socket.
    ///   - device: this device. Each request carries it.
    ///   - proof: whether answers without a digest are refused from the first one on.
    /// - Throws: `.invalid` if the certificates cannot be read. No connection is made yet.
    package init(
        _ address: CloudAddress, container: ContainerID, token: String? = nil, device: DeviceID, deviceName: String,
        proof: DigestProof = DigestProof()
    ) throws(UbiquityError) {
        self.container = container
        base = "/v1/containers/\(PercentEncoding.encode(container.name))"
        var headers: HTTPHeaders = [
            "ubiquity-device": device.description, "ubiquity-device-name": PercentEncoding.encode(deviceName),
        ]
        if let token { headers.add(name: Transport.tokenField, value: Transport.tokenValue(token)) }
        transport = try Transport(address: address, headers: headers, proof: proof)
    }

    /// The device has signed in to the same account again: its next requests send the new token.
    package func setToken(_ token: String) { transport.setToken(token) }

    package var address: CloudAddress { transport.address }
    /// Bytes of requests' bodies since the client was created.
    package var sentBytes: Int64 { transport.traffic.sent }
    /// Bytes of answers' bodies since the client was created.
    package var receivedBytes: Int64 { transport.traffic.received }

    /// Ends all requests and connections. Later calls throw `.offline`.
    package func shutdown() async { await transport.shutdown() }

    // MARK: Control

    package func open(knowing point: FeedPoint?) async throws -> ContainerDescription {
        let query = point.map { "?" + Self.query($0) } ?? ""
        return try await call(.POST, query, answer: ClientLimits.shortAnswerLength)
    }

    package func changes(after point: FeedPoint, limit: Int) async throws -> ChangePage {
        try await call(.GET, "/changes?\(Self.query(point))&limit=\(limit)", answer: Self.pageLength(limit))
    }

    package func snapshot(after point: FeedPoint, limit: Int) async throws -> ChangePage {
        try await call(.GET, "/snapshot?\(Self.query(point))&limit=\(limit)", answer: Self.pageLength(limit))
    }

    private static func query(_ point: FeedPoint) -> String {
        let history = point.incarnation.map { "&incarnation=\($0)" } ?? ""
        return "after=\(point.revision.number)" + history + (point.mark == 0 ? "" : "&mark=\(point.mark)")
    }

    /// The longest page of `limit` items, in bytes. A page of one item may be as long as the items of one commit.
    private static func pageLength(_ limit: Int) -> Int {
        limit > 1 ? ClientLimits.answerLength : ClientLimits.smallestPageLength
    }

    package func commit(_ request: CommitRequest) async throws -> CommitResponse {
        try await call(
            .POST, "/commit", message: request, load: .commit,
            within: request.chunks.isEmpty ? ClientLimits.commit : ClientLimits.upload)
    }

    package func missingChunks(of ids: [ChunkID]) async throws -> [ChunkID] {
        let answer = Self.listLength(ids.count)
        return try await call(.POST, "/chunks/missing", message: ChunkIDs(ids), as: ChunkIDs.self, answer: answer).ids
    }

    /// The longest answer, in bytes, to a query about `count` chunks.
    private static func listLength(_ count: Int) -> Int {
        ClientLimits.shortAnswerLength + count * ClientLimits.chunkIDLength
    }

    package func unsoundChunks(of ids: [ChunkID]) async throws -> [ChunkID] {
        var unsound = [ChunkID](), seen = Set<ChunkID>()
        let ids = ids.filter { seen.insert($0).inserted }
        // The cloud reads all of them before it answers.
        for start in stride(from: 0, to: ids.count, by: Limits.maximumChunksToVerify) {
            let part = Array(ids[start..<min(start + Limits.maximumChunksToVerify, ids.count)])
            unsound += try await call(
                .POST, "/chunks/unsound", message: ChunkIDs(part), as: ChunkIDs.self,
                answer: Self.listLength(part.count)
            ).ids
        }
        return unsound
    }

    package func manifest(of version: VersionID) async throws -> Manifest {
        try await call(.GET, "/versions/\(version)", as: VersionManifest.self).chunks
    }

    package func allVersions(of item: ItemID) async throws -> ItemVersions {
        try await call(.GET, "/items/\(item)/versions", as: ItemVersions.self)
    }

    package func trash(in folder: ItemID?, after position: TrashPosition?, limit: Int) async throws -> TrashPage {
        var path = "/trash?limit=\(limit)"
        if let folder { path += "&in=\(folder)" }
        if let position { path += "&deleted=\(position.deletedAt.nanoseconds)&after=\(position.id)" }
        return try await call(.GET, path)
    }

    package func usage() async throws -> CloudUsage {
        try await call(.GET, "/usage", answer: ClientLimits.shortAnswerLength)
    }

    // MARK: Chunks

    package func upload(_ chunks: [Chunk]) async throws {
        guard !chunks.isEmpty else { return }
        let body = ChunkBody(chunks: chunks)
        let length = body.length
        let content = Transport.Content(mediaType: WireFormat.chunkMediaType, length: length, digest: nil) {
            .stream(body, length: .known(Int64(length)))
        }
        try await transport.repeating(within: ClientLimits.control) {
            do {
                let response = try await transport.send(
                    .POST, base + "/chunks", content, accept: WireFormat.protobuf.mediaType, answersWithBody: false,
                    load: .upload, within: ClientLimits.upload)
                _ = try await transport.body(of: response, limit: ClientLimits.failureLength)
            } catch let damage as DamagedOnTheWay {
                // The file was changed during the read, so the damage did not happen in transit.
                guard chunks.allSatisfy({ MessageDigest.isName($0.id.bytes, of: $0.bytes) }) else {
                    throw UbiquityError(.invalid, "a chunk does not match its id")
                }
                throw damage
            }
        }
    }

    package func fetchChunks(_ ids: [ChunkID], receive: @Sendable (Chunk) async throws -> Void) async throws {
        guard !ids.isEmpty else { return }
        try await fetches.run {
            var count = 0
            try await self.transport.repeating(within: ClientLimits.control, else: .damaged) {
                try await self.fetch(ids, &count, receive)
            }
        }
    }

    /// - Parameter count: the number of chunks received.
    private func fetch(
        _ ids: [ChunkID], _ count: inout Int, _ receive: @Sendable (Chunk) async throws -> Void
    ) async throws {
        let response = try await transport.send(
            .POST, base + "/chunks/fetch", try Self.content(ChunkIDs(Array(ids[count...]))),
            accept: WireFormat.chunkMediaType, within: ClientLimits.control)
        var decoder = ChunkFrameDecoder()
        try await transport.parts(of: response) { part in
            let chunks: [Chunk]
            do {
                chunks = try part.withUnsafeReadableBytes { raw throws(UbiquityError) in try decoder.push(raw) }
            } catch {
                throw DamagedOnTheWay(reason: "the cloud's stream of chunks cannot be read (\(error))")
            }
            for chunk in chunks {
                guard count < ids.count, chunk.id == ids[count] else {
                    throw DamagedOnTheWay(reason: "the cloud sent another chunk than requested")
                }
                count += 1
                try await receive(chunk)
            }
        }
        try decoder.finish()
        guard count == ids.count else {
            throw UbiquityError(.offline, "the cloud's stream of chunks ended early", at: address.description)
        }
    }

    // MARK: News

    package func news() async throws -> AsyncThrowingStream<Revision, any Error> {
        let transport = transport, base = base, keyValueNews = announcements
        let response = try await transport.repeating(within: ClientLimits.control) {
            try await transport.send(
                .GET, base + "/events", accept: Transport.eventMediaType, within: ClientLimits.control)
        }
        // Only the newest revision matters, since the feed has everything else.
        let (stream, continuation) = AsyncThrowingStream.makeStream(
            of: Revision.self, throwing: (any Error).self, bufferingPolicy: .bufferingNewest(1))
        let reader = Task {
            do {
                var parser = EventParser(requiresDigest: transport.requiresDigest(response))
                try await transport.parts(of: response) { part in
                    let events = try part.withUnsafeReadableBytes { raw throws(UbiquityError) in try parser.push(raw) }
                    for event in events {
                        switch event {
                        case .revision(let revision): continuation.yield(revision)
                        case .keyValues(let revision): keyValueNews.tell(revision)
                        }
                    }
                }
                throw UbiquityError(.offline, "the cloud ended the stream of news", at: transport.address.description)
            } catch {
                continuation.finish(throwing: error)
            }
        }
        continuation.onTermination = { _ in reader.cancel() }
        return stream
    }

    // MARK: Key-values

    /// The calls of `KeyValueService`.
    package var keyValues: KeyValueClient {
        KeyValueClient(transport: transport, base: base, announcements: announcements)
    }

    // MARK: Messages

    private static func content(_ message: some WireValue) throws(UbiquityError) -> Transport.Content {
        let encoded = try WireCodec.encode(message, as: .protobuf)
        let bytes = ByteBuffer(bytes: encoded)
        return Transport.Content(
            mediaType: WireFormat.protobuf.mediaType, length: encoded.count, digest: MessageDigest.field(of: encoded)
        ) {
            .bytes(bytes)
        }
    }

    private func call<Answer: WireValue>(
        _ method: HTTPMethod, _ path: String, message: (any WireValue)? = nil, as type: Answer.Type = Answer.self,
        load: Transport.Load = .call, within limit: TimeAmount = ClientLimits.control,
        answer: Int = ClientLimits.answerLength
    ) async throws -> Answer {
        let content = try message.map { message throws(UbiquityError) in try Self.content(message) }
        // A list of many chunks is a long message itself.
        let length = content?.length ?? 0, isLong = length > ClientLimits.callLength
        let sending = TimeAmount.seconds(isLong ? Int64(length / ClientLimits.slowestLine) : 0)
        let bytes = try await transport.repeating(within: limit) {
            let response = try await transport.send(
                method, base + path, content, accept: WireFormat.protobuf.mediaType, load: isLong ? .upload : load,
                within: max(limit, limit + sending))
            return try await transport.body(of: response, limit: answer)
        }
        guard bytes.count > ClientLimits.smallAnswer else { return try Answer(wire: bytes, as: .protobuf) }
        return try await Self.decoding.run { try Answer(wire: bytes, as: .protobuf) }
    }

    /// Decodes long answers, which takes a while, apart from the cooperative threads.
    private static let decoding = BlockingPool(name: "decoding", threads: 1)
}
