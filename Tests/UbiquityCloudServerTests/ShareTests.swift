import NIOCore
import Testing
import UbiquityCloudClient

@testable import UbiquityCloudServer
import UbiquitySystem
import UbiquityWire

/// Limits of a server for one address and for one account.
@Suite struct ShareTests {
    /// A connection that the server closes at once may fail in many ways.
    private static func isServed(_ running: RunningServer) async -> Bool {
        let request = "GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
        return (try? await Plain.exchange(request, with: running))?.hasSuffix("ok\n") == true
    }

    @Test func addressWithManyConnectionsIsRefusedMore() async throws {
        let running = try await Harness.start(
            .tcp, rules: ConnectionRules(connectionsPerAddress: 2, sparesLoopback: false))
        try await Plain.connected(to: running) { _, _ in
            #expect(await Self.isServed(running))
            try await Harness.eventually("the answered one has gone") { running.server.connectionCount == 1 }
            try await Plain.connected(to: running) { _, _ in
                try await Harness.eventually("both are counted") { running.server.connectionCount == 2 }
                #expect(await !Self.isServed(running))
                #expect(running.server.metrics.contains("\nubiquity_refused_connections_total 1\n"))
            }
            try await Harness.eventually("one has gone") { running.server.connectionCount == 1 }
            #expect(await Self.isServed(running))
        }
        running.server.stop()
        try await running.task.value
    }

    /// A proxy on the cloud's own machine, and the Unix socket.
    @Test(arguments: [Way.tcp, .unixSocket]) func connectionsFromThisMachineAreNotCounted(_ way: Way) async throws {
        let running = try await Harness.start(way, rules: ConnectionRules(connectionsPerAddress: 1))
        try await Plain.connected(to: running) { _, _ in
            try await Plain.connected(to: running) { _, _ in
                let isServed = await Self.isServed(running)
                #expect(isServed)
            }
        }
        running.server.stop()
        try await running.task.value
    }

    @Test func networksCountAsOneAddress() throws {
        func network(_ text: String) throws -> [UInt8] { try #require(InternetAddress(text)).network }
        #expect(try network("2001:db8:1:2::1") == network("2001:db8:1:2:ffff::9%eth0"))
        #expect(try network("2001:db8:1:2::1") != network("2001:db8:1:3::1"))
        #expect(try network("198.18.7.1") == network("::ffff:198.18.7.1"))
        #expect(try network("198.18.7.1") != network("198.18.7.2"))
        for text in ["", "nas", "1.2.3", "127.0.0.1.example", "[::1]"] { #expect(InternetAddress(text) == nil) }
    }

    @Test func slowUploadsOfAnAccountDelayNoOther() async throws {
        let cloud = FakeCloud()
        cloud.state.withLock { _ = $0.accounts.insert("bob") }
        let running = try await Harness.start(.tcp, cloud: cloud)
        let head = """
            POST /v1/containers/default/chunks HTTP/1.1\r\nhost: x\r\nauthorization: Bearer \(FakeCloud.token)\r
            content-type: \(WireFormat.chunkMediaType)\r\ncontent-length: 1000\r\n\r\n
            """
        let slow = 2 * ServerLimits.uploadsPerAccount
        let clients = (0..<slow).map { _ in
            Task { try await Plain.exchange(head, with: running) }
        }
        try await Harness.eventually("the limit runs, and the others wait") {
            running.server.uploads.used == ServerLimits.uploadsPerAccount
                && running.server.uploads.waiting == slow - ServerLimits.uploadsPerAccount
        }
        let client = try running.client(token: "token-of-bob")
        try await client.upload(TestChunks.make(1, length: 100))
        await client.shutdown()
        for client in clients { client.cancel() }
        for client in clients { _ = await client.result }
        running.server.stop()
        try await running.task.value
    }

    // MARK: The budget

    @Test func accountAtItsLimitDoesNotBlockOthers() async throws {
        let budget = AccountBudget(total: 3, perAccount: 2, patience: .seconds(600), refusal: "full")
        let (released, release) = AsyncStream.makeStream(of: Void.self)
        func hold(_ account: String) -> Task<Void, any Error> {
            Task { try await budget.run(1, of: account) { for await _ in released {} } }
        }
        let slow = (0..<5).map { _ in hold("slow") }
        try await Harness.eventually("two are in, three wait") { budget.used == 2 && budget.waiting == 3 }
        try await budget.run(1, of: "other") {}
        #expect(budget.used == 2 && budget.waiting == 3)
        for task in slow { task.cancel() }
        release.finish()
        for task in slow { _ = await task.result }
        #expect(budget.used == 0 && budget.waiting == 0)
    }

    @Test func requestBeyondTheWaitLimitIsRefused() async throws {
        let budget = AccountBudget(total: 1, perAccount: 1, patience: .milliseconds(1), refusal: "full")
        let (released, release) = AsyncStream.makeStream(of: Void.self)
        let holder = Task { try await budget.run(1, of: "a") { for await _ in released {} } }
        try await Harness.eventually("it is in") { budget.used == 1 }
        let refused = await #expect(throws: Overloaded.self) { try await budget.run(1, of: "b") {} }
        #expect(refused?.reason == "full")
        release.finish()
        try await holder.value
        try await budget.run(5, of: "b") { #expect(budget.used == 1) }
        #expect(budget.used == 0)
    }
}
