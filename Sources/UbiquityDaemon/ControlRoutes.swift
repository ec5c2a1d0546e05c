import Hummingbird
import NIOCore
import UbiquityControl
import UbiquityCore

/// Addresses of the local socket and what answers there.
struct ControlRoutes: Sendable {
    let controller: MountController
    let activity = ControlActivity()

    func router() -> Router<BasicRequestContext> {
        let router = Router()
        router.get(RouterPath(ControlRoute.status)) { _, _ in try await answer { try await controller.status() } }
        add(ControlRoute.itemStatus, to: router, controller.itemStatus)
        add(ControlRoute.download, to: router, controller.download)
        add(ControlRoute.evict, to: router, controller.evict)
        add(ControlRoute.pin, to: router) { controller.setPinned(true, $0) }
        add(ControlRoute.unpin, to: router) { controller.setPinned(false, $0) }
        router.post(RouterPath(ControlRoute.offline)) { _, _ in try await setOffline(true) }
        router.post(RouterPath(ControlRoute.online)) { _, _ in try await setOffline(false) }
        router.get(RouterPath(ControlRoute.events)) { request, _ in try events(request) }
        router.post(RouterPath(ControlRoute.wait)) { request, _ in try await wait(request) }
        router.post(RouterPath(ControlRoute.stop)) { request, _ in try await stop(request) }
        return router
    }

    private func setOffline(_ offline: Bool) async throws -> Response {
        try await answer {
            try await controller.setOffline(offline)
            return Acknowledgement()
        }
    }

    private func stop(_ request: Request) async throws -> Response {
        try await answer {
            let wanted = try await message(StopRequest.self, of: request)
            return try await controller.stop(wanted)
        }
    }

    // MARK: One message

    /// The answer of `body` as JSON, or its failure.
    private func answer(_ body: () async throws -> some Encodable) async throws -> Response {
        activity.begin()
        do {
            let bytes = ByteBuffer(bytes: try ControlCodec.encode(try await body()))
            return counted(bytes, status: .ok)
        } catch {
            return counted(ByteBuffer(bytes: try ControlCodec.encode(Self.failure(error))), status: .conflict)
        }
    }

    /// The answer counts as being given until its last byte is written.
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
        case is CancellationError: ControlFailure(UbiquityError(.cancelled, "cancelled"))
        default: ControlFailure(UbiquityError(.io, "\(error)"))
        }
    }

    private func message<Message: Decodable>(_ type: Message.Type, of request: Request) async throws -> Message {
        let body = try await request.body.collect(upTo: ControlCodec.maximumRequestLength)
        return try ControlCodec.decode(type, from: body.readableBytesView)
    }

    // MARK: Lines

    /// A route that takes paths and answers with one line for each thing it has to tell, as soon as it has it. A client
    /// that goes away ends the work.
    private func add<Line: Encodable & Sendable>(
        _ route: String, to router: Router<BasicRequestContext>,
        _ work: @escaping @Sendable ([String]) -> AsyncThrowingStream<Line, any Error>
    ) {
        router.post(RouterPath(route)) { request, _ in
            let paths: [String]
            do {
                paths = try await message(PathsRequest.self, of: request).paths
            } catch {
                return try await answer { () throws -> Acknowledgement in throw error }
            }
            let body = ResponseBody { writer in
                var out = writer
                try await request.body.consumeWithCancellationOnInboundClose { _ in
                    for try await line in work(paths) {
                        try await out.write(ByteBuffer(bytes: try ControlCodec.encode(line) + [UInt8(ascii: "\n")]))
                    }
                }
                try await out.finish(nil)
            }
            return Response(status: .ok, headers: [.contentType: "application/x-ndjson"], body: body)
        }
    }

    // MARK: Wait and events

    private func wait(_ request: Request) async throws -> Response {
        try await answer {
            let wanted = try await message(WaitRequest.self, of: request)
            return try await request.body.consumeWithCancellationOnInboundClose { _ in
                try await controller.wait(wanted)
            }
        }
    }

    private func events(_ request: Request) throws -> Response {
        guard let (number, signals) = controller.events.listen() else {
            let failure = ControlFailure(UbiquityError(.tooManyRequests, "too many listeners"))
            activity.begin()
            return counted(ByteBuffer(bytes: try ControlCodec.encode(failure)), status: .conflict)
        }
        let hub = controller.events
        let body = ResponseBody { writer in
            defer { hub.forget(number) }
            var out = writer
            try await out.write(Self.bytes(of: controller.event(.listening)))
            try await request.body.consumeWithInboundCloseHandler { _ in
                for await signal in signals {
                    if hub.takeLoss(of: number) { try await out.write(Self.bytes(of: controller.event(.overflow))) }
                    switch signal {
                    case .event(let event): try await out.write(Self.bytes(of: event))
                    case .heartbeat: try await out.write(ByteBuffer(string: ": still here\n\n"))
                    }
                }
            } onInboundClosed: {
                hub.forget(number)
            }
            try await out.finish(nil)
        }
        return Response(
            status: .ok, headers: [.contentType: "text/event-stream", .cacheControl: "no-store"], body: body)
    }

    private static func bytes(of event: ControlEvent) throws(UbiquityError) -> ByteBuffer {
        ByteBuffer(bytes: Array("data: ".utf8) + (try ControlCodec.encode(event)) + Array("\n\n".utf8))
    }
}
