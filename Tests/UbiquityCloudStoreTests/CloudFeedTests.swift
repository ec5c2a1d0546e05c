import Testing
import UbiquityCloudStore
import UbiquityCore
import UbiquitySystem
import UbiquityTestSupport
import UbiquityWire

@Suite struct CloudFeedTests {
    private let bench: CloudBench
    private static let day = 86_400.0

    init() throws { bench = try CloudBench() }

    private func folders(_ numbers: ClosedRange<UInt64>) throws -> [ItemChange] {
        try numbers.map { try Make.folder($0, "d\($0)") }
    }

    @Test func pagesNeverEndInsideARevision() async throws {
        let service = try await bench.container()
        _ = try await service.commit(bench.request(folders(1...3)))
        _ = try await service.commit(bench.request(folders(4...10)))
        _ = try await service.commit(bench.request(folders(11...11)))
        let first = try await service.changes(after: .zero, limit: 4)
        #expect(first.items.count == 10 && first.revision == Revision(2) && first.hasMore)
        let second = try await service.changes(after: first.revision, limit: 4)
        #expect(second.items.map(\.id) == [.number(11)] && second.revision == Revision(3) && !second.hasMore)
        let exact = try await service.changes(after: .zero, limit: 3)
        #expect(exact.items.count == 3 && exact.revision == Revision(1) && exact.hasMore)
        let end = try await service.changes(after: Revision(3), limit: 4)
        #expect(end.items.isEmpty && end.revision == Revision(3) && !end.hasMore)
    }

    /// Attributes of 60,000 bytes each: 4 MiB hold 69 of them.
    @Test func pagesEndByBytes() async throws {
        let service = try await bench.container()
        let value = [UInt8](repeating: 7, count: 60_000)
        for number in UInt64(1)...80 {
            var change = try Make.folder(number, "d\(number)")
            guard case .put(var fields) = change.action else { continue }
            fields.xattrsSet = [Xattr(name: Array("user.a".utf8), value: value)]
            change.action = .put(fields)
            _ = try await service.commit(bench.request([change]))
        }
        for isSnapshot in [false, true] {
            var revision = Revision.zero, seen = Set<ItemID>(), pages = 0, hasMore = true
            while hasMore {
                let page = isSnapshot
                    ? try await service.snapshot(after: revision, limit: 2000)
                    : try await service.changes(after: revision, limit: 2000)
                #expect(page.items.count <= 70)
                seen.formUnion(page.items.map(\.id))
                (revision, hasMore, pages) = (page.revision, page.hasMore, pages + 1)
            }
            #expect(seen.count == 80 && pages == 2)
        }
        // One commit that touches all of them would be one page.
        let touches = (1...80).map { Make.put($0, kind: .directory, base: 1, ChangedFields(mode: 0o700)) }
        #expect(await failure { _ = try await service.commit(bench.request(touches)) } == .tooLarge)
        _ = try await service.commit(bench.request(Array(touches[..<40])))
        // Pages of the trash are limited by bytes, too.
        for part in [1...40, 41...80] as [ClosedRange<UInt64>] {
            _ = try await service.commit(bench.request(part.map { Make.delete($0, .directory, base: 99) }))
        }
        let trash = try await service.trash(in: nil, after: nil, limit: 1000)
        #expect(trash.items.count <= 70 && trash.hasMore)
        let rest = try await service.trash(in: nil, after: trash.items.last?.position, limit: 1000)
        #expect(trash.items.count + rest.items.count == 80 && !rest.hasMore)
    }

    @Test func feedListsAnItemAtItsLatestRevision() async throws {
        let service = try await bench.container()
        _ = try await service.commit(bench.request(folders(1...2)))
        _ = try await service.commit(bench.request([Make.move(1, .directory, base: 1, to: "moved")]))
        let page = try await service.changes(after: .zero, limit: 1)
        #expect(page.items.map(\.id) == [.number(2)] && page.hasMore)
        let rest = try await service.changes(after: page.revision, limit: 1)
        #expect(rest.items.map(\.name.description) == ["moved"] && rest.revision == Revision(2))
    }

    @Test func snapshotOmitsDeletedItemsOfTheFeed() async throws {
        let service = try await bench.container()
        _ = try await service.commit(bench.request(folders(1...2)))
        _ = try await service.commit(bench.request([Make.delete(1, .directory, base: 1)]))
        #expect(try await service.changes(after: .zero, limit: 10).items.map(\.id) == [.number(2)])
        #expect(try await service.changes(after: Revision(1), limit: 10).items.map(\.isDeleted) == [true])
        #expect(await failure { _ = try await service.changes(after: Revision(9), limit: 10) } == .invalid)
        #expect(await failure { _ = try await service.changes(after: .zero, limit: 0) } == .invalid)
    }

    /// A device has read further: an older copy was restored, and devices may not continue from its newer state.
    @Test func containerBehindADeviceGetsANewIncarnation() async throws {
        var service = try await bench.container()
        _ = try await service.commit(bench.request(folders(1...2)))
        var known: Set = [try await service.open().incarnation]
        _ = try await service.changes(after: Revision(1), limit: 10)
        #expect(try await service.open().incarnation == known.first)
        for snapshot in [false, true] {
            var news = try await service.news().makeAsyncIterator()
            #expect(try await news.next() == Revision(1))
            // The second device has not read it yet.
            let before = try await service.open().incarnation
            for isFirst in [true, false] {
                let error = await failure {
                    _ = snapshot
                        ? try await service.snapshot(after: Revision(2), limit: 10)
                        : try await service.changes(after: Revision(2), limit: 10)
                }
                #expect(error == .invalid)
                // Reading changes nothing.
                #expect(try await known.contains(service.open().incarnation))
                let opened = try await service.open(knowing: FeedPoint(Revision(2), incarnation: before))
                #expect(known.insert(opened.incarnation).inserted == isFirst)
            }
            #expect(try await news.next() == nil)
            try await bench.reopen {}
            service = try await bench.container()
            #expect(try await known.contains(service.open().incarnation))
        }
        #expect(try await service.changes(after: .zero, limit: 10).items.count == 2)
    }

