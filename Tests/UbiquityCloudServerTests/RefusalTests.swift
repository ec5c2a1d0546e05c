import NIOCore
import NIOHTTP1
import Testing
import UbiquityCloudClient
@testable import UbiquityCloudServer
import UbiquityCore
import UbiquitySystem
import UbiquityWire

/// Invalid requests get a 4xx and a reason.
@Suite struct RefusalTests {
    private static let base = "/v1/containers/default"
    private static let json: HTTPHeaders = ["accept": "*/*", "content-type": "application/json"]
    private static let protobuf: HTTPHeaders = ["accept": "*/*", "content-type": "application/x-protobuf"]
    private static let frames: HTTPHeaders = ["accept": "*/*", "content-type": WireFormat.chunkMediaType]

    private func expect(
        _ status: Int, _ code: UbiquityError.Code, _ answer: Plain.Answer, _ word: String = "",
        _ location: SourceLocation = #_sourceLocation
    ) throws {
        #expect(answer.status == status, sourceLocation: location)
        let failure = try WireFailure(wire: answer.bytes, as: .json)
        #expect(failure.error.code == code, sourceLocation: location)
        #expect(!failure.error.message.isEmpty && failure.error.message.contains(word), sourceLocation: location)
    }

    @Test func pathsQueriesAndIDs() async throws {
        try await Harness.withServer(.tcp) { running, _ in
            try expect(404, .notFound, await Plain.send(.GET, "/none", to: running), "GET /none")
            try expect(404, .notFound, await Plain.send(.GET, "/v2/containers/default", to: running), "/v2")
            try expect(404, .notFound, await Plain.send(.PUT, Self.base + "/commit", to: running), "PUT")
            try expect(400, .invalidName, await Plain.send(.POST, "/v1/containers/.hidden", to: running), "container")
            try expect(400, .invalidName, await Plain.send(.POST, "/v1/containers/a%2Fb", to: running), "container")
            let changes = Self.base + "/changes"
            try expect(400, .invalid, await Plain.send(.GET, changes + "?after=x", to: running), "after")
            try expect(400, .invalid, await Plain.send(.GET, changes + "?after=-1", to: running), "after")
            try expect(400, .invalid, await Plain.send(.GET, changes + "?limit=0", to: running), "limit")
            try expect(400, .invalid, await Plain.send(.GET, changes + "?limit=2001", to: running), "limit")
            try expect(400, .invalid, await Plain.send(.GET, changes + "?limit=99999999999999999999", to: running))
            try expect(400, .invalid, await Plain.send(.GET, Self.base + "/versions/zz", to: running), "hexadecimal")
            try expect(400, .invalid, await Plain.send(.GET, Self.base + "/chunks/1234", to: running), "hexadecimal")
            let unknown = String(repeating: "ab", count: 32)
            try expect(404, .notFound, await Plain.send(.GET, Self.base + "/chunks/" + unknown, to: running))
        }
    }

