import Hummingbird
import NIOCore
import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// Reads requests of the local socket and answers them. All routes share one, which counts the requests in progress.
struct Responder: Sendable {
    let activity = ControlActivity()

    // MARK: One message

    /// Adds a route that takes one message and answers with one.
    func add<Wanted: Decodable & Sendable, Report: Encodable & Sendable>(
        _ route: String, to router: Router<BasicRequestContext>,
        answering work: @escaping @Sendable (Wanted) async throws -> Report
    ) {
        router.post(RouterPath(route)) { request, _ in
            try await answer { try await work(try await message(Wanted.self, of: request)) }
        }
    }

    func message<Message: Decodable>(_ type: Message.Type, of request: Request) async throws -> Message {
        let body: ByteBuffer
        do {
            body = try await request.body.collect(upTo: ControlCodec.maximumRequestLength)
        } catch is NIOTooManyBytesError {
            let limit = ByteSize.text(Int64(ControlCodec.maximumRequestLength))
            throw UnreadableRequest(
                cause: UbiquityError(.tooLarge, "a request has at most \(limit)", remedy: "send several"))
        }
        do throws(UbiquityError) {
            return try ControlCodec.decode(type, from: body.readableBytesView)
        } catch { throw UnreadableRequest(cause: error) }
    }

    /// The result of `body` as JSON, or its failure.
    func answer(_ body: () async throws -> some Encodable) async throws -> Response {
        activity.begin()
        do {
            let bytes = ByteBuffer(bytes: try ControlCodec.encode(try await body()))
            return counted(bytes, status: .ok)
        } catch {
            let status = (error as? UnreadableRequest)?.status ?? .conflict
            return counted(ByteBuffer(bytes: try ControlCodec.encode(Self.failure(error))), status: status)
        }
    }

    /// The failure as JSON, for routes that answer with a stream otherwise.
    func refuse(_ error: any Error) async throws -> Response {
        try await answer { () throws -> Acknowledgement in throw error }
    }

    /// The request counts as active until the last byte of its answer is written.
    private func counted(_ bytes: ByteBuffer, status: HTTPResponse.Status) -> Response {
        let body = ResponseBody(contentLength: bytes.readableBytes) { writer in
            defer { activity.end() }
            try await writer.write(bytes)
            try await writer.finish(nil)
        }
        return Response(status: status, headers: [.contentType: "application/json"], body: body)
    }

    private static func failure(_ error: any Error) -> ControlFailure {
        switch error {
        case let error as UbiquityError: ControlFailure(error)
        case let error as UnreadableRequest: ControlFailure(error.cause)
        case is CancellationError: ControlFailure(UbiquityError(.cancelled, "cancelled"))
        default: ControlFailure(UbiquityError(.io, "\(error)"))
        }
    }

    // MARK: Streams

    /// An answer of one line that takes time.
    /// - Parameter lost: called with a line that could not be written.
    func line<Line: Encodable & Sendable>(
        _ work: @escaping @Sendable () async throws -> Line, lost: @escaping @Sendable (Line) -> Void = { _ in }
    ) -> Response {
        let isAnswered = Lock(false)
        return LineStream.response({
            let isFirst = isAnswered.withLock { answered in
                defer { answered = true }
                return !answered
            }
            return isFirst ? try await work() : nil
        }, lost: lost)
    }

    /// An answer of server-sent events.
    func events(_ body: ResponseBody) -> Response {
        Response(status: .ok, headers: [.contentType: "text/event-stream", .cacheControl: "no-store"], body: body)
    }

    /// A message as a server-sent event.
    static func event(_ message: some Encodable) throws(UbiquityError) -> ByteBuffer {
        ByteBuffer(bytes: Array("data: ".utf8) + (try ControlCodec.encode(message)) + Array("\n\n".utf8))
    }
}
