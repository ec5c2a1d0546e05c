import Testing
import UbiquityCloudStore
import UbiquityCore
import UbiquitySystem
import UbiquityTestSupport
import UbiquityWire

/// The retention of versions and deleted items at a cloud.
@Suite struct CloudVersionTests {
    private let bench: CloudBench
    private static let day = 86_400.0

    init() throws { bench = try CloudBench() }

    /// Saves a content of one small chunk over the version `base`.
    @discardableResult
    private func save(
        _ version: UInt64, on base: UInt64, seconds: Int64, _ service: any CloudService
    ) async throws -> CommitResponse {
        let chunk = ChunkSamples.chunk(UInt64(version))
        let change = Make.put(
            1, base: 1, at: seconds,
            ChangedFields(
                modifiedAt: .at(seconds),
                content: ContentChange(
                    version: .number(version), baseVersion: .number(base), size: Int64(chunk.bytes.count),
                    manifest: [ChunkReference(id: chunk.id, length: chunk.bytes.count)])))
        return try await service.commit(bench.request([change], [chunk]))
    }

    /// One file with the versions 1 (history), 2 (current) and 3 (in conflict).
    private func service() async throws -> any CloudService {
        let service = try await bench.container()
        let first = ChunkSamples.chunk(1)
        _ = try await service.commit(bench.request([bench.file(1, "a.txt", [first])], [first]))
        let now = bench.clock.now().seconds
        try await save(2, on: 1, seconds: now - 10, service)
        try await save(3, on: 1, seconds: now - 20, service)
        return service
    }

    private func kinds(_ service: any CloudService) async throws -> [RemoteVersion.Kind] {
        try await service.versions(of: .number(1)).map(\.kind)
    }

    @Test func feedAndListContainVersions() async throws {
        let service = try await service()
        let item = try #require(try await service.changes(after: .zero, limit: 10).items.first)
        #expect(item.conflictCount == 1 && item.hasHistory && item.conflicts.map(\.id) == [.number(3)])
        #expect(item.conflicts.first?.content.manifest?.count == 1)
        let versions = try await service.versions(of: .number(1))
        #expect(versions.map(\.id) == [2, 3, 1].map(VersionID.number))
        #expect(versions.map(\.kind) == [.current, .conflict, .history])
        #expect(await failure { _ = try await service.versions(of: .number(99)) } == .notFound)
    }

    /// Version 1 is the ancestor of the conflict: it stays while the conflict is open.
    @Test func openConflictKeepsItselfAndItsAncestor() async throws {
        let service = try await service()
        bench.clock.advance(seconds: 29 * Self.day)
        try await bench.cloud.maintain()
        #expect(try await kinds(service) == [.current, .conflict, .history])
        bench.clock.advance(seconds: 2 * Self.day)
        try await bench.cloud.maintain()
        #expect(try await kinds(service) == [.current, .conflict, .history])
        #expect(try await service.changes(after: .zero, limit: 10).items.first?.hasHistory == true)
        bench.clock.advance(seconds: 1000 * Self.day)
        try await bench.cloud.maintain()
        #expect(try await kinds(service) == [.current, .conflict, .history], "an open conflict never expires")
        // Its content is available, though nobody has read it for years.
        #expect(try await bench.fetch([ChunkSamples.chunk(3).id], from: service) == [ChunkSamples.chunk(3)])
        _ = try await service.commit(bench.request([Make.versions(1, .resolve(.number(3)))]))
        #expect(try await Set(kinds(service)) == [.current, .resolved, .history])
        bench.clock.advance(seconds: 31 * Self.day)
        try await bench.cloud.maintain()
        #expect(try await kinds(service) == [.current])
        bench.clock.advance(seconds: 2 * Self.day)
        try await bench.cloud.maintain()
        #expect(await failure { _ = try await bench.fetch([ChunkSamples.chunk(3).id], from: service) } == .notFound)
    }

    @Test func historyIsLimitedPerItem() async throws {
        let service = try await service()
        let limit = KeepingRules.standard.versionsPerItem
        for number in 4..<UInt64(limit + 20) {
            bench.clock.advance(seconds: 1)
            try await save(number, on: number == 4 ? 2 : number - 1, seconds: bench.clock.now().seconds, service)
        }
        let versions = try await service.versions(of: .number(1))
        // The ancestor of the open conflict stays beside the versions that the limit allows.
        #expect(versions.count { $0.kind == .history } == limit + 1)
        #expect(versions.count { $0.kind == .conflict } == 1)
        #expect(versions.contains { $0.id == .number(1) } && !versions.contains { $0.id == .number(4) })
        #expect(versions.contains { $0.id == .number(UInt64(limit + 18)) })
    }

