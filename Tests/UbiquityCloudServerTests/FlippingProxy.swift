import NIOCore
import NIOPosix
import UbiquityCloudClient
import UbiquitySystem

/// A line between client and server that damages its traffic.
final class FlippingProxy: Sendable {
    enum Direction: Sendable { case request, answer }

    private struct State {
        var flip: (direction: Direction, offset: Int, bit: UInt8)?
        var passed: [Direction: Int] = [:]
        var flips = 0
        var recorded: [Direction: [UInt8]] = [:]
        var removedFields: [String] = []
    }

    private let state = Lock(State())
    private let listener: any Channel

    /// - Parameter port: the server's port on this machine.
    init(to port: Int) async throws {
        let box = Lock<(@Sendable (Direction, inout [UInt8]) -> Void)?>(nil)
        let pass: @Sendable (Direction, inout [UInt8]) -> Void = { direction, bytes in
            box.withLock { $0 }?(direction, &bytes)
        }
        listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { child in
                ClientBootstrap(group: child.eventLoop).connect(host: "127.0.0.1", port: port).flatMapThrowing { peer in
                    try peer.pipeline.syncOperations.addHandler(Relay(to: child) { pass(.answer, &$0) })
                    try child.pipeline.syncOperations.addHandler(Relay(to: peer) { pass(.request, &$0) })
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        box.withLock { $0 = { [weak self] in self?.pass($0, &$1) } }
    }

    var url: String { "http://127.0.0.1:\(listener.localAddress?.port ?? 0)" }

    func close() async throws { try await listener.close() }

    /// Flips one bit, once, in the byte at this offset of the traffic from now on.
    func flip(_ direction: Direction, at offset: Int, bit: UInt8 = 0) {
        state.withLock { state in
            state.flip = (direction, offset, bit)
            state.passed = [:]
        }
    }

    /// Renames fields of each answer's head.
    func remove(_ fields: String...) { state.withLock { $0.removedFields = fields } }

    func record() { state.withLock { $0.recorded = [:] } }
    func recorded(_ direction: Direction) -> [UInt8] { state.withLock { $0.recorded[direction] ?? [] } }
    var flips: Int { state.withLock { $0.flips } }

    private func pass(_ direction: Direction, _ bytes: inout [UInt8]) {
        state.withLock { state in
            state.recorded[direction, default: []] += bytes
            for field in state.removedFields where direction == .answer {
                let text = Array(field.utf8)
                if let place = bytes.indices.first(where: { bytes[$0...].starts(with: text) }) {
                    bytes[place] = UInt8(ascii: "x")
                }
            }
            let start = state.passed[direction, default: 0]
            state.passed[direction] = start + bytes.count
            guard let flip = state.flip, flip.direction == direction,
                (start..<start + bytes.count).contains(flip.offset)
            else { return }
            bytes[flip.offset - start] ^= 1 << flip.bit
            state.flip = nil
            state.flips += 1
        }
    }
}

/// Hands bytes to the other connection.
private final class Relay: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let peer: any Channel
    private let change: @Sendable (inout [UInt8]) -> Void

    init(to peer: any Channel, change: @escaping @Sendable (inout [UInt8]) -> Void) {
        self.peer = peer
        self.change = change
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var bytes = Array(unwrapInboundIn(data).readableBytesView)
        change(&bytes)
        peer.writeAndFlush(ByteBuffer(bytes: bytes), promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) { peer.close(promise: nil) }
    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
