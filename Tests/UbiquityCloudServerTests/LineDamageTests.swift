import NIOCore
import NIOHTTP1
import Testing
@testable import UbiquityCloudClient
@testable import UbiquityCloudServer
import UbiquityCore
import UbiquitySystem
import UbiquityWire

/// A line that flips bits, without TLS: no damaged message is accepted.
@Suite struct LineDamageTests {
    private static let item = RemoteItem(
        id: ItemID(high: 1, low: 2), kind: .directory, revision: Revision(7), parent: .root,
        name: ItemName(stored: Array("folder".utf8)), mode: 0o755, createdAt: Timestamp(nanoseconds: 5),
        modifiedAt: Timestamp(nanoseconds: 1_700_000_000_123_456_789),
        xattrs: [Xattr(name: Array("user.a".utf8), value: [1, 2, 3])])

    private static func request(_ number: UInt64) -> CommitRequest {
        let fields = ChangedFields(
            place: Place(parent: .root, name: ItemName(stored: Array("name".utf8))), mode: 0o755,
            modifiedAt: Timestamp(nanoseconds: 1_700_000_000_123_456_789),
            xattrsSet: [Xattr(name: Array("user.a".utf8), value: [1, 2, 3])])
        return CommitRequest(
            id: RequestID(high: 1, low: number), device: RunningServer.device, deviceName: "laptop",
            changes: [
                ItemChange(
                    id: ItemID(high: 3, low: 4), kind: .directory, baseRevision: .zero,
                    changedAt: Timestamp(nanoseconds: 77), action: .put(fields))
            ])
    }

    /// Runs `body` with a client behind a damaging line.
    /// - Parameter bodySilence: How long the server waits for a body that a flipped bit made too long. A machine under
    ///   load may need as long for a sound one.
    private func behindProxy(
        bodySilence: TimeAmount = .milliseconds(50),
        _ body: (FlippingProxy, CloudClient, RunningServer) async throws -> Void
    ) async throws {
        let running = try await Harness.start(.tcp, rules: ConnectionRules(bodySilence: bodySilence))
        let port = try #require("\(running.address)".split(separator: ":").last.flatMap { Int($0) })
        let proxy = try await FlippingProxy(to: port)
        let client = try client(behind: proxy)
        let result: Result<Void, any Error>
        do { result = .success(try await body(proxy, client, running)) } catch { result = .failure(error) }
        await client.shutdown()
        try await proxy.close()
        running.server.stop()
        try await running.task.value
        try result.get()
    }

    private func client(behind proxy: FlippingProxy, proof: DigestProof = DigestProof()) throws -> CloudClient {
        try CloudClient(
            CloudAddress(proxy.url), container: RunningServer.containerName, token: FakeCloud.token,
            device: RunningServer.device, deviceName: "laptop", proof: proof)
    }

    /// A request as the line carries it undamaged. Repeats it while the server gives up waiting for its body.
    private func recordedRequest(_ proxy: FlippingProxy, _ send: () async throws -> Void) async throws -> [UInt8] {
        for _ in 0..<100 {
            proxy.record()
            do {
                try await send()
                return proxy.recorded(.request)
            } catch let error as UbiquityError where error.code == .timedOut {}
        }
        throw UbiquityError(.timedOut, "the server waits for no body")
    }

    /// The offsets of these bytes, except those of message lengths: damage there ends in a timeout.
    private func offsets(_ bytes: [UInt8], headStep: Int) -> [Int] {
        let text = Array("content-length".utf8)
        let end = bytes.indices.first { bytes[$0...].starts(with: Array("\r\n\r\n".utf8)) } ?? bytes.endIndex
        let length = bytes.indices.first { bytes[$0...].starts(with: text) || bytes[$0...].starts(with: "Content-L".utf8) }
        return bytes.indices.filter { index in
            if index >= end + 4 { return true }
            if let length, (length - 2..<length + 24).contains(index) { return false }
            return index % headStep == 0 && index < end - 2
        }
    }

