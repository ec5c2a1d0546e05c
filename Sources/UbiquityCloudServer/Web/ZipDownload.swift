import Hummingbird
internal import NIOCore
internal import UbiquityCloudStore
internal import UbiquityCore
internal import UbiquitySystem
internal import UbiquityWire

/// A folder as a zip archive, sent as it is read. Its length is known before its first byte.
struct ZipDownload: Sendable {
    let service: any CloudService
    private let files: [(entry: ZipEntry, content: RemoteContent?)]
    /// The report of files that are not in it; nil if all are.
    private let report: (entry: ZipEntry, bytes: [UInt8])?

    /// - Parameters:
    ///   - top: the name of the folder in the archive.
    ///   - items: the folder and all items below it, parents first.
    ///   - targets: the items that hard links among them lead to.
    init(
        _ top: ItemName, _ items: [RemoteItem], targets: [ItemID: RemoteItem], _ service: any CloudService,
        now: Timestamp
    ) throws {
        self.service = service
        var paths = [ItemID: [ItemName]](), files = [(entry: ZipEntry, content: RemoteContent?)](), missing = [String]()
        for item in items {
            let path = paths[item.parent].map { $0 + [item.name] } ?? [top]
            switch item.kind {
            case .directory:
                paths[item.id] = path
                files.append((try ZipEntry(path, .folder, modified: item.modifiedAt), nil))
            case .symlink:
                files.append((try ZipEntry(path, .symlink(target: item.linkTarget), modified: item.modifiedAt), nil))
            case .file, .hardLink:
                let file = item.kind == .file ? item : ItemID(bytes: item.linkTarget).flatMap { targets[$0] }
                guard let content = file?.content, content.isAvailable else {
                    missing.append(path.map(\.description).joined(separator: "/"))
                    continue
                }
                let entry = try ZipEntry(
                    path, .file(size: content.size), modified: item.modifiedAt, isExecutable: item.mode & 0o100 != 0)
                files.append((entry, content))
            case .fifo, .socket, .characterDevice, .blockDevice: continue
            }
        }
        self.files = files
        let name = ItemName(stored: Array("Files that are not in this archive.txt".utf8))
        let bytes = Array(
            ("The devices that made these files have not uploaded them yet:\n" + missing.joined(separator: "\n") + "\n")
                .utf8)
        report = missing.isEmpty ? nil
            : (try ZipEntry([top, name], .file(size: Int64(bytes.count)), modified: now), bytes)
    }

    var length: Int { Int(ZipWriter.length(of: files.map(\.entry) + (report.map { [$0.entry] } ?? []))) }

    func send(to out: ContentWriter) async throws {
        let zip = Box(ZipWriter())
        for (entry, content) in files {
            try await out.write(ByteBuffer(bytes: zip.lock.withLock { $0.begin(entry) }))
            if let content, content.size > 0 { try await send(content, to: out, zip) }
            try await out.write(ByteBuffer(bytes: zip.lock.withLock { result in Result { try result.end() } }.get()))
        }
        if let report {
            try await out.write(ByteBuffer(bytes: zip.lock.withLock { zip in
                let head = zip.begin(report.entry)
                zip.add(report.bytes[...])
                return head + report.bytes
            }))
            try await out.write(ByteBuffer(bytes: zip.lock.withLock { result in Result { try result.end() } }.get()))
        }
        try await out.write(ByteBuffer(bytes: zip.lock.withLock { $0.finish() }))
    }

    private func send(_ content: RemoteContent, to out: ContentWriter, _ zip: Box<ZipWriter>) async throws {
        let manifest: Manifest = if let known = content.manifest { known } else {
            try await service.manifest(of: content.version)
        }
        // An upper bound for the chunks that the cloud reads at one time.
        let step = max(1, Limits.maximumChunkBytesPerRequest / Limits.maximumChunkLength)
        for start in stride(from: 0, to: manifest.count, by: step) {
            let ids = manifest[start..<min(start + step, manifest.count)].map(\.id)
            try await service.fetchChunks(ids) { chunk in
                zip.lock.withLock { $0.add(chunk.bytes[...]) }
                try await out.write(ByteBuffer(bytes: chunk.bytes))
            }
        }
    }
}

extension ContentRoutes {
    /// A folder or a package with all that is in it.
    @Sendable func zip(_ request: Request, _ context: CloudContext, _ visitor: Visitor) async throws -> Response {
        let container = try rooms.container(context, visitor), id = try WebRooms.item(context)
        let browser = try await rooms.browser(visitor, container)
        let folder = try await browser.place(of: id).item
        guard folder.kind == .directory, !folder.isDeleted else {
            throw UbiquityError(.notDirectory, "\"\(folder.name)\" is not a folder")
        }
        let items = try await browser.subtree(of: id, limit: WebLimits.zippedItems)
        var targets = [ItemID: RemoteItem]()
        for link in items where link.kind == .hardLink {
            guard let target = ItemID(bytes: link.linkTarget) else { continue }
            targets[target] = try? await browser.place(of: target).item
        }
        let name = id == .root ? ItemName(stored: Array(container.name.utf8)) : folder.name
        let service = try await rooms.access.host.service(visitor.holder, container)
        let download = try ZipDownload(name, items, targets: targets, service, now: folder.modifiedAt)
        let body = ResponseBody(contentLength: download.length) { writer in
            let out = ContentWriter(writer)
            try await departures.whilePresent(context.channel) { try await download.send(to: out) }
            try await out.finish()
        }
        let file = ItemName(stored: name.bytes.prefix(Limits.maximumNameLength - 4) + Array(".zip".utf8))
        var response = Response(
            status: .ok,
            headers: [
                .contentType: "application/zip", .contentDisposition: Self.disposition(file, isShown: false),
                .cacheControl: "private, no-store",
            ], body: body)
        WebAnswer.protect(&response, Self.policy)
        return response
    }
}
