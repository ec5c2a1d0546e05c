import NIOCore
import NIOEmbedded
import NIOHTTP1
import Testing

@testable import UbiquityCloudServer
import UbiquitySystem
import UbiquityWire

/// Deliberately slow clients: they send a header slowly, or read an answer slowly.
@Suite struct SlowClientTests {
    private static let request = "GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n"

    /// A connection as `CloudChannel` makes it, with a clock that the test moves.
    private static func channel() throws -> EmbeddedChannel {
        let channel = EmbeddedChannel()
        let pipeline = channel.pipeline.syncOperations
        let clock = ConnectionClock(ConnectionRules())
        try pipeline.addHandler(clock)
        try pipeline.addHandler(HTTPResponseEncoder())
        try pipeline.addHandler(ByteToMessageHandler(HTTPRequestDecoder()))
        let watcher = ConnectionGuard(
            activity: Activity(), counters: Counters(), departures: Departures(), silence: .hours(1), clock: clock)
        try pipeline.addHandler(watcher)
        try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        return channel
    }

    private static func send(_ text: String, _ channel: EmbeddedChannel) throws {
        try channel.writeInbound(ByteBuffer(string: text))
    }

    @Test(arguments: ["", "GET", "GET /healthz HTTP/1.1\r\nhost: a\r\n"]) func firstHeaderIsLimitedInTime(
        _ text: String
    ) throws {
        let channel = try Self.channel()
        channel.embeddedEventLoop.advanceTime(by: .seconds(4))
        if !text.isEmpty { try Self.send(text, channel) }
        channel.embeddedEventLoop.advanceTime(by: ServerLimits.headerTime - .seconds(5))
        #expect(channel.isActive)
        channel.embeddedEventLoop.advanceTime(by: .seconds(1))
        #expect(!channel.isActive)
    }

    @Test func laterHeaderIsLimitedFromItsFirstByte() throws {
        let channel = try Self.channel()
        try Self.send(Self.request, channel)
        channel.embeddedEventLoop.advanceTime(by: .minutes(1))
        try Self.send("GET /", channel)
        channel.embeddedEventLoop.advanceTime(by: ServerLimits.headerTime - .seconds(1))
        try Self.send("healthz", channel)
        #expect(channel.isActive)
        channel.embeddedEventLoop.advanceTime(by: .seconds(1))
        #expect(!channel.isActive)
    }

    /// The next header begins in the packet that ends a request.
    @Test(arguments: [
        request + "G", request + "GET /healthz HTTP/1.1\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\nbodyGET /",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\nGET",
        request + request + "GE",
    ]) func headerInAnotherRequestsPacketIsLimited(_ text: String) throws {
        let channel = try Self.channel()
        try Self.send(text, channel)
        channel.embeddedEventLoop.advanceTime(by: ServerLimits.headerTime - .seconds(1))
        #expect(channel.isActive)
        channel.embeddedEventLoop.advanceTime(by: .seconds(1))
        #expect(!channel.isActive)
    }

    @Test(arguments: [
        request, request + request, "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\nbody",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
    ]) func packetEndingWithARequestStartsNoLimit(_ text: String) throws {
        let channel = try Self.channel()
        try Self.send(text, channel)
        channel.embeddedEventLoop.advanceTime(by: .minutes(1))
        #expect(channel.isActive)
        _ = try channel.finish(acceptAlreadyClosed: true)
    }

    /// The body has limits of its own, and so has a connection between two requests.
    @Test func completeHeaderEndsTheLimit() throws {
        let channel = try Self.channel()
        try Self.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\n", channel)
        for _ in 0..<3 {
            channel.embeddedEventLoop.advanceTime(by: .minutes(1))
            try Self.send("a", channel)
        }
        channel.embeddedEventLoop.advanceTime(by: .minutes(1))
        try Self.send("a", channel)
        channel.embeddedEventLoop.advanceTime(by: .minutes(1))
        for _ in 0..<2 {
            try Self.send(Self.request, channel)
            channel.embeddedEventLoop.advanceTime(by: .minutes(1))
        }
        #expect(channel.isActive)
        _ = try channel.finish(acceptAlreadyClosed: true)
    }

    @Test(arguments: [Way.tcp, .unixSocket]) func silentConnectionIsClosed(_ way: Way) async throws {
        let running = try await Harness.start(way, rules: ConnectionRules(headerTime: .milliseconds(50)))
        for text in ["", "GET /healthz HTTP/1.1\r\n"] {
            // It may be closed before the client has sent anything, which is an error there.
            let answer = (try? await Plain.exchange(text, with: running)) ?? ""
            #expect(!answer.contains(" 200 "))
        }
        running.server.stop()
        try await running.task.value
    }

    @Test func unreadAnswerClosesTheConnection() async throws {
        let running = try await Harness.start(
            .unixSocket, rules: ConnectionRules(answerSilence: .milliseconds(50)))
        let chunks = TestChunks.make(16, length: 1_000_000)
        running.container.state.withLock { state in for chunk in chunks { state.chunks[chunk.id] = chunk.bytes } }
        let body = try WireCodec.encode(ChunkIDs(chunks.map(\.id)), as: .protobuf)
        let head = """
            POST /v1/containers/default/chunks/fetch HTTP/1.1\r\nhost: a\r
            content-type: \(WireFormat.protobuf.mediaType)\r\ncontent-length: \(body.count)\r\n\r\n
            """
        try await Plain.connected(to: running) { _, outbound in
            try await outbound.write(ByteBuffer(bytes: Array(head.utf8) + body))
            try await Harness.eventually("the request has come") { !running.server.isIdle }
            try await Harness.eventually("the request is cancelled") { running.server.isIdle }
        }
        running.server.stop()
        try await running.task.value
    }

    @Test func clientThatReadsAnythingIsNotStuck() {
        var progress = AnswerProgress(written: 0, waiting: 0)
        let looks = [(1000, 999), (5000, 4998), (5000, 4997), (5000, 4997), (9000, 8997), (9000, 0), (9000, 0)]
        var stuck = [Bool]()
        for (written, waiting) in looks { stuck.append(progress.isStuck(written: written, waiting: waiting)) }
        #expect(stuck == [false, false, false, true, true, false, false])
    }
}
