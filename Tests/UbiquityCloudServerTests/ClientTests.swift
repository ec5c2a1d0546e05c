import NIOCore
import NIOPosix
import Testing
@testable import UbiquityCloudClient
@testable import UbiquityCloudServer
import UbiquityCore
import UbiquitySystem
import UbiquityTestSupport
import UbiquityWire

/// The client's reaction to faults.
@Suite struct ClientTests {
    @Test func missingServerIsOffline() async throws {
        let folder = try TestFolder()
        // A port that was free a moment ago, a missing socket, a missing folder on a long path, a host without a name.
        let running = try await Harness.start(.tcp)
        running.server.stop()
        try await running.task.value
        let long = folder.path + "/" + String(repeating: "x", count: 200) + "/cloud.sock"
        for text in ["\(running.address)", folder.path + "/cloud.sock", long, "http://no-such-host.invalid:1"] {
            let client = try CloudClient(
                CloudAddress(text), container: RunningServer.containerName, device: RunningServer.device, deviceName: ""
            )
            let failure = await #expect(throws: UbiquityError.self, "\(text)") { _ = try await client.open() }
            #expect(failure?.code == .offline, "\(text)")
            await client.shutdown()
        }
    }

    /// Many devices at one cloud: it exists, and is busy.
    @Test func requestAtFullQueueWaits() async throws {
        let socket = try CrowdedSocket(named: "cloud.sock")
        let client = try CloudClient(
            CloudAddress(socket.folder + "/cloud.sock"), container: RunningServer.containerName,
            device: RunningServer.device, deviceName: "")
        // The request is refused before the queue empties, or connects later: both are correct.
        async let served: Void = BlockingPool(name: "crowd", threads: 1).run { try socket.serve() }
        let asked = Task { try await client.usage() }
        let failure = await #expect(throws: UbiquityError.self) { _ = try await asked.value }
        await client.shutdown()
        // It is no cloud, but it has answered.
        #expect(failure?.message.contains("the answer is not from the cloud itself") == true, "\(failure as Any)")
        try await served
    }

    @Test func serverComesBack() async throws {
        let folder = try TestFolder()
        let cloud = FakeCloud()
        let first = try await Harness.start(.unixSocket, cloud: cloud, folder: folder)
        let client = try first.client()
        _ = try await client.usage()
        first.server.stop()
        try await first.task.value
        let second = try await Harness.start(.unixSocket, cloud: cloud, folder: folder)
        // The kept connection is closed; the call uses a new one.
        _ = try await client.usage()
        await client.shutdown()
        second.server.stop()
        try await second.task.value
    }

    @Test(arguments: [Way.tcp, .unixSocket]) func fetchIsCancelledAtOnce(_ way: Way) async throws {
        try await Harness.withServer(way) { running, client in
            let chunks = TestChunks.make(2, length: 1000)
            try await client.upload(chunks)
            let (entered, entering) = AsyncStream.makeStream(of: Void.self)
            running.container.state.withLock { state in
                state.beforeChunk = { id in
                    guard id == chunks[1].id else { return }
                    entering.finish()
                    try await Task.sleep(for: .seconds(3600))
                }
            }
            let fetch = Task { try await client.fetchChunks(chunks.map(\.id)) { _ in } }
            for await _ in entered {}
            fetch.cancel()
            await #expect(throws: CancellationError.self) { try await fetch.value }
            running.container.state.withLock { $0.beforeChunk = { _ in } }
        }
    }

    @Test func callIsCancelledAtOnce() async throws {
        try await Harness.withServer(.unixSocket) { running, client in
            let (entered, entering) = AsyncStream.makeStream(of: Void.self)
            let (released, releasing) = AsyncStream.makeStream(of: Void.self)
            running.container.state.withLock { state in
                state.beforeCommit = {
                    entering.finish()
                    for await _ in released {}
                }
            }
            let change = ItemChange(
                id: ItemID(high: 3, low: 4), kind: .file, baseRevision: .zero, changedAt: .zero, action: .delete)
            let call = Task {
                try await client.commit(CommitRequest(
                    id: RequestID(high: 1, low: 1), device: RunningServer.device, deviceName: "", changes: [change]))
            }
            for await _ in entered {}
            call.cancel()
            await #expect(throws: CancellationError.self) { _ = try await call.value }
            releasing.finish()
        }
    }

