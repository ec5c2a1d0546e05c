import Hummingbird
internal import HummingbirdCore
internal import Logging
internal import NIOCore
import NIOPosix
internal import UbiquityCore
internal import UbiquitySystem

/// One address of a server.
final class Listener: Sendable {
    private let place: SocketPlace?
    /// The address as it was configured, for messages.
    private let name: String
    /// Nil without TLS.
    let certificate: ServerCertificate?
    private let start: @Sendable () async throws -> Void
    private let stop: @Sendable () async throws -> Void

    /// - Parameter isReady: called with the address, once it listens.
    init(
        _ endpoint: CloudServerConfiguration.Endpoint, channel: CloudChannel, logger: Logger,
        isReady: @escaping @Sendable (Result<String, any Error>) -> Void
    ) throws {
        let place: SocketPlace?
        let bind: BindAddress
        var certificate: ServerCertificate?
        switch endpoint {
        case .tcp(let host, let port): (place, bind) = (nil, .hostname(host, port: port))
        case .tls(let host, let port, let file, let key):
            (place, bind) = (nil, .hostname(host, port: port))
            certificate = try ServerCertificate(certificate: file, key: key)
        case .unixSocket(let path):
            let socket = try SocketPlace(path, random: SystemRandom())
            (place, bind) = (socket, .unixDomainSocket(path: socket.bindPath))
        }
        self.place = place
        name = place?.path ?? endpoint.host
        self.certificate = certificate
        let scheme = certificate == nil ? "http" : "https"
        let ready: @Sendable (any Channel) async -> Void = { channel in
            isReady(Result { try Self.publish(channel, scheme: scheme, host: endpoint.host, place: place) })
        }
        let configuration = ServerConfiguration(
            address: bind, backlog: ServerLimits.backlog,
            availableConnectionsDelegate: .maximum(ServerLimits.connections, logger: logger))
        if let certificate {
            let secured = SecuredChannel(base: channel, certificate: certificate)
            (start, stop) = Self.server(secured, configuration, ready, logger)
        } else if place != nil {
            (start, stop) = Self.server(OwnUserChannel(channel), configuration, ready, logger)
        } else {
            (start, stop) = Self.server(channel, configuration, ready, logger)
        }
    }

    /// Serves until `end`, or until the task is cancelled.
    func run() async throws {
        do {
            try await start()
        } catch let error as IOError {
            throw UbiquityError(Errno(rawValue: error.errnoCode), doing: "listen", at: name)
        } catch let error as SocketAddressError {
            throw UbiquityError(.invalid, "cannot listen: no such address (\(error))", at: name)
        } catch let error as SocketAddressError.UnknownHost {
            throw UbiquityError(
                .invalid, "cannot listen: \(error.errorDescription)", at: name,
                remedy: "give an address of this machine, for example 127.0.0.1:7070")
        }
    }

    /// Accepts no more connections.
    func retire() { place?.retire() }

    /// Completes the answers in progress, closes the other connections, and then `run` returns.
    func end() async {
        retire()
        // Throws only if it has not begun or has ended already: then there is nothing to end.
        try? await stop()
    }

    private static func server<Child: ServerChildChannel>(
        _ child: Child, _ configuration: ServerConfiguration, _ ready: @escaping @Sendable (any Channel) async -> Void,
        _ logger: Logger
    ) -> (@Sendable () async throws -> Void, @Sendable () async throws -> Void) {
        let arrivals = Arrivals()
        let server = Server(
            childChannelSetup: KeptChannel(child, arrivals), configuration: configuration, onServerRunning: ready,
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton, logger: logger)
        let run: @Sendable () async throws -> Void = {
            defer { arrivals.end() }
            try await server.run()
        }
        return (run, { try await server.shutdownGracefully() })
    }

    private static func publish(
        _ channel: any Channel, scheme: String, host: String, place: SocketPlace?
    ) throws -> String {
        if let place {
            try place.publish()
            return place.path
        }
        let shown = host.contains(":") ? "[\(host)]" : host
        return "\(scheme)://\(shown):\(channel.localAddress?.port ?? 0)"
    }
}

extension CloudServerConfiguration.Endpoint {
    fileprivate var host: String {
        switch self {
        case .tcp(let host, _), .tls(let host, _, _, _): host
        case .unixSocket: ""
        }
    }
}
