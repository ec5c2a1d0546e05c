import Foundation
import GRDB
import Testing
@testable import UbiquityCloudStore
import UbiquityCore
import UbiquitySystem
import UbiquityTestSupport
import UbiquityWire

/// Damage, collection, and exclusive use of the data.
@Suite struct CloudRetentionTests {
    private let bench: CloudBench
    private let small = ChunkSamples.chunk(1)
    private let large = ChunkSamples.chunk(2, length: 40_000)
    private static let hour = 3600.0

    init() throws { bench = try CloudBench() }

    private func flip(_ path: String) throws {
        let file = try FileDescriptor.open(path, .readWrite)
        let byte = try file.read(count: 1, at: 5)
        try file.write([byte[0] ^ 1], at: 5)
    }

    @Test func flippedBitIsHiddenAndRepaired() async throws {
        let service = try await bench.container()
        try await service.upload([large])
        _ = try await service.commit(bench.request([bench.file(1, "a", [small, large])], [small]))
        try flip(bench.file(of: large.id))
        #expect(await failure { _ = try await bench.fetch([small.id, large.id], from: service) } == .damaged)
        #expect(try await bench.fetch([small.id], from: service) == [small])
        #expect(try await service.missingChunks(of: [small.id, large.id]) == [large.id])
        // A device with the content repairs it, and it stays repaired.
        try await service.upload([large])
        try await bench.reopen()
        let again = try await bench.container()
        #expect(try await bench.fetch([large.id], from: again) == [large])
    }

    private func damageSmall() async throws {
        try await bench.reopen {
            let file = try FileDescriptor.open(Path.join(bench.folder.path, "metadata.db"), .readWrite)
            let bytes = try file.read(count: Int(try file.status().size), at: 0)
            let places = bytes.indices.filter { bytes[$0...].starts(with: small.bytes) }
            try #require(!places.isEmpty)
            // Freed pages may have it still.
            for place in places { try file.write([small.bytes[9] ^ 1], at: Int64(place) + 9) }
        }
    }

    /// The cloud reads each chunk whole: repeated requests for one chunk would delay other users of its disk.
    @Test func unsoundTakesFewChunksEachOnce() async throws {
        let service = try await bench.container()
        #expect(await failure { _ = try await service.unsoundChunks(of: [small.id, large.id, small.id]) } == .invalid)
        let many = (0...UInt64(Limits.maximumChunksToVerify)).map { number in
            ChunkID(bytes: [UInt8](repeating: 0, count: 24) + (0..<8).map { UInt8(truncatingIfNeeded: number >> ($0 * 8)) })
        }.compactMap { $0 }
        #expect(await failure { _ = try await service.unsoundChunks(of: many) } == .tooLarge)
        #expect(try await service.unsoundChunks(of: Array(many.dropLast())).count == Limits.maximumChunksToVerify)
    }

