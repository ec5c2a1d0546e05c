import AsyncHTTPClient
import NIOCore
import NIOPosix
import NIOSSL

internal import UbiquityCore
internal import UbiquitySystem

extension Transport {
    /// The settings of connections. No redirects, no compression, no retries: the engine decides when to retry.
    static func configuration(_ address: CloudAddress) throws(UbiquityError) -> HTTPClient.Configuration {
        var configuration = HTTPClient.Configuration()
        configuration.redirectConfiguration = .disallow
        configuration.decompression = .disabled
        configuration.httpVersion = .http1Only
        configuration.connectionPool.idleTimeout = ClientLimits.unusedConnection
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = ClientLimits.connections
        configuration.connectionPool.retryConnectionEstablishment = false
        configuration.http1_1ConnectionDebugInitializer = { channel in enlargeBuffers(of: channel) }
        if case .unixSocket(let path) = address {
            configuration.http1_1ConnectionDebugInitializer = { channel in
                requireOwnUser(channel, path).flatMap { enlargeBuffers(of: channel) }
            }
        }
        if case .web(_, let certificates) = address { configuration.tlsConfiguration = try tls(trusting: certificates) }
        return configuration
    }

    static func timed(_ configuration: HTTPClient.Configuration, _ silence: TimeAmount) -> HTTPClient.Configuration {
        var configuration = configuration
        configuration.timeout = .init(connect: ClientLimits.connect, read: silence, write: silence)
        return configuration
    }

    /// Makes dead connections fail early. A kept connection may have died silently: the device has a new address, or a
    /// router forgot it. If the peer acknowledges nothing for `limit`, the connection fails long before the answer's
    /// limit, and the call is repeated over a new one. The HTTP client does not time a body that waits for the channel
    /// either.
    /// - Parameter kernelBytes: bytes of an upload that the kernel takes before it has sent them. Without it a request
    ///   would count as sent long before it is.
    static func noticingDeadLines(
        _ configuration: HTTPClient.Configuration, _ address: CloudAddress, after limit: TimeAmount,
        kernelBytes: Int? = nil
    ) -> HTTPClient.Configuration {
        guard case .web = address else { return configuration }
        var configuration = configuration
        configuration.http1_1ConnectionDebugInitializer = { channel in
            enlargeBuffers(of: channel).flatMap {
                channel.setOption(userTimeout, value: .init(limit.nanoseconds / 1_000_000))
            }.flatMap {
                guard let kernelBytes else { return channel.eventLoop.makeSucceededVoidFuture() }
                return channel.setOption(unsentLimit, value: .init(kernelBytes))
            }
        }
        return configuration
    }

    /// TCP_NOTSENT_LOWAT of linux/tcp.h.
    private static let unsentLimit = ChannelOptions.Types.SocketOption(
        level: .tcp, name: NIOBSDSocket.Option(rawValue: 25))

    /// TCP_USER_TIMEOUT of linux/tcp.h, in milliseconds: how long sent bytes may stay unacknowledged.
    private static let userTimeout = ChannelOptions.Types.SocketOption(
        level: .tcp, name: NIOBSDSocket.Option(rawValue: 18))

    /// - Parameter certificates: nil for those that the system trusts.
    private static func tls(trusting certificates: String?) throws(UbiquityError) -> TLSConfiguration {
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.minimumTLSVersion = .tlsv12
        guard let certificates else { return tls }
        do {
            let authorities = try NIOSSLCertificate.fromPEMBytes(Array(certificates.utf8))
            guard !authorities.isEmpty else { throw UbiquityError(.invalid, "no certificate in it") }
            tls.trustRoots = .certificates(authorities)
        } catch {
            throw UbiquityError(
                .invalid, "cannot read the certificates to trust: \(error)",
                remedy: "sign in with --certificate-authority FILE; the file is in PEM")
        }
        return tls
    }

    /// Sends nothing to a process of another user, which could pose as this user's cloud.
    private static func requireOwnUser(_ channel: any Channel, _ path: String) -> EventLoopFuture<Void> {
        guard let socket = channel as? any SocketOptionProvider else {
            return channel.eventLoop.makeFailedFuture(ChannelError.operationUnsupported)
        }
        let peer: EventLoopFuture<SocketPeer> = socket.unsafeGetSocketOption(
            level: .socket, name: NIOBSDSocket.Option(rawValue: SocketPeer.option))
        return peer.flatMapThrowing { peer in
            guard !peer.isOwnUser else { return }
            throw UbiquityError(
                .notPermitted, "the cloud at this socket is another user's, \(UserName.text(peer.user)); this program "
                    + "runs as \(UserName.own)", at: path, remedy: "run the command as that user")
        }
    }

    /// Fewer and larger reads and writes than by default: chunks are 256 KiB on average.
    private static func enlargeBuffers(of channel: any Channel) -> EventLoopFuture<Void> {
        let buffers = AdaptiveRecvByteBufferAllocator(
            minimum: 1024, initial: 16 * 1024, maximum: ClientLimits.readBytes)
        return channel.setOption(.recvAllocator, value: buffers).flatMap {
            channel.setOption(.writeBufferWaterMark, value: ClientLimits.unsentBytes)
        }
    }
}