    @Test func flippedBitInACommitIsNotApplied() async throws {
        try await behindProxy { proxy, client, running in
            let send = { _ = try await client.commit(Self.request(0)) }
            _ = try await recordedRequest(proxy, send)
            let bytes = try await recordedRequest(proxy, send)
            var number: UInt64 = 0
            for offset in offsets(bytes, headStep: 5) {
                number += 1
                proxy.flip(.request, at: offset, bit: UInt8(offset % 7))
                _ = try? await client.commit(Self.request(number))
            }
            #expect(proxy.flips > 100)
            let commits = running.container.state.withLock { $0.commits }
            for commit in commits {
                var sent = Self.request(commit.id.low)
                sent.sentAt = commit.sentAt
                #expect(commit == sent)
                guard commit == sent else { break }
            }
        }
    }

    @Test func flippedBitInATargetRequestsNothingElse() async throws {
        try await behindProxy { proxy, client, running in
            _ = try await client.changes(after: Revision(1_234_567), limit: 500)
            let line = "GET /v1/containers/default/changes?after=1234567&limit=500 HTTP/1.1".utf8.count
            for offset in 0..<line {
                proxy.flip(.request, at: offset, bit: UInt8(offset % 3))
                _ = try? await client.changes(after: Revision(1_234_567), limit: 500)
            }
            let asked = Set(running.container.state.withLock { $0.asked })
            #expect(asked == [Revision(1_234_567)])
            #expect(running.cloud.state.withLock { $0.containers.count } == 1)
        }
    }

    @Test func flippedBitInAPageIsRefused() async throws {
        try await behindProxy { proxy, client, running in
            let page = ChangePage(items: [Self.item], revision: Revision(7), hasMore: false)
            running.container.state.withLock { $0.page = page }
            proxy.record()
            let first = try await client.changes(after: .zero, limit: 10)
            #expect(first == page)
            let bytes = proxy.recorded(.answer)
            var right = 0
            for offset in offsets(bytes, headStep: 5) {
                proxy.flip(.answer, at: offset, bit: UInt8(offset % 7))
                guard let come = try? await client.changes(after: .zero, limit: 10) else { continue }
                #expect(come == page, "offset \(offset)")
                guard come == page else { break }
                right += 1
            }
            #expect(right > 80, "a damaged answer is asked for again")
        }
    }

    @Test func flippedBitInAFrameIsFetchedAgain() async throws {
        try await behindProxy { proxy, client, running in
            let chunks = TestChunks.make(3, length: 40)
            running.container.state.withLock { state in for chunk in chunks { state.chunks[chunk.id] = chunk.bytes } }
            proxy.record()
            try await client.fetchChunks(chunks.map(\.id)) { _ in }
            let bytes = proxy.recorded(.answer)
            let end = try #require(bytes.indices.first { bytes[$0...].starts(with: Array("\r\n\r\n".utf8)) })
            // The lengths of chunked coding stay as they are.
            for offset in end + 9..<bytes.count - 8 {
                proxy.flip(.answer, at: offset, bit: 1)
                do {
                    try await client.fetchChunks(chunks.map(\.id)) { chunk in
                        guard TestChunks.id(of: chunk.bytes) == chunk.id else {
                            throw UbiquityError(.damaged, "not what its id says")
                        }
                    }
                } catch let error as UbiquityError {
                    #expect([.damaged, .offline].contains(error.code), "offset \(offset): \(error)")
                }
            }
        }
    }

    @Test func flippedBitInAnUploadIsSentAgain() async throws {
        // Its bodies have the length in the head, so the server never waits for more.
        try await behindProxy(bodySilence: .seconds(60)) { proxy, client, running in
            let chunks = TestChunks.make(2, length: 40)
            try await client.upload(chunks)
            proxy.record()
            try await client.upload(chunks)
            let bytes = proxy.recorded(.request)
            let end = try #require(bytes.indices.first { bytes[$0...].starts(with: Array("\r\n\r\n".utf8)) }) + 4
            for offset in end..<bytes.count {
                running.container.state.withLock { $0.chunks = [:] }
                proxy.flip(.request, at: offset, bit: 1)
                do { try await client.upload(chunks) } catch let error as UbiquityError {
                    #expect(error.code == .offline || error.code == .timedOut, "offset \(offset): \(error)")
                    continue
                }
                #expect(running.container.state.withLock { $0.chunks.count } == 2)
            }
        }
    }

