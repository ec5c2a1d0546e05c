import Testing
import UbiquityCloudClient
import UbiquityCore
import UbiquitySystem
import UbiquityWire

/// Each call of `CloudService` from the client through the server and back.
@Suite struct CallTests {
    private func request(_ id: UInt64 = 7, chunks: [Chunk] = []) -> CommitRequest {
        let change = ItemChange(
            id: ItemID(high: 3, low: 4), kind: .file, baseRevision: Revision(5), changedAt: Timestamp(nanoseconds: 6),
            action: .delete)
        return CommitRequest(
            id: RequestID(high: id, low: id), device: RunningServer.device, deviceName: "laptop", changes: [change],
            chunks: chunks)
    }

    @Test(arguments: Way.allCases) func openUsageAndManifestPassThroughTheServer(_ way: Way) async throws {
        try await Harness.withServer(way) { running, client in
            let description = try await client.open()
            #expect(description.container == RunningServer.containerName)
            #expect(description.account == (running.isTCP ? FakeCloud.account : "local"))
            #expect(description.incarnation == 0xFEED_0000_0000_0001)
            #expect(try await client.usage() == CloudUsage(usedBytes: 0, quotaBytes: 1 << 30))
            let manifest = try await client.manifest(of: VersionID(high: 0, low: 1))
            #expect(manifest == [ChunkReference(id: TestChunks.id(of: [1]), length: 1)])
            let failure = await #expect(throws: UbiquityError.self) {
                _ = try await client.manifest(of: VersionID(high: 0, low: 2))
            }
            #expect(failure?.code == .notUploadedYet)
            #expect(failure?.message == "only its metadata is known")
        }
    }

    @Test(arguments: Way.allCases) func feedPagesPassThroughTheServer(_ way: Way) async throws {
        try await Harness.withServer(way) { running, client in
            let item = RemoteItem(
                id: ItemID(high: 1, low: 1), kind: .directory, revision: Revision(9), parent: .root,
                name: try ItemName("Dökümente"), mode: 0o755, createdAt: Timestamp(nanoseconds: -1),
                modifiedAt: Timestamp(nanoseconds: 2), xattrs: [Xattr(name: Array("user.a".utf8), value: [0, 255])])
            let page = ChangePage(items: [item], revision: Revision(9), hasMore: true)
            running.container.state.withLock { $0.page = page }
            #expect(try await client.changes(after: Revision(8), limit: 10) == page)
            #expect(running.container.state.withLock { $0.asked } == [Revision(8)])
            let point = FeedPoint(Revision(8), mark: .max, incarnation: .max - 1)
            _ = try await client.changes(after: point, limit: 10)
            #expect(running.container.state.withLock { $0.points.last } == point)
            _ = try await client.open(knowing: FeedPoint(Revision(7), mark: 3, incarnation: 5))
            _ = try await client.open()
            #expect(
                running.container.state.withLock { $0.points.last } == FeedPoint(Revision(7), mark: 3, incarnation: 5))
            let snapshot = try await client.snapshot(after: Revision(100), limit: 11)
            #expect(snapshot.items == [item])
            #expect(snapshot.revision == Revision(111))
        }
    }

    @Test(arguments: Way.allCases) func commitPassesThroughTheServer(_ way: Way) async throws {
        try await Harness.withServer(way) { running, client in
            let sent = request(chunks: TestChunks.make(3, length: 1000))
            let response = try await client.commit(sent)
            #expect(response.revision == Revision(1))
            #expect(response.results == [ChangeResult(outcome: .unknownItem, item: nil)])
            #expect(running.container.state.withLock { $0.commits } == [sent])
        }
    }

    @Test func missingChunksOfCommit() async throws {
        try await Harness.withServer(.unixSocket) { running, client in
            let lacking = TestChunks.make(2, length: 3).map(\.id)
            running.container.state.withLock { $0.beforeCommit = { throw MissingChunks(ids: lacking) } }
            let failure = await #expect(throws: MissingChunks.self) { _ = try await client.commit(request()) }
            #expect(failure?.ids == lacking)
            let conflict = PackageConflict(
                package: ItemID(high: 1, low: 2), revision: Revision(7), isYoursNewer: true,
                modifiedAt: Timestamp(nanoseconds: 12), device: DeviceID(high: 3, low: 4),
                deviceName: "there")
            running.container.state.withLock { $0.beforeCommit = { throw conflict } }
            let refusal = await #expect(throws: PackageConflict.self) { _ = try await client.commit(request()) }
            #expect(refusal == conflict)
        }
    }

    @Test(arguments: Way.allCases) func chunksPassThroughTheServer(_ way: Way) async throws {
        try await Harness.withServer(way) { running, client in
            let chunks = TestChunks.make(40, length: 300_000) + TestChunks.make(200, length: 10)
                + [TestChunks.chunk([UInt8](repeating: 1, count: Limits.maximumChunkLength))]
            let ids = chunks.map(\.id)
            #expect(try await client.missingChunks(of: ids) == ids)
            try await client.upload(chunks)
            #expect(try await client.missingChunks(of: ids) == [])
            let received = Lock<[Chunk]>([])
            try await client.fetchChunks(ids.reversed()) { chunk in received.withLock { $0.append(chunk) } }
            #expect(received.withLock { $0 } == chunks.reversed())
            let bytes = Int64(chunks.reduce(0) { $0 + $1.bytes.count })
            #expect(client.sentBytes > bytes)
            #expect(client.receivedBytes > bytes)
            #expect(client.sentBytes < bytes * 11 / 10)
        }
    }

    @Test func emptyRequestsSendNothing() async throws {
        let client = try CloudClient(
            CloudAddress("/nowhere/at/all"), container: RunningServer.containerName, device: RunningServer.device,
            deviceName: "")
        try await client.upload([])
        try await client.fetchChunks([]) { _ in }
        await client.shutdown()
    }

    @Test func failureInsideStreamOfChunks() async throws {
        try await Harness.withServer(.tcp) { running, client in
            let chunks = TestChunks.make(3, length: 100)
            try await client.upload(chunks)
            running.container.state.withLock { state in
                state.beforeChunk = { id in
                    if id == chunks[2].id { throw UbiquityError(.damaged, "bad on disk", at: "/secret/place") }
                }
            }
            let received = Lock<[ChunkID]>([])
            let failure = await #expect(throws: UbiquityError.self) {
                try await client.fetchChunks(chunks.map(\.id)) { chunk in received.withLock { $0.append(chunk.id) } }
            }
            #expect(failure?.code == .damaged)
            #expect(failure?.message == "bad on disk")
            #expect(failure?.place != "/secret/place")
            #expect(received.withLock { $0 } == [chunks[0].id, chunks[1].id])
            let unknown = TestChunks.id(of: [9, 9, 9])
            let missing = await #expect(throws: UbiquityError.self) { try await client.fetchChunks([unknown]) { _ in } }
            #expect(missing?.code == .notFound)
        }
    }

    @Test func receiverMayStopTheStream() async throws {
        struct Enough: Error {}
        try await Harness.withServer(.unixSocket) { running, client in
            let chunks = TestChunks.make(30, length: 500_000)
            try await client.upload(chunks)
            await #expect(throws: Enough.self) {
                try await client.fetchChunks(chunks.map(\.id)) { _ in throw Enough() }
            }
            _ = try await client.usage()
        }
    }
}
