internal import HummingbirdCore
internal import Logging
internal import NIOCore
import NIOHTTP1

/// A connection: Hummingbird's HTTP/1.1 with this server's buffer sizes and guard.
struct CloudChannel: ServerChildChannel {
    typealias Value = HTTP1Channel.Value

    let http: HTTP1Channel
    let activity: Activity
    let counters: Counters
    let departures: Departures
    let rules: ConnectionRules
    let addresses: AddressLimit

    init(
        activity: Activity, counters: Counters, departures: Departures, rules: ConnectionRules,
        addresses: AddressLimit, responder: @escaping HTTPChannelHandler.Responder
    ) {
        let decoder = HTTP1Channel.Configuration.DecoderConfiguration(
            maxHeaderFieldSize: ServerLimits.headerBytes, maxHeaderListSize: ServerLimits.headerBytes,
            maxHeaderFieldCount: 100)
        http = HTTP1Channel(
            responder: responder,
            configuration: .init(idleTimeout: ServerLimits.idleConnection, httpDecoderConfiguration: decoder))
        self.activity = activity
        self.counters = counters
        self.departures = departures
        self.rules = rules
        self.addresses = addresses
    }

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
        let buffers = AdaptiveRecvByteBufferAllocator(
            minimum: 1024, initial: 16 * 1024, maximum: ServerLimits.readBytes)
        return channel.eventLoop.makeCompletedFuture {
            try channel.syncOptions?.setOption(.recvAllocator, value: buffers)
            try channel.syncOptions?.setOption(.writeBufferWaterMark, value: ServerLimits.unsentBytes)
            if channel.remoteAddress?.ipAddress != nil {
                try channel.syncOptions?.setOption(Self.unsentLimit, value: .init(ServerLimits.kernelBytes))
            }
        }.flatMap {
            http.setup(channel: channel, logger: logger)
        }.flatMapThrowing { value in
            let pipeline = channel.pipeline.syncOperations
            let clock = ConnectionClock(rules)
            let decoder = try pipeline.handler(type: ByteToMessageHandler<HTTPRequestDecoder>.self)
            let watcher = ConnectionGuard(
                activity: activity, counters: counters, departures: departures, silence: rules.bodySilence,
                clock: clock)
            try pipeline.addHandler(watcher, position: .after(decoder))
            let encoder = try pipeline.handler(type: HTTPResponseEncoder.self)
            try pipeline.addHandler(clock, position: .before(encoder))
            if !addresses.admit(channel, logger: logger) {
                counters.countRefusedConnection()
                channel.close(promise: nil)
            }
            return value
        }
    }

    /// TCP_NOTSENT_LOWAT of linux/tcp.h.
    private static let unsentLimit = ChannelOptions.Types.SocketOption(
        level: .tcp, name: NIOBSDSocket.Option(rawValue: 25))

    func handle(value: Value, logger: Logger) async { await http.handle(value: value, logger: logger) }
}
