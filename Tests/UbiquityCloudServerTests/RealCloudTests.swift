import Testing
import UbiquityCloudClient
import UbiquityCloudServer
import UbiquityCloudStore
import UbiquityCore
import UbiquitySystem
import UbiquityWire

/// The whole way: client, server and the storing cloud.
@Suite struct RealCloudTests {
    @Test func fileSyncsThroughARealCloud() async throws {
        try await RealCloud.run { socket, _, _ in
            let (one, two) = (try RealCloud.client(socket, device: 1), try RealCloud.client(socket, device: 2))
            let opened = try await one.open()
            #expect(opened.account == "local")
            #expect(try await two.open().incarnation == opened.incarnation)
            var news = try await two.news().makeAsyncIterator()
            #expect(try await news.next() == .zero)

            let chunks = [
                TestChunks.chunk([UInt8](repeating: 1, count: 300_000)),
                TestChunks.chunk([UInt8](repeating: 2, count: 5)),
            ]
            #expect(try await one.missingChunks(of: chunks.map(\.id)) == chunks.map(\.id))
            try await one.upload([chunks[0]])
            let file = ItemID(high: 5, low: 5)
            let version = VersionID(high: 6, low: 6)
            let manifest = chunks.map { ChunkReference(id: $0.id, length: $0.bytes.count) }
            let fields = ChangedFields(
                place: Place(parent: .root, name: try ItemName("report.txt")), mode: 0o644,
                createdAt: Timestamp(nanoseconds: 1), modifiedAt: Timestamp(nanoseconds: 2),
                content: ContentChange(version: version, baseVersion: nil, size: 300_005, manifest: manifest))
            let change = ItemChange(
                id: file, kind: .file, baseRevision: .zero, changedAt: Timestamp(nanoseconds: 3), action: .put(fields))
            var request = CommitRequest(
                id: RequestID(high: 7, low: 7), device: DeviceID(high: 9, low: 1), deviceName: "device 1",
                changes: [change])
            let lacking = await #expect(throws: MissingChunks.self) { _ = try await one.commit(request) }
            #expect(lacking?.ids == [chunks[1].id])
            request.chunks = [chunks[1]]
            let response = try await one.commit(request)
            #expect(response.revision == Revision(1))
            #expect(try await one.commit(request) == response)

            #expect(try await news.next() == Revision(1))
            let page = try await two.changes(after: .zero, limit: 100)
            #expect(page.items.map(\.id) == [file])
            #expect(page.items.first == response.results.first?.item)
            #expect(try await two.manifest(of: version) == manifest)
            let received = Lock<[Chunk]>([])
            try await two.fetchChunks(chunks.map(\.id)) { chunk in received.withLock { $0.append(chunk) } }
            #expect(received.withLock { $0 } == chunks)
            #expect(try await two.usage().usedBytes > 0)
            await one.shutdown()
            await two.shutdown()
        }
    }

    @Test func versionsAndTrashAreListed() async throws {
        try await RealCloud.run { socket, _, _ in
            let one = try RealCloud.client(socket, device: 1)
            _ = try await one.open()
            let folders = (1...3).map { ItemID(high: 5, low: $0) }
            for (number, item) in folders.enumerated() { try await make(item, "folder \(number)", one) }
            for item in folders { try await remove(item, one) }
            let first = try await one.trash(in: nil, after: nil, limit: 1)
            #expect(first.items.count == 1 && first.hasMore)
            let rest = try await one.trash(in: nil, after: first.items.last?.position, limit: 5)
            #expect(Set((first.items + rest.items).map(\.item.id)) == Set(folders) && !rest.hasMore)
            #expect(try await one.trash(in: folders[0], after: nil, limit: 5).items.isEmpty)
            #expect(try await one.versions(of: folders[0]).isEmpty)
            let failure = await #expect(throws: UbiquityError.self) { _ = try await one.versions(of: ItemID(high: 1, low: 1)) }
            #expect(failure?.code == .notFound)
            await one.shutdown()
        }
    }