    @Test func invalidBodiesAreRefused() async throws {
        try await Harness.withServer(.tcp) { running, _ in
            let commit = Self.base + "/commit"
            try expect(400, .invalid, await Plain.send(
                .POST, commit, to: running, headers: Self.json, body: Array("{".utf8)), "cannot be read")
            try expect(400, .invalid, await Plain.send(
                .POST, commit, to: running, headers: Self.json, body: Array(#"{"id":"AAAA"}"#.utf8)))
            try expect(400, .invalid, await Plain.send(
                .POST, commit, to: running, headers: Self.protobuf, body: [255, 255, 255, 255]), "cannot be read")
            try expect(400, .invalid, await Plain.send(.POST, commit, to: running, headers: Self.protobuf))
            try expect(415, .notSupported, await Plain.send(
                .POST, commit, to: running, headers: ["accept": "*/*", "content-type": "text/html"], body: [1]), "html")
            let tooLong = [UInt8](repeating: 0, count: Limits.maximumMessageLength + 1)
            try expect(413, .tooLarge, await Plain.send(
                .POST, commit, to: running, headers: Self.protobuf, body: tooLong), "longer than")
            let manyIDs = [UInt8](repeating: 0, count: ServerLimits.chunkIDsLength + 1)
            try expect(413, .tooLarge, await Plain.send(
                .POST, Self.base + "/chunks/missing", to: running, headers: Self.protobuf, body: manyIDs))
            let one = ChunkIDs([TestChunks.id(of: [])])
            let many = ChunkIDs([ChunkID](repeating: one.ids[0], count: Limits.maximumChunksPerRequest + 1))
            try expect(400, .invalid, await Plain.send(
                .POST, Self.base + "/chunks/fetch", to: running, headers: Self.protobuf,
                body: WireCodec.encode(many, as: .protobuf)), "chunks in one request")
            #expect(running.container.state.withLock { $0.commits }.isEmpty)
        }
    }

    @Test func invalidChunkStreamsAreRefused() async throws {
        try await Harness.withServer(.tcp) { running, _ in
            let path = Self.base + "/chunks"
            let good = TestChunks.chunk([1, 2, 3])
            let wrong = Chunk(id: good.id, bytes: [1, 2, 4])
            try expect(400, .invalid, await Plain.send(
                .POST, path, to: running, headers: Self.frames, body: ChunkFrame.encode(wrong)), "does not match its id")
            try expect(400, .invalid, await Plain.send(
                .POST, path, to: running, headers: Self.frames, body: ChunkFrame.encode(good).dropLast()), "inside")
            try expect(400, .invalid, await Plain.send(
                .POST, path, to: running, headers: Self.frames, body: [UInt8](repeating: 7, count: 100)))
            let full = TestChunks.make(17, length: Limits.maximumChunkLength)
            try expect(413, .tooLarge, await Plain.send(
                .POST, path, to: running, headers: Self.frames, body: full.flatMap(ChunkFrame.encode)))
            let many = [UInt8]((0...Limits.maximumChunksPerRequest).flatMap { number in
                ChunkFrame.encode(TestChunks.chunk([UInt8](String(number).utf8)))
            })
            try expect(400, .invalid, await Plain.send(.POST, path, to: running, headers: Self.frames, body: many))
            let accepted = try await Plain.send(
                .POST, path, to: running, headers: Self.frames, body: ChunkFrame.encode(good))
            #expect(accepted.status == 204)
        }
    }

    @Test func missingOrWrongTokenIsRefused() async throws {
        try await Harness.withServer(.tcp) { running, _ in
            let answer = try await Plain.send(.GET, Self.base + "/usage", to: running, token: nil)
            try expect(401, .signedOut, answer, "token")
            #expect(answer.headers.first(name: "www-authenticate") == "Bearer")
            try expect(401, .signedOut, await Plain.send(.GET, Self.base + "/usage", to: running, token: "wrong"))
            try expect(401, .signedOut, await Plain.send(.GET, Self.base + "/usage", to: running, token: "a b"))
            let client = try running.client(token: nil)
            let failure = await #expect(throws: UbiquityError.self) { _ = try await client.open() }
            #expect(failure?.code == .signedOut)
            await client.shutdown()
            let noHex: HTTPHeaders = ["accept": "*/*", "ubiquity-device": "nobody"]
            try expect(400, .invalid, await Plain.send(.GET, Self.base + "/usage", to: running, headers: noHex))
            let noName: HTTPHeaders = ["accept": "*/*", "ubiquity-device-name": "%zz"]
            try expect(400, .invalid, await Plain.send(.GET, Self.base + "/usage", to: running, headers: noName))
        }
    }

    @Test func cloudFailuresRevealNothing() async throws {
        struct Secret: Error { let path = "/very/secret" }
        try await Harness.withServer(.tcp) { running, client in
            running.container.state.withLock { $0.beforeCommit = { throw Secret() } }
            let change = ItemChange(
                id: ItemID(high: 3, low: 4), kind: .file, baseRevision: .zero, changedAt: .zero, action: .delete)
            let request = CommitRequest(
                id: RequestID(high: 1, low: 1), device: RunningServer.device, deviceName: "", changes: [change])
            let body = try WireCodec.encode(request, as: .protobuf)
            let answer = try await Plain.send(
                .POST, Self.base + "/commit", to: running, headers: Self.protobuf, body: body)
            try expect(500, .io, answer)
            #expect(!answer.text.contains("secret"))
            running.container.state.withLock { state in
                state.beforeCommit = { throw UbiquityError(.io, "the disk failed", at: "/very/secret") }
            }
            let told = await #expect(throws: UbiquityError.self) { _ = try await client.commit(request) }
            #expect(told?.code == .io)
            #expect(told?.message == "the disk failed")
            #expect(told?.place.contains("secret") == false)
        }
    }

    @Test func nonHTTPBytesAreRefused() async throws {
        try await Harness.withServer(.unixSocket) { running, client in
            let answer = try await Plain.exchange("what is this?\r\n\r\n", with: running)
            #expect(answer.hasPrefix("HTTP/1.1 400"))
            #expect(answer.contains("not a request of HTTP/1.1"))
            let long = "GET /healthz HTTP/1.1\r\nhost: a\r\nx: \(String(repeating: "y", count: 20_000))\r\n\r\n"
            #expect(try await Plain.exchange(long, with: running).hasPrefix("HTTP/1.1 4"))
            let bad =
                "POST /v1/containers/default/commit HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"
            #expect(try await Plain.exchange(bad, with: running).hasPrefix("HTTP/1.1 400"))
            _ = try await client.usage()
        }
    }

    @Test func expectContinueIsAnswered() async throws {
        try await Harness.withServer(.unixSocket) { running, _ in
            let frame = ChunkFrame.encode(TestChunks.chunk([1, 2, 3]))
            let head = "POST /v1/containers/default/chunks HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\n"
                + "content-length: \(frame.count)\r\n\r\n"
            let answer = try await Plain.connected(to: running) { inbound, outbound in
                try await outbound.write(ByteBuffer(string: head))
                var answer = ""
                for try await part in inbound {
                    if answer.isEmpty { try await outbound.write(ByteBuffer(bytes: frame)) }
                    answer += String(buffer: part)
                    if answer.contains(" 204 ") { break }
                }
                return answer
            }
            #expect(answer.hasPrefix("HTTP/1.1 100 Continue\r\n"))
        }
    }

    @Test func pipelinedRequestsAreAnsweredInOrder() async throws {
        let running = try await Harness.start(.unixSocket)
        let request = "GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n"
        let answers = try await Plain.connected(to: running) { inbound, outbound in
            try await outbound.write(ByteBuffer(string: request + request + request))
            var answers = ""
            for try await part in inbound {
                answers += String(buffer: part)
                if answers.split(separator: "200 OK").count == 4 { break }
            }
            return answers
        }
        #expect(answers.hasSuffix("ok\n"))
        // No remaining client keeps it from ending when idle.
        try await Harness.eventually("nobody is active") { running.server.isIdle }
        running.server.stop()
        try await running.task.value
    }

    @Test func missingBodyTimesOut() async throws {
        let running = try await Harness.start(.unixSocket, rules: ConnectionRules(bodySilence: .milliseconds(200)))
        let answer = try await Plain.exchange(
            "POST /v1/containers/default/commit HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nabc", with: running)
        #expect(answer.hasPrefix("HTTP/1.1 408"))
        running.server.stop()
        try await running.task.value
    }

    @Test func bodyAfterTheAnswerIsCutOff() async throws {
        try await Harness.withServer(.unixSocket) { running, client in
            let head = "POST /v1/containers/default/commit HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999999\r\n\r\n"
            let answer = try await Plain.connected(to: running) { inbound, outbound in
                try await outbound.write(ByteBuffer(string: head))
                var answer = ""
                var iterator = inbound.makeAsyncIterator()
                while let part = try await iterator.next() {
                    answer += String(buffer: part)
                    if answer.contains("longer than") { break }
                }
                // Ends when the server refuses more, by an error or by the end of its output.
                let part = ByteBuffer(repeating: 0, count: 256 * 1024)
                do {
                    for _ in 0..<1000 { try await outbound.write(part) }
                    while try await iterator.next() != nil {}
                } catch {
                    return answer
                }
                return answer
            }
            #expect(answer.hasPrefix("HTTP/1.1 413"))
            let metrics = try await Plain.send(.GET, "/metrics", to: running).text
            let taken = metrics.split(separator: "\n").first { $0.hasPrefix("ubiquity_received_bytes_total ") }
            let bytes = try #require(taken?.split(separator: " ").last.flatMap { Int($0) })
            #expect(bytes < 2 * ServerLimits.lingeringBytes)
            #expect(metrics.contains("\nubiquity_request_failures_total 1\n"))
            _ = try await client.usage()
        }
    }

    @Test func accountsOnlyThroughTheSocket() async throws {
        try await Harness.withServer(.tcp) { running, _ in
            try expect(403, .notPermitted, await Plain.send(.GET, "/v1/accounts", to: running))
            try expect(403, .notPermitted, await Plain.send(
                .POST, "/v1/accounts", to: running, headers: Self.json, body: Array(#"{"name":"eve"}"#.utf8)))
            try expect(403, .notPermitted, await Plain.send(.DELETE, "/v1/accounts/alice", to: running))
        }
    }
}
