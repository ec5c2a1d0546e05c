internal import NIOCore
import NIOHTTP1

/// Sits between the HTTP parser and Hummingbird in every connection. It counts, and it refuses what no route should
/// see: bytes that are not HTTP, bodies that stall, bodies that continue after the answer.
///
/// A class for one event loop, like every channel handler.
final class ConnectionGuard: ChannelDuplexHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    private let activity: Activity
    private let counters: Counters
    private let departures: Departures
    private let silence: TimeAmount
    private let clock: ConnectionClock

    /// A request's head has arrived and its end has not.
    private var isReading = false
    /// Requests whose head has arrived and whose answer is not completely written. More than one if a client sends the
    /// next request before it has the answer.
    private var answersDue = 0
    /// The head of the first of these answers has been written.
    private var hasAnswerBegun = false
    /// The guard has answered by itself and closes.
    private var isRefused = false
    /// A reader waits for bytes; if not, the server itself causes a body's silence.
    private var isReadWanted = false
    private var bodyBegan = NIODeadline.now()
    private var lastByte = NIODeadline.now()
    private var bodyBytes = 0
    private var lingeringBytes: Int?
    private var watch: Scheduled<Void>?

    init(
        activity: Activity, counters: Counters, departures: Departures, silence: TimeAmount, clock: ConnectionClock
    ) {
        self.activity = activity
        self.counters = counters
        self.departures = departures
        self.silence = silence
        self.clock = clock
    }

    func handlerAdded(context: ChannelHandlerContext) { counters.addConnections(1) }

    func handlerRemoved(context: ChannelHandlerContext) {
        watch?.cancel()
        watch = nil
        counters.addConnections(-1)
        for _ in 0..<answersDue { activity.end() }
        answersDue = 0
    }

    func channelInactive(context: ChannelHandlerContext) {
        departures.departed(context.channel)
        context.fireChannelInactive()
    }

    /// A client that closes its end while it waits for an answer has gone: no client of this cloud closes only one
    /// half.
    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if event as? ChannelEvent == .inputClosed, answersDue > 0 { return context.close(promise: nil) }
        context.fireUserInboundEventTriggered(event)
    }

    func read(context: ChannelHandlerContext) {
        isReadWanted = true
        context.read()
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        isReadWanted = false
        context.fireChannelReadComplete()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isRefused else { return }
        switch unwrapInboundIn(data) {
        case .head(let head): begin(head, context: context)
        case .body(let bytes):
            bodyBytes += bytes.readableBytes
            lastByte = .now()
            counters.countReceived(bytes.readableBytes)
            if let already = lingeringBytes {
                lingeringBytes = already + bytes.readableBytes
                if already + bytes.readableBytes > ServerLimits.lingeringBytes { return context.close(promise: nil) }
            }
        case .end:
            isReading = false
            lingeringBytes = nil
            clock.requestEnded()
        }
        context.fireChannelRead(data)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard !isRefused else {
            promise?.fail(ChannelError.ioOnClosedChannel)
            return
        }
        switch unwrapOutboundIn(data) {
        case .head(let head): hasAnswerBegun = hasAnswerBegun || head.status.code >= 200
        case .body(.byteBuffer(let bytes)): counters.countSent(bytes.readableBytes)
        case .body(.fileRegion): break
        case .end: finish(context: context)
        }
        context.write(data, promise: promise)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // While the connection lingers, the request has been answered, and its end is expected.
        guard let error = error as? HTTPParserError, !hasAnswerBegun, !isRefused, lingeringBytes == nil else {
            return context.fireErrorCaught(error)
        }
        refuse(.badRequest, "not a request of HTTP/1.1 (\(error))", context: context)
    }

    // MARK: One request

    private func begin(_ head: HTTPRequestHead, context: ChannelHandlerContext) {
        isReading = true
        clock.requestBegan()
        answersDue += 1
        bodyBytes = 0
        bodyBegan = .now()
        lastByte = bodyBegan
        activity.begin()
        counters.countRequest()
        if head.version == .http1_1, head.headers[canonicalForm: "expect"].contains("100-continue") {
            let proceed = HTTPResponseHead(version: .http1_1, status: .continue)
            context.writeAndFlush(wrapOutboundOut(.head(proceed)), promise: nil)
        }
        startWatch(context: context)
    }

    private func finish(context: ChannelHandlerContext) {
        guard answersDue > 0 else { return }
        answersDue -= 1
        hasAnswerBegun = false
        activity.end()
        if isReading, answersDue == 0 { linger(context: context) }
    }

    /// Called when the answer is sent and the request is not completely read. Drops the remaining bytes, within limits,
    /// before it closes.
    private func linger(context: ChannelHandlerContext) {
        lingeringBytes = 0
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        context.eventLoop.scheduleTask(in: ServerLimits.lingering) {
            let (handler, context) = bound.value
            if handler.lingeringBytes != nil { context.close(promise: nil) }
        }
    }

    // MARK: Slow bodies

    /// Starts one timer per connection, and only while there are requests: most are complete before it fires.
    private func startWatch(context: ChannelHandlerContext) {
        guard watch == nil else { return }
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        watch = context.eventLoop.scheduleTask(in: silence) {
            let (handler, context) = bound.value
            handler.watch = nil
            handler.lookAtBody(context: context)
        }
    }

    private func lookAtBody(context: ChannelHandlerContext) {
        guard isReading, !isRefused else { return }
        let now = NIODeadline.now()
        let isSilent = isReadWanted && now - lastByte >= silence
        let seconds = (now - bodyBegan).nanoseconds / 1_000_000_000
        let isSlow = isReadWanted && now - bodyBegan >= silence
            && Int64(bodyBytes) < seconds * Int64(ServerLimits.minimumBodyBytesPerSecond)
        if isSilent || isSlow {
            refuse(.requestTimeout, "the request's body did not arrive in time", context: context)
        } else {
            startWatch(context: context)
        }
    }

    // MARK: Refusing

    private func refuse(_ status: HTTPResponseStatus, _ reason: String, context: ChannelHandlerContext) {
        counters.countFailure()
        defer {
            isRefused = true
            context.close(mode: .all, promise: nil)
        }
        guard !hasAnswerBegun else { return }
        let body = context.channel.allocator.buffer(string: reason + "\n")
        let headers: HTTPHeaders = [
            "content-type": "text/plain; charset=utf-8", "content-length": "\(body.readableBytes)",
            "connection": "close",
        ]
        let head = HTTPResponseHead(version: .http1_1, status: status, headers: headers)
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.write(wrapOutboundOut(.body(.byteBuffer(body))), promise: nil)
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    }
}