    @Test func snapshotContinuesAfterDeletionsAreForgotten() async throws {
        let time = ShiftedTime()
        try await RealCloud.run(at: time) { socket, _, cloud in
            let one = try RealCloud.client(socket, device: 1)
            _ = try await one.open()
            let items = (1...4).map { ItemID(high: 5, low: $0) }
            for (number, item) in items.enumerated() { try await make(item, "folder \(number)", one) }
            try await remove(items[3], one)
            time.shift.withLock { $0 = 31 * 86_400 }
            try await cloud.maintain()
            let failure = await #expect(throws: UbiquityError.self) {
                _ = try await one.changes(after: Revision(1), limit: 1)
            }
            #expect(failure?.code == .feedCompacted)
            var page = try await one.snapshot(after: .zero, limit: 1)
            var found = page.items.map(\.id)
            while page.hasMore {
                page = try await one.snapshot(after: page.revision, limit: 1)
                found += page.items.map(\.id)
            }
            #expect(found == Array(items.prefix(3)))
            #expect(page.revision == Revision(5))
            await one.shutdown()
        }
    }

    private func make(_ item: ItemID, _ name: String, _ client: CloudClient) async throws {
        let fields = ChangedFields(
            place: Place(parent: .root, name: try ItemName(name)), mode: 0o755, createdAt: .zero, modifiedAt: .zero)
        try await commit(item, .zero, .put(fields), client)
    }

    private func remove(_ item: ItemID, _ client: CloudClient) async throws {
        try await commit(item, Revision(4), .delete, client)
    }

    private func commit(
        _ item: ItemID, _ base: Revision, _ action: ItemChange.Action, _ client: CloudClient
    ) async throws {
        let change = ItemChange(
            id: item, kind: .directory, baseRevision: base, changedAt: Timestamp(nanoseconds: 3), action: action)
        let id = RequestID(high: base == .zero ? 1 : 2, low: item.low)
        _ = try await client.commit(
            CommitRequest(id: id, device: DeviceID(high: 9, low: 1), deviceName: "device 1", changes: [change]))
    }

    @Test func accountsAndTokens() async throws {
        try await RealCloud.run { socket, web, _ in
            let admin = try CloudAdministrator(socket)
            let token = try await admin.createAccount("alice")
            let alice = try RealCloud.client(web, token: token, device: 1)
            #expect(try await alice.open().account == "alice")
            let overSocket = try RealCloud.client(socket, token: token, device: 1)
            #expect(try await overSocket.open().account == "alice")
            for wrong in [nil, "x", token + "0"] {
                let stranger = try RealCloud.client(web, token: wrong, device: 2)
                let failure = await #expect(throws: UbiquityError.self) { _ = try await stranger.open() }
                #expect(failure?.code == .signedOut)
                await stranger.shutdown()
            }
            try await admin.deleteAccount("alice")
            let gone = await #expect(throws: UbiquityError.self) { _ = try await alice.open() }
            #expect(gone?.code == .signedOut)
            await alice.shutdown()
            await overSocket.shutdown()
            await admin.shutdown()
        }
    }

    @Test func deletedAccountsEventStreamsEnd() async throws {
        try await RealCloud.run { _, web, cloud in
            let (alice, bob) = (try await cloud.createAccount("alice"), try await cloud.createAccount("bob"))
            let clients = [
                try RealCloud.client(web, token: alice, device: 1), try RealCloud.client(web, token: bob, device: 2),
            ]
            let ended = Lock<Set<Int>>([])
            var streams = [Task<Void, Never>]()
            for (number, client) in clients.enumerated() {
                _ = try await client.open()
                let news = try await client.news()
                streams.append(
                    Task {
                        // Only the stream's end counts, with an error or without.
                        do { for try await _ in news {} } catch {}
                        ended.withLock { _ = $0.insert(number) }
                    })
            }
            try await cloud.deleteAccount("alice")
            try await Harness.eventually("the stream ends") { ended.withLock { $0.contains(0) } }
            #expect(ended.withLock { $0 } == [0])
            for stream in streams { stream.cancel() }
            for client in clients { await client.shutdown() }
        }
    }

    @Test func wrongContentsAreRefused() async throws {
        try await RealCloud.run { socket, _, _ in
            let one = try RealCloud.client(socket, device: 1)
            _ = try await one.open()
            let wrong = Chunk(id: TestChunks.id(of: [1]), bytes: [2])
            let failure = await #expect(throws: UbiquityError.self) { try await one.upload([wrong]) }
            #expect(failure?.code == .invalid)
            #expect(try await one.missingChunks(of: [wrong.id]) == [wrong.id])
            await one.shutdown()
        }
    }
}
