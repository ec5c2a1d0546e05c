internal import NIOCore

/// Closes connections whose client is too slow: its header does not arrive, or it does not read its answer.
///
/// It sits between the socket (or TLS) and the HTTP parser, where it sees the first byte of a header and every byte of
/// an answer. A class for one event loop, like every channel handler.
final class ConnectionClock: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = IOData
    typealias OutboundOut = IOData

    private let headerTime: TimeAmount
    private let answerSilence: TimeAmount

    /// A request's header is complete and its end has not arrived.
    private var isInRequest = false
    private var header: Scheduled<Void>?
    private var answer: Scheduled<Void>?
    private var written = 0
    private var progress = AnswerProgress(written: 0, waiting: 0)

    init(_ rules: ConnectionRules) {
        headerTime = rules.headerTime
        answerSilence = rules.answerSilence
    }

    /// The time of the first header starts here and includes a TLS handshake.
    func handlerAdded(context: ChannelHandlerContext) { awaitHeader(context: context) }

    func handlerRemoved(context: ChannelHandlerContext) {
        header?.cancel()
        answer?.cancel()
        (header, answer) = (nil, nil)
    }

    // MARK: Headers

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if !isInRequest { awaitHeader(context: context) }
        // The last byte goes by itself. Where the request ends before it, that byte belongs to the next header.
        var bytes = unwrapInboundIn(data)
        guard let first = bytes.readSlice(length: bytes.readableBytes - 1) else { return context.fireChannelRead(data) }
        if first.readableBytes > 0 { context.fireChannelRead(wrapInboundOut(first)) }
        if !isInRequest { awaitHeader(context: context) }
        context.fireChannelRead(wrapInboundOut(bytes))
    }

    /// Called when a header is complete.
    func requestBegan() {
        isInRequest = true
        header?.cancel()
        header = nil
    }

    /// Called when a request is complete. The time of the next header starts with its first byte.
    func requestEnded() { isInRequest = false }

    private func awaitHeader(context: ChannelHandlerContext) {
        guard header == nil else { return }
        let bound = NIOLoopBound(context, eventLoop: context.eventLoop)
        header = context.eventLoop.scheduleTask(in: headerTime) { bound.value.close(promise: nil) }
    }

    // MARK: Answers

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        awaitReader(context: context)
        written += unwrapOutboundIn(data).readableBytes
        context.write(data, promise: promise)
    }

    private func awaitReader(context: ChannelHandlerContext) {
        guard answer == nil else { return }
        progress = AnswerProgress(written: written, waiting: waiting(context))
        scheduleLook(context: context)
    }

    private func scheduleLook(context: ChannelHandlerContext) {
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        answer = context.eventLoop.scheduleTask(in: answerSilence) {
            let (clock, context) = bound.value
            clock.look(context: context)
        }
    }

    private func look(context: ChannelHandlerContext) {
        answer = nil
        let waiting = waiting(context)
        guard waiting > 0 else { return }
        if progress.isStuck(written: written, waiting: waiting) {
            context.close(promise: nil)
        } else {
            scheduleLook(context: context)
        }
    }

    /// A channel that cannot report its waiting bytes has been closed.
    private func waiting(_ context: ChannelHandlerContext) -> Int {
        (try? context.channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0
    }
}