    @Test func serverDeathWithinAStreamIsAnError() async throws {
        try await withFake("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nabc") { client in
            let failure = await #expect(throws: UbiquityError.self) { _ = try await client.open() }
            #expect(failure?.code == .offline)
            let fetch = await #expect(throws: UbiquityError.self) {
                try await client.fetchChunks([TestChunks.id(of: [1])]) { _ in }
            }
            #expect(fetch?.code == .offline)
        }
    }

    @Test(arguments: [
        (
            "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 3\r\n\r\n\u{1}\u{2}\u{3}",
            UbiquityError.Code.invalid
        ),
        // A captive portal, and other servers in between.
        ("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>", .offline),
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", .offline),
        ("HTTP/1.1 204 No Content\r\n\r\n", .offline),
        ("HTTP/1.1 413 Too Large\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>", .tooLarge),
        ("HTTP/1.1 502 Bad Gateway\r\ncontent-length: 2\r\n\r\nno", .offline),
        ("HTTP/1.1 302 Found\r\nlocation: http://portal/\r\ncontent-length: 0\r\n\r\n", .offline),
        ("HTTP/1.1 404 Not Found\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>", .offline),
        ("HTTP/1.1 429 Slow Down\r\ncontent-length: 0\r\n\r\n", .offline),
        ("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n", .offline),
        ("SSH-2.0-OpenSSH_9.2\r\n", .offline), ("", .offline),
    ]) func damagedAnswersAreRefused(_ answer: String, _ code: UbiquityError.Code) async throws {
        try await withFake(answer) { client in
            let failure = await #expect(throws: UbiquityError.self) { _ = try await client.open() }
            #expect(failure?.code == code)
        }
    }

    @Test func otherChunkThanRequestedIsRefused() async throws {
        let chunk = TestChunks.chunk([1, 2, 3])
        let frame = ChunkFrame.encode(chunk)
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: \(WireFormat.chunkMediaType)\r\ncontent-length: \(frame.count)\r\n\r\n"
        try await withFake(Array(head.utf8) + frame) { client in
            let received = Lock<[Chunk]>([])
            try await client.fetchChunks([chunk.id]) { chunk in received.withLock { $0.append(chunk) } }
            #expect(received.withLock { $0 } == [chunk])
            let other = await #expect(throws: UbiquityError.self) {
                try await client.fetchChunks([TestChunks.id(of: [9])]) { _ in }
            }
            #expect(other?.code == .damaged)
            let more = await #expect(throws: UbiquityError.self) {
                try await client.fetchChunks([chunk.id, chunk.id]) { _ in }
            }
            #expect(more?.code == .offline)
        }
    }

    @Test func oneConnectionServesManyCalls() async throws {
        let usage = CloudUsage(usedBytes: 1, quotaBytes: 2)
        let body = try WireCodec.encode(usage, as: .protobuf)
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: \(WireFormat.protobuf.mediaType)\r\ncontent-length: \(body.count)\r\n\r\n"
        let answer = Array(head.utf8) + body
        let connections = Lock(0)
        let server: @Sendable () -> any ChannelHandler = {
            connections.withLock { $0 += 1 }
            return AnswerAndStay(answer: answer)
        }
        try await withServer(server) { client in
            for _ in 0..<50 {
                let told = try await client.usage()
                #expect(told == usage)
            }
        }
        // A call may begin while the earlier one returns its connection.
        #expect((1...2).contains(connections.withLock { $0 }))
    }

    @Test func malformedNewsAreRefused() async throws {
        let body = "event: revision\ndata: {\"revision\":4}\n\nevent: revision\ndata: soon\n\n"
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: \(body.utf8.count)\r\n\r\n"
        try await withFake(head + body) { client in
            let failure = await #expect(throws: UbiquityError.self) {
                for try await revision in try await client.news() { #expect(revision == Revision(4)) }
            }
            #expect(failure?.code == .invalid)
        }
    }

    @Test func tlsVerifiesTheCertificate() async throws {
        let folder = try TestFolder()
        let (certificate, key) = (folder.path + "/cert.pem", folder.path + "/key.pem")
        try SmallFile.publish(Array(TestCertificate.certificate.utf8), at: certificate)
        try SmallFile.publish(Array(TestCertificate.key.utf8), at: key)
        let running = try await Harness.start(
            .tls(host: "127.0.0.1", port: 0, certificate: certificate, key: key), cloud: FakeCloud(), folder: folder,
            certificates: TestCertificate.certificate)
        let client = try running.client()
        #expect(try await client.open().account == FakeCloud.account)
        let chunks = TestChunks.make(10, length: 400_000)
        try await client.upload(chunks)
        try await client.fetchChunks(chunks.map(\.id)) { _ in }
        await client.shutdown()
        let stranger = try CloudClient(
            CloudAddress("\(running.address)"), container: RunningServer.containerName, token: FakeCloud.token,
            device: RunningServer.device, deviceName: "")
        let failure = await #expect(throws: UbiquityError.self) { _ = try await stranger.open() }
        #expect(failure?.code == .offline)
        #expect(failure?.message.contains("does not trust") == true)
        #expect(failure?.remedy.contains("--certificate-authority") == true)
        await stranger.shutdown()
        running.server.stop()
        try await running.task.value
        #expect(throws: UbiquityError.self) {
            _ = try CloudClient(
                CloudAddress("https://a", certificates: TestCertificate.key), container: RunningServer.containerName,
                device: RunningServer.device, deviceName: "")
        }
        let broken = await #expect(throws: UbiquityError.self) {
            _ = try await Harness.start(
                .tls(host: "127.0.0.1", port: 0, certificate: key, key: certificate), cloud: FakeCloud(), folder: folder
            )
        }
        #expect(broken?.code == .invalid)
    }

    private func withFake(_ answer: String, _ body: (CloudClient) async throws -> Void) async throws {
        try await withFake(Array(answer.utf8), body)
    }

    /// A server that answers every request with these bytes and closes.
    private func withFake(_ answer: [UInt8], _ body: (CloudClient) async throws -> Void) async throws {
        try await withServer({ AnswerAndClose(answer: answer) }, body)
    }

    /// A server with such a handler for each connection.
    private func withServer(
        _ handler: @escaping @Sendable () -> any ChannelHandler, _ body: (CloudClient) async throws -> Void
    ) async throws {
        let folder = try TestFolder()
        let path = folder.path + "/s"
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(handler())
                }
            }
            .bind(unixDomainSocketPath: path).get()
        let client = try CloudClient(
            CloudAddress(path), container: RunningServer.containerName, device: RunningServer.device, deviceName: "")
        do {
            try await body(client)
        } catch {
            await client.shutdown()
            try await listener.close()
            throw error
        }
        await client.shutdown()
        try await listener.close()
    }
}

/// Writes its bytes after the first input, and closes.
private final class AnswerAndClose: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let answer: [UInt8]
    private var isDone = false

    init(answer: [UInt8]) { self.answer = answer }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isDone else { return }
        isDone = true
        let bound = NIOLoopBound(context, eventLoop: context.eventLoop)
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: answer))).whenComplete { _ in
            bound.value.close(promise: nil)
        }
    }
}

/// Answers each request with its bytes, and waits for the next one.
private final class AnswerAndStay: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let answer: [UInt8]
    private var request: [UInt8] = []

    init(answer: [UInt8]) { self.answer = answer }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        request += unwrapInboundIn(data).readableBytesView
        guard request.suffix(4).elementsEqual("\r\n\r\n".utf8) else { return }
        request = []
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: answer)), promise: nil)
    }
}
