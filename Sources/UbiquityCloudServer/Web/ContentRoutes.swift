import Hummingbird
internal import NIOCore
internal import UbiquityCloudStore
internal import UbiquityCore
internal import UbiquitySystem
internal import UbiquityWire

/// The contents of files: as downloads, and pictures also for the pages.
///
/// No content can run in the origin of the pages, whatever it is. A download is an attachment without a type that a
/// browser shows. A picture has the type of its first bytes, which is never that of a document. Both are in a sandbox,
/// and the browser may not guess another type.
struct ContentRoutes: Sendable {
    let rooms: WebRooms
    let departures: Departures

    static let policy = "sandbox; default-src 'none'; frame-ancestors 'none'"

    func add(to router: Router<CloudContext>) {
        let item = router.group("containers/:container/items/:item")
        item.get("content", use: rooms.page(content))
        item.head("content", use: rooms.page(content))
        item.get("picture", use: rooms.page(picture))
        item.get("zip", use: rooms.page(zip))
    }

    /// A version of a file.
    private struct Found {
        let name: ItemName
        let version: VersionID
        let manifest: Manifest
        let service: any CloudService
        var size: Int64 { manifest.reduce(0) { $0 + Int64($1.length) } }
    }

    private func find(_ request: Request, _ context: CloudContext, _ visitor: Visitor) async throws -> Found {
        let container = try rooms.container(context, visitor), id = try WebRooms.item(context)
        let browser = try await rooms.browser(visitor, container)
        let item = try await browser.place(of: id).item
        guard item.kind == .file, let content = item.content else {
            throw UbiquityError(.notSupported, "\"\(item.name)\" is no file")
        }
        let wanted = try request.webQuery()["version"].map { try WebRooms.version($0) } ?? content.version
        if wanted == content.version, let reason = content.whyNotHere { throw reason }
        // A version of another item is not there.
        if wanted != content.version {
            guard try await browser.versions(of: id).contains(where: { $0.id == wanted }) else {
                throw UbiquityError(.notFound, "the file has no such version")
            }
        }
        let service = try await rooms.access.host.service(visitor.holder, container)
        return Found(
            name: item.name, version: wanted, manifest: try await service.manifest(of: wanted), service: service)
    }

    @Sendable private func content(_ request: Request, _ context: CloudContext, _ visitor: Visitor) async throws
        -> Response
    {
        let found = try await find(request, context, visitor)
        return try answer(found, "application/octet-stream", isShown: false, request, context)
    }

    @Sendable private func picture(_ request: Request, _ context: CloudContext, _ visitor: Visitor) async throws
        -> Response
    {
        let found = try await find(request, context, visitor)
        guard found.size <= WebLimits.shownPicture, let first = found.manifest.first else {
            throw UbiquityError(.tooLarge, "the picture is too large to be shown")
        }
        let head = Box([UInt8]())
        try await found.service.fetchChunks([first.id]) { chunk in
            head.lock.withLock { $0 = Array(chunk.bytes.prefix(16)) }
        }
        guard let type = PictureType.of(head.lock.withLock({ $0 })) else {
            throw UbiquityError(.notSupported, "\"\(found.name)\" is no picture that a browser shows")
        }
        return try answer(found, type, isShown: true, request, context)
    }

