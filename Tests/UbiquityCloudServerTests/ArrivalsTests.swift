import HummingbirdCore
import NIOCore
import NIOPosix
import Testing
import UbiquityCloudClient
@testable import UbiquityCloudServer
import UbiquitySystem

/// Connections that are accepted and not served.
@Suite struct ArrivalsTests {
    /// A server that drops every accepted connection, like an ending one.
    private func dropping(_ arrivals: Arrivals) async throws -> any Channel {
        let kept = KeptChannel(HTTP1Channel { _, _, _ in }, arrivals)
        return try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { kept.setup(channel: $0, logger: Harness.logger).map { _ in } }
            .bind(host: "127.0.0.1", port: 0).get()
    }

    private func connected(to server: any Channel) async throws -> any Channel {
        let address = try #require(server.localAddress)
        return try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton).connect(to: address).get()
    }

    /// Without the record the first of them would trap.
    @Test func unservedConnectionIsClosedAtTheEnd() async throws {
        let arrivals = Arrivals()
        let server = try await dropping(arrivals)
        let clients = [try await connected(to: server), try await connected(to: server)]
        try await clients[0].writeAndFlush(ByteBuffer(string: "GET / HTTP/1.1\r\nhost: x\r\n\r\n"))
        try await Harness.eventually("they wait") { arrivals.count == 2 }
        let open = clients.filter(\.isActive).count
        #expect(open == 2)
        arrivals.end()
        for client in clients { try await client.closeFuture.get() }
        #expect(arrivals.count == 0)
        // Later connections are closed at once.
        try await connected(to: server).closeFuture.get()
        try await server.close()
    }

    @Test func closedConnectionIsForgotten() async throws {
        let arrivals = Arrivals()
        let server = try await dropping(arrivals)
        let client = try await connected(to: server)
        try await Harness.eventually("it waits") { arrivals.count == 1 }
        try await client.close()
        try await Harness.eventually("it is forgotten") { arrivals.count == 0 }
        try await server.close()
    }
}
