import Hummingbird
internal import Logging
internal import NIOCore
internal import UbiquityCloudStore
internal import UbiquityCore
internal import UbiquityWire

/// Answers with the content of a link: a file, whole or in part, or a folder as a zip archive.
struct LinkDownload: Sendable {
    let links: Links
    let link: PublishedLink
    let departures: Departures
    let downloads: AccountBudget

    func response(_ request: Request, _ context: CloudContext) async throws -> Response {
        let tag = DownloadHeaders.tag(of: link)
        switch RequestCondition(request, tag: tag, modified: link.savedAt) {
        case .notModified:
            var headers: HTTPFields = [.eTag: tag, .lastModified: HTTPDate.text(link.savedAt)]
            DownloadHeaders.add(to: &headers)
            return Response(status: .notModified, headers: headers)
        case .failed:
            throw UnmetCondition()
        case .proceed:
            let files = try await links.files(of: link)
            if link.isFolder { return try archive(files, request, context) }
            guard let file = files.first else { throw UbiquityError(.damaged, "the link has no file") }
            return try self.file(file, request, context)
        }
    }

    // MARK: Files

    private func file(_ file: LinkedFile, _ request: Request, _ context: CloudContext) throws -> Response {
        var headers = DownloadHeaders.fields(link.name.description, of: link)
        headers[.acceptRanges] = "bytes"
        var range = 0..<file.size, status = HTTPResponse.Status.ok
        // Several ranges at a time are not supported: then the answer is the whole file.
        if let field = request.header("range"), !field.contains(","), request.method != .post,
            RequestCondition.allowsRange(request, tag: DownloadHeaders.tag(of: link), modified: link.savedAt),
            let part = try ChunkRange.parse(field, length: Int(clamping: file.size))
        {
            range = Int64(part.lowerBound)..<Int64(part.upperBound)
            headers[.contentRange] = "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(file.size)"
            status = .partialContent
        }
        let wanted = range
        let body = body(request, context, length: range.upperBound - range.lowerBound, isStart: range.lowerBound == 0) {
            output in
            try await links.read(file, wanted, of: link) { try await output.write($0) }
        }
        return Response(status: status, headers: headers, body: body)
    }

    // MARK: Folders

    private func archive(_ files: [LinkedFile], _ request: Request, _ context: CloudContext) throws -> Response {
        let entries = try files.map { try ZipEntry(linked: $0) }
        var headers = DownloadHeaders.fields(link.name.description + ".zip", of: link)
        headers[.contentType] = "application/zip"
        headers[.acceptRanges] = "none"
        let length = ZipWriter.length(of: entries)
        let body = body(request, context, length: length, isStart: true) { output in
            for (file, entry) in zip(files, entries) {
                try await output.begin(entry)
                if file.kind == .file {
                    try await links.read(file, 0..<file.size, of: link) { try await output.add($0) }
                }
                try await output.end()
            }
            try await output.finish()
        }
        return Response(status: .ok, headers: headers, body: body)
    }

    // MARK: Bodies

    /// An error after the status has been sent closes the connection: the client finds fewer bytes than announced.
    private func body(
        _ request: Request, _ context: CloudContext, length: Int64, isStart: Bool,
        _ write: @escaping @Sendable (LinkBody) async throws -> Void
    ) -> ResponseBody {
        let address = context.channel.remoteAddress?.ipAddress ?? "the cloud's socket", logger = context.logger
        return ResponseBody(contentLength: Int(clamping: length)) { writer in
            let output = LinkBody(writer)
            do {
                try await downloads.run(1, of: "link \(link.number)") {
                    if isStart { await links.recordDownload(of: link) }
                    try await departures.whilePresent(context.channel) { try await write(output) }
                }
            } catch {
                logger.info(
                    "download of a link ended early", metadata: [
                        "link": "\(link.number)", "address": "\(address)", "reason": "\(error)",
                    ])
                throw error
            }
            logger.info(
                "link downloaded",
                metadata: ["link": "\(link.number)", "address": "\(address)", "bytes": "\(length)"])
            try await output.close()
        }
    }
}

/// Answered with 412.
struct UnmetCondition: Error {}

extension ZipEntry {
    /// - Throws: `.tooLarge` if an archive cannot hold the path.
    init(linked file: LinkedFile) throws(UbiquityError) {
        let kind: Kind = switch file.kind {
        case .directory: .folder
        case .symlink: .symlink(target: file.linkTarget)
        default: .file(size: file.size)
        }
        do { self = try ZipEntry(file.path, kind, modified: file.modifiedAt) } catch {
            throw UbiquityError(.tooLarge, "an archive cannot hold so long a path")
        }
    }
}

/// The body of a download. Small parts are sent together.
///
/// Shared with the closure that receives the parts, which is called one part at a time: hence unchecked.
final class LinkBody: @unchecked Sendable {
    private var writer: any ResponseBodyWriter
    private var pending = ByteBuffer()
    private var archive = ZipWriter()

    init(_ writer: any ResponseBodyWriter) { self.writer = writer }

    /// Waits while the client reads more slowly than parts arrive.
    func write(_ bytes: some Sequence<UInt8>) async throws {
        pending.writeBytes(bytes)
        if pending.readableBytes >= ServerLimits.frameBatchBytes { try await flush() }
    }

    // MARK: Archives

    func begin(_ entry: ZipEntry) async throws { try await write(archive.begin(entry)) }

    func add(_ bytes: ArraySlice<UInt8>) async throws {
        archive.add(bytes)
        try await write(bytes)
    }

    func end() async throws {
        do { try await write(try archive.end()) } catch let error as ZipError {
            throw UbiquityError(.damaged, "a published file has another length than its record: \(error)")
        }
    }

    func finish() async throws { try await write(archive.finish()) }

    func close() async throws {
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
