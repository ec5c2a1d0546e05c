import Hummingbird
internal import NIOCore
internal import UbiquityCore
internal import UbiquitySystem
internal import UbiquityWire

extension Request {
    /// Decodes the message in the body. Its length is limited before it is read.
    func message<Value: WireValue>(_ type: Value.Type, limit: Int) async throws -> Value {
        let format: WireFormat
        switch header("content-type") {
        case nil: format = .protobuf
        case let text?:
            guard let named = WireFormat(mediaType: text) else {
                throw UbiquityError(
                    .notSupported, "content of type \"\(text.prefix(80))\" cannot be read",
                    remedy: "send application/json or \(WireFormat.protobuf.mediaType)")
            }
            format = named
        }
        let bytes = try await bytes(limit: limit)
        guard bytes.count > ServerLimits.smallBody else { return try WireCodec.decode(type, from: bytes, as: format) }
        return try await Self.decoding.run { try WireCodec.decode(type, from: bytes, as: format) }
    }

    /// Threads that decode large messages, so that the cooperative threads stay free.
    private static let decoding = BlockingPool(name: "decoding", threads: ServerLimits.decoders)

    /// The whole body. Throws `DamagedRequest` if it does not match its digest.
    func bytes(limit: Int) async throws -> [UInt8] {
        var bytes = [UInt8](), digest = BodyDigest()
        bytes.reserveCapacity(try announcedLength(limit: limit))
        for try await part in body {
            guard bytes.count + part.readableBytes <= limit else { throw Self.tooLong(limit) }
            part.withUnsafeReadableBytes { raw in
                digest.add(raw)
                bytes.append(contentsOf: raw)
            }
        }
        try checkBody(digest)
        return bytes
    }

    /// The value of Content-Length, or zero without one. Throws before the first byte is read if it exceeds `limit`.
    @discardableResult
    func announcedLength(limit: Int) throws -> Int {
        guard let text = header("content-length") else { return 0 }
        guard let length = Int(text), length >= 0 else {
            throw UbiquityError(.invalid, "Content-Length is not a number")
        }
        guard length <= limit else { throw Self.tooLong(limit) }
        return length
    }

    static func tooLong(_ limit: Int) -> UbiquityError {
        UbiquityError(.tooLarge, "the request's body is longer than \(limit) bytes")
    }
}

extension Response {
    /// An answer with a message.
    init(_ value: some WireValue, for request: Request, status: HTTPResponse.Status = .ok) throws {
        let format = request.answerFormat
        self.init(status: status, mediaType: format.mediaType, bytes: try WireCodec.encode(value, as: format))
    }

    init(status: HTTPResponse.Status, mediaType: String, bytes: [UInt8]) {
        self.init(
            status: status, headers: [.contentType: mediaType, .cacheControl: "no-store"],
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: bytes)))
        headers.set(MessageDigest.contentField, MessageDigest.field(of: bytes))
        headers.set(MessageDigest.supportField, MessageDigest.support)
    }

    init(status: HTTPResponse.Status, text: String) {
        self.init(status: status, mediaType: "text/plain; charset=utf-8", bytes: Array(text.utf8))
    }
}