    @Test func feedReportsForgottenDeletions() async throws {
        let service = try await bench.container()
        _ = try await service.commit(
            bench.request(folders(1...1) + [try Make.folder(2, "in", in: .number(1)), try Make.folder(3, "keep")]))
        let both = [Make.delete(1, .directory, base: 1), Make.delete(2, .directory, base: 1)]
        _ = try await service.commit(bench.request(both))
        bench.clock.advance(seconds: 29 * Self.day)
        try await bench.cloud.maintain()
        #expect(try await service.changes(after: Revision(1), limit: 10).items.count == 2)
        bench.clock.advance(seconds: 2 * Self.day)
        try await bench.cloud.maintain()
        #expect(await failure { _ = try await service.changes(after: Revision(1), limit: 10) } == .feedCompacted)
        #expect(try await service.changes(after: Revision(2), limit: 10).items.isEmpty)
        #expect(try await service.snapshot(after: Revision(1), limit: 10).revision == Revision(2))
        #expect(try await service.changes(after: .zero, limit: 10).items.map(\.id) == [.number(3)])
        // A device that still edits there learns that the item is deleted.
        let late = bench.request([Make.put(1, kind: .directory, base: 1, ChangedFields(mode: 0o700))])
        #expect(try await service.commit(late).results.map(\.outcome) == [.unknownItem])
    }

    @Test func announcedContentIsNotAvailable() async throws {
        let service = try await bench.container()
        _ = try await service.commit(bench.request([Make.file(1, "a", version: 1, nil)]))
        let item = try #require(try await service.changes(after: .zero, limit: 1).items.first)
        #expect(item.content?.isAvailable == false && item.content?.size == 10)
        #expect(await failure { _ = try await service.manifest(of: .number(1)) } == .notUploadedYet)
        #expect(await failure { _ = try await service.manifest(of: .number(2)) } == .notFound)
    }

    @Test func longManifestIsFetchedByVersion() async throws {
        let service = try await bench.container()
        let chunks = ChunkSamples.chunks(10..<15, length: 100)
        _ = try await service.commit(bench.request([bench.file(1, "a", chunks)], chunks))
        let item = try #require(try await service.changes(after: .zero, limit: 1).items.first)
        #expect(item.content?.manifest == nil && item.content?.isAvailable == true)
        #expect(try await service.manifest(of: .number(1)).map(\.id) == chunks.map(\.id))
    }

    @Test func unopenedContainerIsRefused() async throws {
        let id = try #require(ContainerID("new"))
        let service = try await bench.cloud.service(account: Cloud.localAccount, container: id)
        #expect(await failure { _ = try await service.changes(after: .zero, limit: 1) } == .notFound)
        #expect(await failure { _ = try await service.commit(bench.request(folders(1...1))) } == .notFound)
    }

    @Test func everyFieldSurvivesTheDatabase() async throws {
        let service = try await bench.container()
        let attributes = [
            Xattr(name: Array("user.b".utf8), value: [0, 255]), Xattr(name: Array("user.a".utf8), value: []),
        ]
        let fields = ChangedFields(
            place: Place(parent: .root, name: try ItemName("u\u{308}.txt")), mode: 0o7755,
            createdAt: Timestamp(nanoseconds: -7), modifiedAt: Timestamp(nanoseconds: .max), xattrsSet: attributes,
            linkTarget: [0xFF, 0x2F])
        _ = try await service.commit(bench.request([Make.put(1, kind: .symlink, fields)]))
        try await bench.reopen()
        let again = try await bench.container()
        let item = try #require(try await again.changes(after: .zero, limit: 1).items.first)
        #expect(item.kind == .symlink && item.mode == 0o7755 && item.linkTarget == [0xFF, 0x2F])
        #expect(item.createdAt.nanoseconds == -7 && item.modifiedAt.nanoseconds == .max)
        #expect(item.xattrs == attributes.sorted() && item.name.bytes == Array("u\u{308}.txt".utf8))
    }

    /// An empty file has no chunk. A list of up to four chunks is included, a longer one is fetched.
    @Test(arguments: [0, 1, 4, 5, 6]) func shortManifestsAreIncluded(count: Int) async throws {
        let chunks = ChunkSamples.chunks(1..<UInt64(count) + 1)
        let service = try await bench.container()
        _ = try await service.commit(bench.request([bench.file(1, "a", chunks)], chunks))
        let content = try #require(try await service.changes(after: .zero, limit: 10).items.first { $0.kind == .file }?.content)
        #expect(content.isAvailable && content.manifest?.map(\.id) == (count <= 4 ? chunks.map(\.id) : nil))
        let listed = try #require(try await service.versions(of: .number(1)).first?.content)
        #expect(listed.isAvailable && listed.manifest == content.manifest)
        #expect(try await service.manifest(of: content.version).map(\.id) == chunks.map(\.id))
    }
}
