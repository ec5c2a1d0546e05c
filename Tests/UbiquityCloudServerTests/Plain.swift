import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import NIOPosix
import UbiquityCloudClient

/// Requests like those of `curl`.
enum Plain {
    struct Answer {
        let status: Int
        let headers: HTTPHeaders
        let bytes: [UInt8]
        var text: String { String(decoding: bytes, as: UTF8.self) }
    }

    static func send(
        _ method: HTTPMethod, _ path: String, to running: RunningServer, headers: HTTPHeaders = ["accept": "*/*"],
        body: [UInt8]? = nil, token: String? = FakeCloud.token
    ) async throws -> Answer {
        var request = HTTPClientRequest(url: base(running.address) + path)
        request.method = method
        request.headers = headers
        if running.isTCP, let token { request.headers.add(name: "authorization", value: "Bearer \(token)") }
        if let body { request.body = .bytes(ByteBuffer(bytes: body)) }
        let response = try await HTTPClient.shared.execute(request, timeout: .seconds(20))
        let bytes = try await response.body.collect(upTo: 1 << 26)
        return Answer(
            status: Int(response.status.code), headers: response.headers, bytes: Array(bytes.readableBytesView))
    }

    static func base(_ address: CloudAddress) -> String {
        switch address {
        case .web(let url, _): url
        case .unixSocket(let path): "http+unix://" + path.replacing("/", with: "%2F")
        }
    }

    /// Sends bytes over a new connection and reads until the server closes it.
    static func exchange(_ text: String, with running: RunningServer) async throws -> String {
        try await connected(to: running) { inbound, outbound in
            try await outbound.write(ByteBuffer(string: text))
            var answer = ""
            for try await part in inbound { answer += String(buffer: part) }
            return answer
        }
    }

    private static let wrap: @Sendable (any Channel) -> EventLoopFuture<NIOAsyncChannel<ByteBuffer, ByteBuffer>> = {
        channel in
        channel.eventLoop.makeCompletedFuture {
            try NIOAsyncChannel<ByteBuffer, ByteBuffer>(wrappingChannelSynchronously: channel)
        }
    }

    /// A connection to a server of this machine by its port.
    static func conversation<R: Sendable>(
        port: Int,
        _ body: (NIOAsyncChannelInboundStream<ByteBuffer>, NIOAsyncChannelOutboundWriter<ByteBuffer>) async throws -> R
    ) async throws -> R {
        let bootstrap = ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
        let channel = try await bootstrap.connect(host: "127.0.0.1", port: port, channelInitializer: wrap)
        return try await channel.executeThenClose { try await body($0, $1) }
    }

    static func connected<R: Sendable>(
        to running: RunningServer,
        _ body: (NIOAsyncChannelInboundStream<ByteBuffer>, NIOAsyncChannelOutboundWriter<ByteBuffer>) async throws -> R
    ) async throws -> R {
        let bootstrap = ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
        let channel: NIOAsyncChannel<ByteBuffer, ByteBuffer>
        switch running.address {
        case .web(let url, _):
            guard let port = url.split(separator: ":").last.flatMap({ Int($0) }) else {
                throw HarnessFailure(reason: "no port in \(url)")
            }
            channel = try await bootstrap.connect(host: "127.0.0.1", port: port, channelInitializer: wrap)
        case .unixSocket(let path):
            channel = try await bootstrap.connect(unixDomainSocketPath: path, channelInitializer: wrap)
        }
        return try await channel.executeThenClose { try await body($0, $1) }
    }
}
