import Hummingbird
internal import UbiquityCloudStore
internal import UbiquityCore

/// Header fields of a published file. A browser saves it, and never runs it as a page of the cloud.
enum DownloadHeaders {
    /// For everything that a user's file can be: no script, no form, no frame, another origin than the cloud's.
    static let sandbox = "sandbox; default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

    /// Types that no browser runs. Others, such as HTML and SVG, are sent as bytes without a meaning.
    private static let types = [
        "pdf": "application/pdf", "txt": "text/plain; charset=utf-8", "md": "text/plain; charset=utf-8",
        "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif", "webp": "image/webp",
        "heic": "image/heic", "tif": "image/tiff", "tiff": "image/tiff", "mp3": "audio/mpeg", "m4a": "audio/mp4",
        "wav": "audio/wav", "ogg": "audio/ogg", "flac": "audio/flac", "mp4": "video/mp4", "mov": "video/quicktime",
        "webm": "video/webm", "zip": "application/zip", "gz": "application/gzip", "csv": "text/csv; charset=utf-8",
        "odt": "application/vnd.oasis.opendocument.text",
        "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ]

    static func mediaType(of name: String) -> String {
        guard let dot = name.lastIndex(of: ".") else { return "application/octet-stream" }
        return types[name[name.index(after: dot)...].lowercased()] ?? "application/octet-stream"
    }

    /// "attachment", with the name twice: in ASCII for old programs, and in UTF-8 (RFC 6266).
    static func disposition(_ name: String) -> String {
        let plain = String(
            name.unicodeScalars.map { scalar in
                (0x20..<0x7F).contains(scalar.value) && scalar != "\"" && scalar != "\\" ? Character(scalar) : "_"
            })
        return "attachment; filename=\"\(plain)\"; filename*=UTF-8''\(PercentEncoding.encode(name))"
    }

    static func fields(_ name: String, of link: PublishedLink) -> HTTPFields {
        var fields: HTTPFields = [
            .contentType: mediaType(of: name), .contentDisposition: disposition(name),
            .contentSecurityPolicy: sandbox, .xContentTypeOptions: "nosniff", .eTag: tag(of: link),
            .lastModified: HTTPDate.text(link.savedAt),
        ]
        add(to: &fields)
        return fields
    }

    /// Fields of every answer about a link. Its URL is a secret: it goes to no other site and to no search engine.
    static func add(to fields: inout HTTPFields) {
        fields[.cacheControl] = "private, no-cache"
        fields.set("referrer-policy", "no-referrer")
        fields.set("x-robots-tag", "noindex, nofollow")
        fields.set("cross-origin-resource-policy", "same-origin")
    }

    static func tag(of link: PublishedLink) -> String { "\"\(link.mark)\"" }
}

/// The conditions of a request, as in RFC 9110 section 13.
enum RequestCondition {
    case proceed, notModified, failed

    init(_ request: Request, tag: String, modified: Timestamp) {
        self = .proceed
        if let field = request.header("if-match") {
            if !Self.lists(field, tag) { self = .failed }
        } else if let time = request.header("if-unmodified-since").flatMap(HTTPDate.seconds), modified.seconds > time {
            self = .failed
        }
        guard case .proceed = self else { return }
        let isReading = request.method == .get || request.method == .head
        if let field = request.header("if-none-match") {
            if Self.lists(field, tag) { self = isReading ? .notModified : .failed }
        } else if let time = request.header("if-modified-since").flatMap(HTTPDate.seconds), modified.seconds <= time {
            self = isReading ? .notModified : .proceed
        }
    }

    /// Whether a range is meant for this content.
    static func allowsRange(_ request: Request, tag: String, modified: Timestamp) -> Bool {
        guard let field = request.header("if-range") else { return true }
        return field == tag || HTTPDate.seconds(field) == max(0, modified.seconds)
    }

    private static func lists(_ field: String, _ tag: String) -> Bool {
        field.split(separator: ",").contains { part in
            let part = part.trimmingSpaces
            return part == "*" || part == tag || part == "W/" + tag
        }
    }
}

extension Substring {
    fileprivate var trimmingSpaces: Substring {
        var part = drop { $0 == " " || $0 == "\t" }
        while let last = part.last, last == " " || last == "\t" { part.removeLast() }
        return part
    }
}
