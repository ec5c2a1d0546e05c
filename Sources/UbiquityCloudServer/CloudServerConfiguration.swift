internal import UbiquityCore

/// Addresses and limits of a cloud server.
package struct CloudServerConfiguration: Sendable {
    /// Where the server listens. TCP requests need a token. Requests over a Unix socket without a token belong to the
    /// account `local`, and only they may manage accounts: whoever can open the socket owns the cloud's files anyway.
    package enum Endpoint: Hashable, Sendable {
        /// Port 0 takes a free one.
        case tcp(host: String, port: Int)
        /// With TLS; both files are PEM.
        case tls(host: String, port: Int, certificate: String, key: String)
        /// Mode 0600. The path may be longer than the kernel's 107 bytes.
        case unixSocket(path: String)
    }

    package var endpoints: [Endpoint]
    /// The server ends when no request and no stream was active for this time; nil: never.
    package var endsAfterIdle: Duration?
    /// How long requests may continue after the server was asked to end; then they are cancelled.
    package var shutdownLimit: Duration

    /// Connections allowed per address; nil for the standard. Those from this machine are not counted.
    package var connectionsPerAddress: Int?

    package static let defaultIdleLimit: Duration = .seconds(30)
    package static let defaultShutdownLimit: Duration = .seconds(10)

    package init(
        endpoints: [Endpoint], endsAfterIdle: Duration? = nil, shutdownLimit: Duration = Self.defaultShutdownLimit,
        connectionsPerAddress: Int? = nil
    ) {
        self.endpoints = endpoints
        self.endsAfterIdle = endsAfterIdle
        self.shutdownLimit = shutdownLimit
        self.connectionsPerAddress = connectionsPerAddress
    }
}

extension CloudServerConfiguration.Endpoint {
    /// Parses "HOST:PORT" or "[IPv6]:PORT", as `--listen` takes it. Throws `.invalid`.
    package static func address(_ text: String) throws -> (host: String, port: Int) {
        guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) else {
            throw UbiquityError(.invalid, "\"\(text)\" is not HOST:PORT", remedy: "for example 127.0.0.1:7070")
        }
        var host = String(text[..<colon])
        if host.hasPrefix("["), host.hasSuffix("]") { host = String(host.dropFirst().dropLast()) }
        guard !host.isEmpty else {
            throw UbiquityError(.invalid, "\"\(text)\" names no host", remedy: "0.0.0.0 is every interface")
        }
        return (host, Int(port))
    }
}
