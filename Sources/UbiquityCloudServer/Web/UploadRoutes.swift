import Hummingbird
internal import NIOCore
internal import UbiquityCloudStore
internal import UbiquityCore
internal import UbiquityWire

/// Files uploaded by a form: by its button without a script, and by the script one by one.
struct UploadRoutes: Sendable {
    let rooms: WebRooms

    func add(to router: Router<CloudContext>) {
        router.post("containers/:container/upload") { request, context in
            await rooms.answering(request, context) { try await upload(request, context) }
        }
    }

    private func upload(_ request: Request, _ context: CloudContext) async throws -> Response {
        let visitor = try await rooms.reception.visitor(request, context)
        if visitor.formToken != nil { try request.requireOwnOrigin() }
        let writer = try await rooms.writer(context, visitor)
        return try await rooms.access.uploads.run(1, of: visitor.account) {
            var reader = UploadReader(visitor: visitor, writer: writer, parser: try MultipartParser(
                contentType: request.header("content-type")))
            for try await part in request.body { try await reader.add(part.readableBytesView) }
            let folder = try await reader.finish()
            return WebAnswer.seeOther(
                visitor.paths.folder(folder, in: writer.container, Notice(.uploaded).query))
        }
    }
}

/// One upload: the fields of its form come first, then the files.
private struct UploadReader {
    let visitor: Visitor
    let writer: ContainerWriter
    var parser: MultipartParser

    private enum Part {
        case none, skipped
        case field(name: String, bytes: [UInt8])
        case file(ItemName, FileUpload)
    }

    private var form = WebForm()
    private var part = Part.none
    private var isChecked = false
    private var files = 0

    init(visitor: Visitor, writer: ContainerWriter, parser: MultipartParser) {
        self.visitor = visitor
        self.writer = writer
        self.parser = parser
    }

    mutating func add(_ bytes: ByteBufferView) async throws {
        for event in try parser.add(bytes) {
            switch event {
            case .part(let name, let file): part = try await begin(name, file)
            case .bytes(let bytes): try await take(bytes)
            case .endOfPart: try await endPart()
            }
        }
    }

    /// - Returns: the folder.
    mutating func finish() async throws -> ItemID {
        try parser.finish()
        try check()
        return try folder
    }

    private var folder: ItemID { get throws { try form["folder"].map { try WebRooms.item($0) } ?? .root } }

    /// Before the first file is stored.
    private mutating func check() throws {
        guard !isChecked else { return }
        try visitor.requireOwnForm(form[Visitor.fieldName])
        isChecked = true
    }

    private func begin(_ name: String, _ file: String?) async throws -> Part {
        guard let file else { return .field(name: name, bytes: []) }
        // A form without a chosen file has a part without a name.
        guard !file.isEmpty else { return .skipped }
        guard files < WebLimits.uploadedFiles else {
            throw UbiquityError(.tooLarge, "one upload has at most \(WebLimits.uploadedFiles) files")
        }
        try visitor.requireOwnForm(form[Visitor.fieldName])
        try await writer.requireFolder(folder)
        // Some browsers send a path.
        let last = file.split(whereSeparator: { $0 == "/" || $0 == "\\" }).last.map(String.init) ?? file
        let usage = try await writer.service.usage()
        return .file(
            try WebForm.name(last),
            FileUpload(service: writer.service, space: usage.quotaBytes - usage.usedBytes))
    }

    private mutating func take(_ bytes: [UInt8]) async throws {
        switch part {
        case .none, .skipped: return
        case .field(let name, let earlier):
            guard earlier.count + bytes.count <= WebLimits.formBytes else {
                throw UbiquityError(.tooLarge, "a field of the form is too long")
            }
            part = .field(name: name, bytes: earlier + bytes)
        case .file(let name, var upload):
            // The copy in `part` is dropped, so that its buffers are not copied.
            part = .none
            try await upload.add(bytes)
            part = .file(name, upload)
        }
    }

    private mutating func endPart() async throws {
        defer { part = .none }
        switch part {
        case .none, .skipped: return
        case .field(let name, let bytes): form.add(name, String(decoding: bytes, as: UTF8.self))
        case .file(let name, var upload):
            part = .none
            try check()
            try await upload.finish()
            try await writer.add(
                name, in: folder, upload.manifest, size: upload.size, isReplacing: form["replace"] != nil)
            files += 1
        }
    }
}
