import NIOCore
import NIOHTTP1
import Testing
import UbiquityCloudClient
import UbiquityCore
import UbiquityWire

/// Answers to `curl`.
@Suite struct CurlTests {
    private static let base = "/v1/containers/default"

    @Test(arguments: [Way.tcp, .unixSocket]) func jsonForPeople(_ way: Way) async throws {
        try await Harness.withServer(way) { running, _ in
            let usage = try await Plain.send(.GET, Self.base + "/usage", to: running)
            #expect(usage.headers.first(name: "content-type") == "application/json")
            #expect(usage.text == #"{"quotaBytes":"1073741824"}"#)
            let opened = try await Plain.send(.POST, Self.base, to: running, headers: ["accept": "application/json"])
            #expect(opened.text.contains(#""container":"default""#))
            let page = try await Plain.send(.GET, Self.base + "/snapshot?limit=5", to: running)
            #expect(page.status == 200)
            let id = TestChunks.id(of: [5])
            let ids = try WireCodec.encode(ChunkIDs([id]), as: .json)
            let missing = try await Plain.send(
                .POST, Self.base + "/chunks/missing", to: running,
                headers: ["accept": "*/*", "content-type": "application/json; charset=utf-8"], body: ids)
            #expect(missing.bytes == ids)
        }
    }

    @Test func protobufByDefault() async throws {
        try await Harness.withServer(.tcp) { running, _ in
            let answer = try await Plain.send(.GET, Self.base + "/usage", to: running, headers: [:])
            #expect(answer.headers.first(name: "content-type") == "application/x-protobuf")
            #expect(try CloudUsage(wire: answer.bytes, as: .protobuf).quotaBytes == 1 << 30)
        }
    }

    @Test func metricsOverTCPAreRefused() async throws {
        try await Harness.withServer(.tcp) { running, _ in
            for token in [nil, FakeCloud.token] {
                let refused = try await Plain.send(.GET, "/metrics", to: running, token: token)
                #expect(refused.status == 403)
                #expect(!refused.text.contains("ubiquity_requests_total"))
                #expect(try await Plain.send(.GET, "/healthz", to: running, token: token).text == "ok\n")
            }
        }
    }

    @Test func healthAndMetrics() async throws {
        try await Harness.withServer(.unixSocket) { running, client in
            try await client.upload(TestChunks.make(1, length: 1000))
            let health = try await Plain.send(.GET, "/healthz", to: running, token: nil)
            #expect(health.status == 200)
            #expect(health.text == "ok\n")
            let metrics = try await Plain.send(.GET, "/metrics", to: running, token: nil).text
            #expect(metrics.contains("\nubiquity_received_bytes_total 1036\n"))
            #expect(metrics.contains("\nubiquity_requests_total 3\n"))
            #expect(metrics.contains("\nubiquity_commits_total 0\n"))
        }
    }

    @Test func completeChunksOfBrokenUploadAreKept() async throws {
        try await Harness.withServer(.tcp) { running, client in
            let chunks = [TestChunks.chunk([UInt8](repeating: 1, count: 1000)), TestChunks.chunk([2, 3, 4])]
            let frames = chunks.flatMap { ChunkFrame.header($0.id, length: $0.bytes.count) + $0.bytes }
            let head = """
                POST \(Self.base)/chunks HTTP/1.1\r\nhost: x\r\nauthorization: Bearer \(FakeCloud.token)\r
                content-type: \(WireFormat.chunkMediaType)\r\ncontent-length: \(frames.count)\r\n\r\n
                """
            try await Plain.connected(to: running) { _, outbound in
                try await outbound.write(ByteBuffer(bytes: Array(head.utf8) + frames.dropLast()))
            }
            for _ in 0..<1000 where try await client.missingChunks(of: chunks.map(\.id)).count != 1 {
                try await Task.sleep(for: .milliseconds(10))
            }
            #expect(try await client.missingChunks(of: chunks.map(\.id)) == [chunks[1].id])
        }
    }

    @Test func rangesOfChunks() async throws {
        try await Harness.withServer(.tcp) { running, client in
            let chunk = TestChunks.chunk(Array(0..<100))
            try await client.upload([chunk])
            let path = Self.base + "/chunks/\(chunk.id)"
            func get(_ range: String?) async throws -> Plain.Answer {
                try await Plain.send(
                    .GET, path, to: running, headers: range.map { ["accept": "*/*", "range": $0] } ?? ["accept": "*/*"])
            }
            let whole = try await get(nil)
            #expect(whole.status == 200)
            #expect(whole.bytes == chunk.bytes)
            #expect(try await get("lines=1-2").status == 200)
            for (range, expected) in [
                ("bytes=0-9", Array(0..<10)), ("bytes=90-", Array(90..<100)), ("bytes=-5", Array(95..<100)),
                ("bytes=98-200", [98, 99]), ("bytes=-500", Array(0..<100)), ("bytes=7-7", [7]),
            ] as [(String, [UInt8])] {
                let part = try await get(range)
                #expect(part.status == 206, "\(range)")
                #expect(part.bytes == expected, "\(range)")
                let last = (expected.last ?? 0)
                #expect(part.headers.first(name: "content-range") == "bytes \(expected[0])-\(last)/100")
            }
            for range in [
                "bytes=100-", "bytes=5-2", "bytes=0-1,3-4", "bytes=x-1", "bytes=-", "bytes=", "bytes=-0", "bytes",
            ] {
                let refused = try await get(range)
                #expect(refused.status == 416, "\(range)")
                #expect(try WireFailure(wire: refused.bytes, as: .json).error.code == .invalid)
            }
        }
    }

    @Test func accountsThroughTheSocket() async throws {
        try await Harness.withServer(.unixSocket) { running, _ in
            let admin = try CloudAdministrator(running.address)
            #expect(try await admin.accounts() == [FakeCloud.account])
            #expect(try await admin.createAccount("bob") == "token-of-bob")
            let again = await #expect(throws: UbiquityError.self) { _ = try await admin.createAccount("bob") }
            #expect(again?.code == .alreadyExists)
            #expect(try await admin.accounts() == [FakeCloud.account, "bob"])
            try await admin.deleteAccount("bob")
            let gone = await #expect(throws: UbiquityError.self) { try await admin.deleteAccount("böb/x") }
            #expect(gone?.message == "no account böb/x")
            await admin.shutdown()
            let nonsense = try await Plain.send(.POST, "/v1/accounts", to: running, body: Array("[]".utf8))
            #expect(nonsense.status == 400)
        }
    }

    @Test func headHasNoBody() async throws {
        try await Harness.withServer(.unixSocket) { running, client in
            let answer = try await Plain.send(.HEAD, "/healthz", to: running)
            #expect(answer.bytes.isEmpty)
            _ = try await client.usage()
        }
    }
}