    /// A small chunk is in the database, whose pages have no checksums.
    @Test func damagedSmallChunkIsRequestedAgain() async throws {
        var service = try await bench.container()
        _ = try await service.commit(bench.request([bench.file(1, "a", [small, large])], [small, large]))
        try await damageSmall()
        service = try await bench.container()
        #expect(try await service.missingChunks(of: [small.id, large.id]) == [])
        #expect(try await service.unsoundChunks(of: [small.id, large.id]) == [small.id])
        #expect(try await service.missingChunks(of: [small.id, large.id]) == [small.id])
        // Or a commit contains it.
        _ = try await service.commit(bench.request([bench.file(3, "c", [small])], [small]))
        #expect(try await service.unsoundChunks(of: [small.id, large.id]) == [])
        try await damageSmall()
        service = try await bench.container()
        #expect(try await service.unsoundChunks(of: [small.id, large.id]) == [small.id])
        #expect(
            await failure { _ = try await service.commit(bench.request([bench.file(2, "b", [small])])) }
                == .missingChunks)
        try await service.upload([small])
        #expect(try await service.unsoundChunks(of: [small.id, large.id]) == [])
        #expect(try await bench.fetch([small.id], from: service) == [small])
        _ = try await service.commit(bench.request([bench.file(2, "b", [small])]))
    }

    @Test func chunkWithoutFileIsMissing() async throws {
        let service = try await bench.container()
        try await service.upload([large])
        _ = try await service.commit(bench.request([bench.file(1, "a", [large])]))
        try FileSystem.unlink(bench.file(of: large.id))
        #expect(try await service.missingChunks(of: [large.id]) == [large.id])
        #expect(
            await failure { _ = try await service.commit(bench.request([bench.file(2, "b", [large])])) }
                == .missingChunks)
        try await service.upload([large])
        #expect(try await bench.fetch([large.id], from: service) == [large])
    }

    /// All of an unresolved losing state stays.
    @Test func chunksOfALosingPackageStay() async throws {
        let service = try await bench.container()
        let head = ChunkSamples.chunk(8)
        let manifest = [head, small, large].map { ChunkReference(id: $0.id, length: $0.bytes.count) }
        try await service.upload([head, small, large])
        var request = bench.request([try Make.folder(1, "d.rtfd")])
        request.packages = [
            PackageEdit(
                id: .number(1), base: .zero, changedAt: .at(100),
                lost: LostPackage(
                    version: .number(5), size: manifest.reduce(0) { $0 + Int64($1.length) }, manifest: manifest,
                    modifiedAt: .at(100), device: CloudBench.device, deviceName: "laptop"))
        ]
        let response = try await service.commit(request)
        #expect(response.results.first?.item?.conflicts.first?.id == .number(5))
        bench.clock.advance(seconds: 400 * 24 * Self.hour)
        try await bench.cloud.maintain()
        try await bench.reopen()
        let again = try await bench.container()
        #expect(try await again.missingChunks(of: manifest.map(\.id)) == [])
        #expect(try await again.manifest(of: .number(5)) == manifest)
        // A state with missing chunks is refused.
        var lacking = bench.request([try Make.folder(2, "e.rtfd")])
        let other = ChunkSamples.chunk(9)
        lacking.packages = [
            PackageEdit(
                id: .number(2), base: .zero, changedAt: .at(100),
                lost: LostPackage(
                    version: .number(6), size: Int64(other.bytes.count),
                    manifest: [ChunkReference(id: other.id, length: other.bytes.count)], modifiedAt: .at(100),
                    device: CloudBench.device, deviceName: "laptop"))
        ]
        #expect(await failure { _ = try await again.commit(lacking) } == .missingChunks)
    }

    @Test func unusedChunksAreCollectedAfterADay() async throws {
        let service = try await bench.container()
        let (used, other) = (ChunkSamples.chunk(3), ChunkSamples.chunk(4, length: 50_000))
        try await service.upload([small, large, used, other])
        _ = try await service.commit(bench.request([bench.file(1, "a", [used, other])]))
        bench.clock.advance(seconds: 23 * Self.hour)
        try await bench.cloud.maintain()
        // The request keeps both for another day.
        #expect(try await service.missingChunks(of: [small.id, large.id]).isEmpty)
        bench.clock.advance(seconds: 23 * Self.hour)
        try await bench.cloud.maintain()
        #expect(try await service.missingChunks(of: [small.id, large.id, used.id, other.id]).isEmpty)
        bench.clock.advance(seconds: 26 * Self.hour)
        try await bench.cloud.maintain()
        #expect(try await service.missingChunks(of: [small.id, large.id, used.id, other.id]) == [small.id, large.id])
    }

    @Test func commitSparesOldChunks() async throws {
        let service = try await bench.container()
        try await service.upload([small, large])
        _ = try await service.commit(bench.request([bench.file(1, "a", [small, large])]))
        _ = try await service.commit(bench.request([Make.delete(1, base: 1)]))
        // After the retention nothing refers to them. A commit that names them without a question first finds them all
        // the same, and collection spares them from then on.
        bench.clock.advance(seconds: 30 * 24 * Self.hour + 1)
        _ = try await service.commit(bench.request([bench.file(2, "b", [small, large])]))
        try await bench.cloud.maintain()
        #expect(try await bench.fetch([small.id, large.id], from: service) == [small, large])
    }

    @Test func historyExpiresWithItsChunks() async throws {
        let service = try await bench.container()
        try await service.upload([small, large])
        _ = try await service.commit(bench.request([bench.file(1, "a", [large])]))
        let content = ContentChange(
            version: .number(2), baseVersion: .number(1), size: 3000,
            manifest: [ChunkReference(id: small.id, length: 3000)])
        _ = try await service.commit(bench.request([Make.put(1, base: 1, ChangedFields(content: content))]))
        #expect(try await service.usage().usedBytes == 3000)
        bench.clock.advance(seconds: 29 * 24 * Self.hour)
        try await bench.cloud.maintain()
        #expect(try await bench.fetch([large.id], from: service) == [large])
        bench.clock.advance(seconds: 3 * 24 * Self.hour)
        try await bench.cloud.maintain()
        #expect(await failure { _ = try await service.manifest(of: .number(1)) } == .notFound)
        #expect(await failure { _ = try await bench.fetch([large.id], from: service) } == .notFound)
        #expect(try await bench.fetch([small.id], from: service) == [small])
    }

    @Test func uncommittedUploadsMayBeLostWithTheProcess() async throws {
        var service = try await bench.container()
        try await service.upload([large])
        try await bench.reopen()
        service = try await bench.container()
        // Either is right, but the cloud's answer must be true.
        if try await service.missingChunks(of: [large.id]).isEmpty {
            #expect(try await bench.fetch([large.id], from: service) == [large])
        } else {
            #expect(await failure { _ = try await bench.fetch([large.id], from: service) } == .notFound)
        }
    }

    @Test func secondProcessIsRefused() async throws {
        #expect(await failure { _ = try CloudBench.open(bench.folder.path, bench.clock, bench.pool) } == .inUse)
        #expect(try FileSystem.status(bench.folder.path).permissions == 0o700)
    }

    @Test func dataOfANewerProgramIsLeftAlone() async throws {
        _ = try await bench.container()
        let database = bench.folder.path + "/metadata.db"
        try await bench.reopen {
            // PRAGMA user_version, in the header: closing has moved the log into the database.
            let file = try FileDescriptor.open(database, .readWrite)
            let found = try file.read(count: 4, at: 60)
            #expect(found[0..<3] == [0, 0, 0] && (1..<99).contains(found[3]))
            try file.write([0, 0, 0, 99], at: 60)
            let error = #expect(throws: UbiquityError.self) {
                try CloudBench.open(bench.folder.path, bench.clock, bench.pool)
            }
            #expect(error?.code == .newerFormat)
            #expect(try file.read(count: 4, at: 60) == [0, 0, 0, 99])
            try file.write(found, at: 60)
        }
        #expect(try await bench.container().open().revision == .zero)
    }

    /// As the first format left them: an item with an earlier version, and a commit with its number.
    @Test func firstFormatIsMigrated() async throws {
        var service = try await bench.container()
        let first = try await service.commit(bench.request([bench.file(1, "a", [small])], [small]))
        let content = ContentChange(
            version: .number(5), baseVersion: .number(1), size: 40_000,
            manifest: [ChunkReference(id: large.id, length: 40_000)])
        let edit = Make.put(1, base: first.revision.number, ChangedFields(content: content))
        var request = bench.request([edit], [large])
        request.number = 7
        let second = try await service.commit(request)
        try await bench.reopen {
            let database = try DatabaseQueue(path: bench.folder.path + "/metadata.db")
            try database.writeWithoutTransaction { db in
                try db.execute(
                    sql: """
                        \(OlderFormats.undo10)
                        \(StoredRows.triggers.map { "DROP TRIGGER \($0);" }.joined())
                        ALTER TABLE accounts DROP COLUMN stored;
                        DROP INDEX commitsMark; ALTER TABLE commits DROP COLUMN mark;
                        ALTER TABLE versions DROP COLUMN ancestor;
                        DELETE FROM meta WHERE name LIKE 'database%';
                        DROP INDEX itemsConflicts;
                        DROP INDEX itemsLinks; DROP TABLE lastCommits; ALTER TABLE containers DROP COLUMN history; DROP INDEX versionsItem;
                        ALTER TABLE items DROP COLUMN history;
                        CREATE INDEX versionsItem ON versions (container, item); PRAGMA user_version = 1;
                        """)
            }
            try database.close()
        }
        service = try await bench.container()
        #expect(try await service.open().revision == second.revision)
        let item = try #require(try await service.changes(after: .zero, limit: 10).items.first { $0.name.description == "a" })
        #expect(item.content?.version == .number(5) && item.hasHistory)
        #expect(try await bench.fetch([small.id, large.id], from: service) == [small, large])
        // Its revisions have no marks.
        let point = FeedPoint(second.revision, mark: 5, incarnation: try await service.open().incarnation)
        #expect(try await service.changes(after: point, limit: 10).mark == 0)
        // Features of later formats work on it: numbered commits, with the names of devices.
        var third = bench.request([try Make.folder(3, "folder")])
        third.number = 8
        _ = try await service.commit(third)
        var late = bench.request([try Make.folder(4, "late")])
        late.number = 8
        await #expect(throws: OutdatedCommit.self) { _ = try await service.commit(late) }
    }

    @Test func commitIsSynced() async throws {
        #expect(try await bench.cloud.isDurable())
    }

    private func damage(_ sql: String) async throws {
        try await bench.reopen {
            let database = try DatabaseQueue(path: bench.folder.path + "/metadata.db")
            try database.write { try $0.execute(sql: sql) }
            try database.close()
        }
    }

    /// A device continues with all other items, and shows why that item is not uploaded. A device that sends all of the
    /// item repairs it.
    @Test func damagedRecordAffectsOnlyItsItem() async throws {
        let first = bench.request([try bench.file(1, "a", [small]), try bench.file(2, "b", [small])], [small])
        _ = try await bench.container().commit(first)
        try await damage("UPDATE items SET stamps = x'07' WHERE name = x'61'")
        let service = try await bench.container()
        func move(_ id: UInt64, _ name: String) async throws -> [ChangeResult.Outcome] {
            try await service.commit(bench.request([Make.move(id, base: 1, to: name)])).results.map(\.outcome)
        }
        #expect(await failure { _ = try await move(1, "a2") } == .damaged)
        #expect(try await move(2, "b2") == [.applied])
        let page = try await service.changes(after: .zero, limit: 10)
        #expect(page.items.map(\.id) == [.number(2)] && page.isIncomplete)
        // Also under its former name.
        _ = try await service.commit(bench.request([try bench.file(1, "a", [large], version: 91)], [large]))
        let found = try #require(try await service.changes(after: .zero, limit: 10).items.first { $0.id == .number(1) })
        #expect(found.name.description == "a" && found.content?.size == Int64(large.bytes.count))
        #expect(try await service.versions(of: .number(1)).filter { $0.kind == .current }.count == 1)
        #expect(try await !service.changes(after: .zero, limit: 10).isIncomplete)
    }

    /// A sent version replaces an unreadable current one. An equal content replaces it, another content makes it an
    /// earlier version, and a version sent again under its own name is itself.
    @Test(arguments: [("same", nil as UInt64?), ("other", nil), ("itself", 1)])
    func contentReplacesLostVersion(_ what: String, _ version: UInt64?) async throws {
        _ = try await bench.container().commit(bench.request([try bench.file(1, "a", [small], version: 1)], [small]))
        try await damage("UPDATE versions SET device = x'00'")
        let service = try await bench.container()
        let content = what == "other" ? large : small
        _ = try await service.commit(
            bench.request([try bench.file(1, "a", [content], version: version ?? 7)], [content]))
        let item = try #require(try await service.changes(after: .zero, limit: 10).items.first)
        let current = try #require(item.content)
        #expect(current.version == .number(version ?? 7) && current.size == Int64(content.bytes.count))
        #expect(try await service.manifest(of: current.version).map(\.id) == [content.id])
        let all = try await service.allVersions(of: .number(1))
        #expect(all.versions.map(\.kind) == [.current] && all.isIncomplete == (what == "other"))
        // It expires at its time.
        bench.clock.advance(seconds: 40 * 24 * Self.hour)
        try await bench.cloud.maintain()
        #expect(try await !service.allVersions(of: .number(1)).isIncomplete)
    }

    /// The feed reaches its end, whatever the pages.
    @Test(arguments: ["stamps = x'07'", "revision = 'text'", "revision = 1 << 40", "id = 'text' || revision", "name = 'text'"])
    func damagedRecordsDoNotEndTheFeed(_ change: String) async throws {
        for number in UInt64(1)...6 {
            let pair = [number * 2, number * 2 + 1]
            _ = try await bench.container().commit(
                bench.request(try pair.map { try bench.file($0, "f\($0)", [small]) }, [small]))
        }
        try await damage("UPDATE items SET \(change) WHERE name IN (x'6635', x'663133')")
        let service = try await bench.container()
        for limit in 1...13 {
            var seen = [RemoteItem](), revision = Revision.zero, hasMore = true, pages = 0
            while hasMore, pages < 20 {
                let page = try await service.changes(after: revision, limit: limit)
                seen += page.items
                (revision, hasMore, pages) = (page.revision, page.hasMore, pages + 1)
            }
            #expect(Set(seen.map(\.name.description)).count == 10 && seen.count == 10, "\(limit)")
            #expect(revision == Revision(6) && !hasMore)
        }
    }

    /// A row that only looks deleted must not be purged, and the feed reaches as far back as before.
    @Test(arguments: ["modified = 7", "revision = 1 << 40", "revision = 'text'"])
    func upkeepLeavesDamagedRows(_ change: String) async throws {
        let service = try await bench.container()
        _ = try await service.commit(bench.request([try bench.file(1, "a", [small]), try bench.file(2, "b", [small])], [small]))
        // Long before its creation, by this clock too.
        try await damage("UPDATE items SET deleted = -1 << 62, \(change) WHERE name = x'61'")
        try await bench.cloud.maintain()
        let again = try await bench.container()
        #expect(try await again.manifest(of: .number(1)).map(\.id) == [small.id])
        #expect(try await again.changes(after: Revision(1), limit: 10).items.isEmpty)
    }

    /// The item names its current version, which does not expire as an old one.
    @Test func wrongVersionRoleIsHarmless() async throws {
        let service = try await bench.container()
        _ = try await service.commit(bench.request([try bench.file(1, "a", [small, large])], [small, large]))
        try await damage("UPDATE versions SET role = 2")
        let again = try await bench.container()
        #expect(try await again.versions(of: .number(1)).map(\.kind) == [.current])
        #expect(try await bench.fetch([small.id, large.id], from: again) == [small, large])
    }

    /// The process ended during their removal, or an upload was running.
    @Test func deletedAccountsChunksAreCollectedNextRound() async throws {
        _ = try await bench.container().commit(bench.request([bench.file(1, "a", [small, large])], [small, large]))
        let left = Path.join(bench.folder.path, "chunks/4711")
        for path in [left, left + "/chunks"] { try FileSystem.makeDirectory(path) }
        try await bench.reopen {
            let database = try DatabaseQueue(path: bench.folder.path + "/metadata.db")
            try database.write {
                try $0.execute(sql: "INSERT INTO smallChunks SELECT 4711, id, bytes, asked FROM smallChunks")
            }
            try database.close()
        }
        try await bench.cloud.maintain()
        #expect(try !FileSystem.exists(left))
        let service = try await bench.container()
        #expect(try await bench.fetch([small.id, large.id], from: service) == [small, large])
        try await bench.reopen {
            let database = try DatabaseQueue(path: bench.folder.path + "/metadata.db")
            let count = try database.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM smallChunks WHERE account = 4711") }
            #expect(count == 0)
            try database.close()
        }
    }
}