    @Test func restoreNeedsNoUpload() async throws {
        let service = try await service()
        let response = try await service.commit(
            bench.request([Make.versions(1, .restore(.number(1), as: .number(50), base: .number(2)))]))
        let item = try #require(response.results.first?.item)
        #expect(item.content?.version == .number(50) && item.content?.manifest?.first?.id == ChunkSamples.chunk(1).id)
        // The old version may be removed; its content is in use.
        bench.clock.advance(seconds: 40 * Self.day)
        try await bench.cloud.maintain()
        #expect(try await bench.fetch([ChunkSamples.chunk(1).id], from: service) == [ChunkSamples.chunk(1)])
    }

    // MARK: The trash

    @Test func trashListsTheLatestFirst() async throws {
        let service = try await bench.container()
        _ = try await service.commit(
            bench.request([
                Make.folder(10, "d"), Make.folder(11, "e", in: .number(10)), Make.folder(12, "f", in: .number(11)),
                Make.folder(13, "g"), Make.folder(14, "h"),
            ]))
        for (number, kind) in [(13, ItemKind.directory), (14, .directory)] {
            bench.clock.advance(seconds: 10)
            _ = try await service.commit(bench.request([Make.delete(UInt64(number), kind, base: 1)]))
        }
        bench.clock.advance(seconds: 10)
        _ = try await service.commit(
            bench.request([10, 11, 12].map { Make.delete($0, .directory, base: 1) }))
        let all = try await service.trash(in: nil, after: nil, limit: 10)
        #expect(all.items.map(\.path) == ["d", "h", "g"] && !all.hasMore)
        #expect(all.items[0].deletedAt == bench.clock.now() && all.items[0].device == CloudBench.device)
        let first = try await service.trash(in: nil, after: nil, limit: 1)
        #expect(first.hasMore)
        let rest = try await service.trash(in: nil, after: first.items.last?.position, limit: 10)
        #expect(rest.items.map(\.path) == ["h", "g"])
        #expect(try await service.trash(in: .number(10), after: nil, limit: 10).items.map(\.path) == ["d/e"])
        #expect(try await service.trash(in: .number(11), after: nil, limit: 10).items.map(\.path) == ["d/e/f"])
        #expect(await failure { _ = try await service.trash(in: nil, after: nil, limit: 0) } == .invalid)
        _ = try await service.commit(bench.request([Make.undelete(11, .directory)]))
        #expect(try await service.trash(in: nil, after: nil, limit: 10).items.map(\.path) == ["d/e/f", "h", "g"])
    }

    private func trashed(in folder: ItemID?, _ service: any CloudService) async throws -> [ItemID] {
        try await service.trash(in: folder, after: nil, limit: 10).items.map(\.item.id)
    }

    /// Deletes the file, and the folder 10 that it is in.
    private func deleteWithFolder(_ service: any CloudService) async throws {
        let revision = try await service.open().revision.number
        _ = try await service.commit(
            bench.request([Make.delete(1, base: revision), Make.delete(10, .directory, base: revision)]))
    }

    /// Nobody has resolved the conflict with the other version, which would be lost with it.
    @Test func itemInConflictStaysInTheTrash() async throws {
        let service = try await service()
        let revision = try await service.open().revision.number
        _ = try await service.commit(
            bench.request([Make.folder(10, "d"), Make.move(1, base: revision, to: "a.txt", in: .number(10))]))
        try await deleteWithFolder(service)
        bench.clock.advance(seconds: 400 * Self.day)
        try await bench.cloud.maintain()
        #expect(try await trashed(in: nil, service) == [.number(10)])
        #expect(try await trashed(in: .number(10), service) == [.number(1)])
        #expect(try await kinds(service) == [.current, .conflict, .history])
        let chunks = ChunkSamples.chunks(2..<4)
        #expect(try await bench.fetch(chunks.map(\.id), from: service) == chunks)
        _ = try await service.commit(bench.request([Make.undelete(10, .directory), Make.undelete(1)]))
        let items = try await service.changes(after: .zero, limit: 10).items
        let item = try #require(items.first { $0.id == .number(1) })
        #expect(!item.isDeleted && item.parent == .number(10) && item.content?.version == .number(2))
        #expect(item.conflictCount == 1 && item.conflicts.map(\.id) == [.number(3)])
        // After the resolution it expires like any other item.
        _ = try await service.commit(bench.request([Make.versions(1, .resolve(.number(3)))]))
        try await deleteWithFolder(service)
        bench.clock.advance(seconds: KeepingRules.standard.trashSeconds - Self.day)
        try await bench.cloud.maintain()
        #expect(try await trashed(in: nil, service) == [.number(10)])
        bench.clock.advance(seconds: 2 * Self.day)
        try await bench.cloud.maintain()
        #expect(try await trashed(in: nil, service).isEmpty)
        for id in [1, 10] as [UInt64] {
            #expect(await failure { _ = try await service.versions(of: .number(id)) } == .notFound)
        }
        for chunk in chunks {
            #expect(await failure { _ = try await bench.fetch([chunk.id], from: service) } == .notFound)
        }
    }
}