    private func answer(
        _ found: Found, _ type: String, isShown: Bool, _ request: Request, _ context: CloudContext
    ) throws -> Response {
        let tag = "\"\(found.version)\"", size = Int(found.size)
        var headers: HTTPFields = [
            .contentType: type, .acceptRanges: "bytes", .eTag: tag,
            // Only this browser may keep it, and only as long as it is signed in.
            .cacheControl: isShown ? "private, max-age=3600" : "private, no-cache",
            .contentDisposition: Self.disposition(found.name, isShown: isShown),
        ]
        if request.header("if-none-match") == tag {
            var response = Response(status: .notModified, headers: headers)
            WebAnswer.protect(&response, Self.policy)
            return response
        }
        var range = 0..<size, status = HTTPResponse.Status.ok
        let isSame = request.header("if-range").map { $0 == tag } ?? true
        if isSame, size > 0, let field = request.header("range"),
            let wanted = try ChunkRange.parse(field, length: size)
        {
            (range, status) = (wanted, .partialContent)
            headers[.contentRange] = "bytes \(wanted.lowerBound)-\(wanted.upperBound - 1)/\(size)"
        }
        headers[.contentLength] = "\(range.count)"
        let sent = range
        let body = ResponseBody(contentLength: sent.count) { writer in
            let out = ContentWriter(writer)
            try await departures.whilePresent(context.channel) {
                try await Self.send(found, sent, to: out)
            }
            try await out.finish()
        }
        var response = Response(status: status, headers: headers, body: body)
        WebAnswer.protect(&response, Self.policy)
        return response
    }

    /// Sends a part of a content, some chunks at a time.
    private static func send(_ found: Found, _ range: Range<Int>, to out: ContentWriter) async throws {
        var start = 0, step = [(id: ChunkID, part: Range<Int>)](), bytes = 0
        for chunk in found.manifest {
            defer { start += chunk.length }
            let part = range.clamped(to: start..<(start + chunk.length))
            guard !part.isEmpty else { continue }
            step.append((chunk.id, (part.lowerBound - start)..<(part.upperBound - start)))
            bytes += chunk.length
            if bytes >= ServerLimits.uploadBatchBytes {
                try await send(step, found.service, to: out)
                (step, bytes) = ([], 0)
            }
        }
        if !step.isEmpty { try await send(step, found.service, to: out) }
    }

    private static func send(
        _ step: [(id: ChunkID, part: Range<Int>)], _ service: any CloudService, to out: ContentWriter
    ) async throws {
        let next = Box(0), parts = step.map(\.part)
        try await service.fetchChunks(step.map(\.id)) { chunk in
            let place = next.lock.withLock { place in
                defer { place += 1 }
                return place
            }
            guard place < parts.count, parts[place].upperBound <= chunk.bytes.count else {
                throw UbiquityError(.damaged, "a chunk does not have the length of its content")
            }
            try await out.write(ByteBuffer(bytes: chunk.bytes[parts[place]]))
        }
    }

    /// The name twice: in ASCII for old programs, and as it is (RFC 6266).
    static func disposition(_ name: ItemName, isShown: Bool) -> String {
        let plain = String(decoding: name.bytes.map { byte in
            (0x20..<0x7F).contains(byte) && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\")
                ? byte : UInt8(ascii: "_")
        }, as: UTF8.self)
        return "\(isShown ? "inline" : "attachment"); filename=\"\(plain)\"; "
            + "filename*=UTF-8''\(PercentEncoding.encode(name.description))"
    }
}

/// The answer's writer for a `@Sendable` closure; used by one task at a time, hence unchecked.
final class ContentWriter: @unchecked Sendable {
    private var writer: any ResponseBodyWriter

    init(_ writer: any ResponseBodyWriter) { self.writer = writer }

    func write(_ bytes: ByteBuffer) async throws { try await writer.write(bytes) }
    func finish() async throws { try await writer.finish(nil) }
}

/// The types of pictures that browsers show and that have no scripts.
enum PictureType {
    /// The media type by the first bytes; nil if they are of no such picture.
    static func of(_ head: [UInt8]) -> String? {
        let has = { (bytes: [UInt8], place: Int) in
            head.count >= place + bytes.count && head[place..<(place + bytes.count)].elementsEqual(bytes)
        }
        if has([0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A], 0) { return "image/png" }
        if has([0xFF, 0xD8, 0xFF], 0) { return "image/jpeg" }
        if has(Array("GIF8".utf8), 0) { return "image/gif" }
        if has(Array("RIFF".utf8), 0), has(Array("WEBP".utf8), 8) { return "image/webp" }
        if has(Array("ftypavif".utf8), 4) { return "image/avif" }
        return has(Array("BM".utf8), 0) && head.count >= 14 ? "image/bmp" : nil
    }
}
