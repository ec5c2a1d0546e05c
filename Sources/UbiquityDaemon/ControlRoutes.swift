import Hummingbird
import NIOCore
import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// The routes of the local socket.
struct ControlRoutes: Sendable {
    let controller: MountController
    let activity = ControlActivity()

    func router() -> Router<BasicRequestContext> {
        let router = Router()
        router.add(middleware: UnknownRoutes())
        router.get(RouterPath(ControlRoute.status)) { _, _ in try await answer { try await controller.status() } }
        add(ControlRoute.itemStatus, to: router, controller.itemStatus)
        add(ControlRoute.download, to: router, controller.download)
        add(ControlRoute.evict, to: router, controller.evict)
        add(ControlRoute.pin, to: router) { controller.setPinned(true, $0) }
        add(ControlRoute.unpin, to: router) { controller.setPinned(false, $0) }
        router.post(RouterPath(ControlRoute.offline)) { _, _ in try await setOffline(true) }
        router.post(RouterPath(ControlRoute.online)) { _, _ in try await setOffline(false) }
        add(ControlRoute.log, to: router, answering: controller.setLog)
        add(ControlRoute.deletions, to: router, answering: controller.decideDeletions)
        add(ControlRoute.doctor, to: router, answering: controller.examine)
        addVersionRoutes(to: router)
        addCoordinationRoutes(to: router)
        router.post(RouterPath(ControlRoute.queries)) { request, _ in try await query(request) }
        router.get(RouterPath(ControlRoute.events)) { _, _ in try events() }
        router.post(RouterPath(ControlRoute.wait)) { request, _ in try await wait(request) }
        router.post(RouterPath(ControlRoute.stop)) { request, _ in try await stop(request) }
        return router
    }

    private func addVersionRoutes(to router: Router<BasicRequestContext>) {
        add(ControlRoute.versions, to: router, answering: controller.versions)
        add(ControlRoute.resolve, to: router, answering: controller.resolve)
        add(ControlRoute.restore, to: router, answering: controller.restore)
        add(ControlRoute.trash, to: router, answering: controller.trash)
        add(ControlRoute.trashRestore, to: router, answering: controller.restoreFromTrash)
    }

    /// A route that takes one message and answers with one.
    func add<Wanted: Decodable & Sendable, Report: Encodable & Sendable>(
        _ route: String, to router: Router<BasicRequestContext>,
        answering work: @escaping @Sendable (Wanted) async throws -> Report
    ) {
        router.post(RouterPath(route)) { request, _ in
            try await answer { try await work(try await message(Wanted.self, of: request)) }
        }
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

    // MARK: Lines

    /// A route that takes paths and answers with one line for each result, as soon as it is known.
    private func add<Line: Encodable & Sendable>(
        _ route: String, to router: Router<BasicRequestContext>,
        _ work: @escaping @Sendable ([String]) -> @Sendable () async throws -> Line?
    ) {
        router.post(RouterPath(route)) { request, _ in
            do {
                return LineStream.response(work(try await message(PathsRequest.self, of: request).paths))
            } catch {
                return try await answer { () throws -> Acknowledgement in throw error }
            }
        }
    }

    // MARK: Wait and events

    private func wait(_ request: Request) async throws -> Response {
        do {
            let wait = try await controller.wait(for: message(WaitRequest.self, of: request))
            let isAnswered = Lock(false)
            return LineStream.response {
                let isFirst = isAnswered.withLock { answered in
                    defer { answered = true }
                    return !answered
                }
                return isFirst ? try await wait() : nil
            }
        } catch {
            return try await answer { () throws -> Acknowledgement in throw error }
        }
    }

    private func events() throws -> Response {
        guard let (number, signals) = controller.events.listen() else {
            let failure = ControlFailure(
                UbiquityError(.tooManyRequests, "too many listeners: at most \(EventHub.maximumListeners)"))
            activity.begin()
            return counted(ByteBuffer(bytes: try ControlCodec.encode(failure)), status: .conflict)
        }
        let hub = controller.events
        let body = ResponseBody { writer in
            defer { hub.forget(number) }
            try await writer.write(Self.bytes(of: controller.event(.listening)))
            // A write reveals that the client has gone, at the latest the heartbeat's.
            for await signal in signals {
                if hub.takeLoss(of: number) { try await writer.write(Self.bytes(of: controller.event(.overflow))) }
                switch signal {
                case .event(let event): try await writer.write(Self.bytes(of: event))
                case .heartbeat: try await writer.write(ByteBuffer(string: ": still here\n\n"))
                }
            }
            try await writer.finish(nil)
        }
        return Response(
            status: .ok, headers: [.contentType: "text/event-stream", .cacheControl: "no-store"], body: body)
    }

    private static func bytes(of event: ControlEvent) throws(UbiquityError) -> ByteBuffer {
        ByteBuffer(bytes: Array("data: ".utf8) + (try ControlCodec.encode(event)) + Array("\n\n".utf8))
    }
}