    @Test func flippedEventIsRefused() async throws {
        try await behindProxy { proxy, client, running in
            running.container.state.withLock { $0.revision = Revision(1234) }
            proxy.record()
            for try await _ in try await client.news() { break }
            let bytes = proxy.recorded(.answer)
            let end = try #require(bytes.indices.first { bytes[$0...].starts(with: Array("\r\n\r\n".utf8)) })
            let length = "event: revision\ndata: {\"revision\":1234}\n".utf8.count
            // After the length of the piece.
            for offset in end + 8..<end + 8 + length {
                proxy.flip(.answer, at: offset, bit: 0)
                do {
                    let news = try await client.news()
                    // A second event shows the effect of a damaged end of the first one.
                    for listener in running.container.state.withLock({ $0.listeners.values }) {
                        listener.yield(Revision(1234))
                    }
                    for try await revision in news {
                        #expect(revision == Revision(1234), "offset \(offset)")
                        break
                    }
                } catch let error as UbiquityError {
                    #expect(error.code == .offline, "offset \(offset): \(error)")
                }
            }
        }
    }

    /// A proxy drops the field from the first answer on.
    @Test func answerWhoseDigestWasRemovedIsRefused() async throws {
        try await behindProxy { proxy, client, _ in
            proxy.remove("content-digest")
            let failure = await #expect(throws: UbiquityError.self) { _ = try await client.usage() }
            #expect(failure?.code == .offline)
            #expect(failure?.message.contains("digest") == true)
        }
    }

    /// A proxy that removes both fields makes the cloud look like one that has never sent digests.
    @Test func proxyThatRemovesAllDigestsIsNoticedAfterARestart() async throws {
        try await behindProxy { proxy, client, _ in
            let remembered = Lock(0)
            let first = try self.client(behind: proxy, proof: DigestProof { remembered.withLock { $0 += 1 } })
            _ = try await first.usage()
            _ = try await first.usage()
            await first.shutdown()
            #expect(remembered.withLock { $0 } == 1)
            proxy.remove("content-digest", "ubiquity-digests")
            let next = try self.client(behind: proxy, proof: DigestProof(isKnown: true))
            let failure = await #expect(throws: UbiquityError.self) { _ = try await next.usage() }
            #expect(failure?.code == .offline && failure?.message.contains("without its digest, 8 times") == true)
            #expect(failure?.remedy.contains("a proxy") == true, "\(String(describing: failure))")
            await next.shutdown()
            // An older cloud, which has never sent a digest to any device.
            _ = try await client.usage()
        }
    }

    @Test func wrongDigestIsRefusedAndMissingDigestIsAccepted() async throws {
        try await Harness.withServer(.tcp) { running, _ in
            let path = "/v1/containers/default/commit"
            let body = try WireCodec.encode(Self.request(1), as: .protobuf)
            let plain: HTTPHeaders = ["accept": "*/*", "content-type": WireFormat.protobuf.mediaType]
            var wrong = plain
            wrong.add(name: "content-digest", value: "sha-256=:\(String(repeating: "A", count: 43))=:")
            let refused = try await Plain.send(.POST, path, to: running, headers: wrong, body: body)
            #expect(refused.status == 503)
            #expect(refused.headers.first(name: "want-content-digest") == "sha-256=10")
            #expect(refused.text.contains("digest"))
            #expect(running.container.state.withLock { $0.commits }.isEmpty)
            let taken = try await Plain.send(.POST, path, to: running, headers: plain, body: body)
            #expect(taken.status == 200)
            #expect(taken.headers.first(name: "content-digest")?.hasPrefix("sha-256=:") == true)
        }
    }
}
