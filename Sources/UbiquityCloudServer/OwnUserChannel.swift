package import HummingbirdCore
package import Logging
package import NIOCore
internal import UbiquityCore
internal import UbiquitySystem

/// Connections over a Unix socket from processes of this process's user. Other users get a refusal and are closed;
/// their bytes are dropped.
///
/// The socket's mode keeps other users away as well, but not root.
package struct OwnUserChannel<Served: ServerChildChannel>: ServerChildChannel {
    package typealias Value = Served.Value

    private let served: Served

    package init(_ served: Served) { self.served = served }

    package func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
        guard let socket = channel as? any SocketOptionProvider else {
            return channel.eventLoop.makeFailedFuture(ChannelError.operationUnsupported)
        }
        let peer: EventLoopFuture<SocketPeer> = socket.unsafeGetSocketOption(
            level: .socket, name: NIOBSDSocket.Option(rawValue: SocketPeer.option))
        return peer.flatMap { peer in
            guard !peer.isOwnUser else { return served.setup(channel: channel, logger: logger) }
            // First in the pipeline, so that all other handlers get nothing to read.
            return channel.eventLoop.makeCompletedFuture {
                try channel.pipeline.syncOperations.addHandler(PeerRefusal(peer))
            }.flatMap { served.setup(channel: channel, logger: logger) }
        }
    }

    package func handle(value: Value, logger: Logger) async { await served.handle(value: value, logger: logger) }
}

/// Answers a process of another user with a refusal, whatever it sends, and closes the connection.
private final class PeerRefusal: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// Limit for a process that sends nothing.
    private static let limit = TimeAmount.seconds(5)

    private let response: String
    private var hasAnswered = false

    init(_ peer: SocketPeer) { response = Self.response(to: peer) }

    func channelActive(context: ChannelHandlerContext) {
        let channel = context.channel
        channel.eventLoop.scheduleTask(in: Self.limit) { channel.close(promise: nil) }
        context.fireChannelActive()
        context.read()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !hasAnswered else { return }
        hasAnswered = true
        let channel = context.channel
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: response))).whenComplete { _ in
            channel.close(promise: nil)
        }
    }

    /// The whole HTTP response, with a body in the form of every other refusal.
    private static func response(to peer: SocketPeer) -> String {
        let message = "this socket serves \(UserName.own) only, not \(UserName.text(peer.user))"
        // Such user names need no escaping in JSON; for any other name the message omits it.
        let isPlain = message.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F && $0 != 0x22 && $0 != 0x5C }
        let text = isPlain ? message : "this socket serves its own user only"
        let code = UbiquityError.Code.notPermitted.rawValue
        let body = "{\"code\":\"\(code)\",\"message\":\"\(text)\",\"place\":\"\",\"remedy\":\"\"}"
        return "HTTP/1.1 403 Forbidden\r\ncontent-type: application/json\r\nconnection: close\r\n"
            + "content-length: \(body.utf8.count)\r\n\r\n\(body)"
    }
}
