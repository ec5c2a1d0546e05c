import GRDB
import Testing
@testable import UbiquityCloudStore
import UbiquityCore
import UbiquitySystem
import UbiquityTestSupport
import UbiquityWire

/// Links: anybody with the URL reads one state of an item, until the link ends. PU-01 to PU-04, PU-06, PU-07.
@Suite struct LinkTests {
    private let bench: CloudBench
    private static let account = Cloud.localAccount
    private static let container = ContainerID("notes").unsafelyUnwrapped
    private let small = ChunkSamples.chunk(1, length: 9000)
    private let large = ChunkSamples.chunk(2, length: 40_000)
    private let other = ChunkSamples.chunk(3, length: 50_000)
    private var links: Links { bench.cloud.links }

    init() throws { bench = try CloudBench() }

    private func publish(
        _ item: UInt64, version: UInt64? = nil, lifetime: Double? = nil, password: String? = nil
    ) async throws -> (secret: String, entry: LinkEntry) {
        let request = LinkRequest(
            item: ItemID.number(item).description, version: version.map { VersionID.number($0).description },
            lifetime: lifetime, password: password)
        let new = try await links.create(request, in: Self.container, of: Self.account, passwordRounds: 3)
        return (try #require(LinkPath.secret(in: new.path)), new.link)
    }

    private func read(_ secret: String, _ range: Range<Int64>? = nil) async throws -> [UInt8] {
        let link = try await links.find(secret), received = Lock<[UInt8]>([])
        let file = try #require(try await links.files(of: link).first)
        try await links.read(file, range ?? 0..<file.size, of: link) { part in received.withLock { $0 += part } }
        return received.withLock { $0 }
    }

    private func isEnded(_ secret: String) async -> Bool {
        do { _ = try await links.find(secret) } catch { return error is EndedLink }
        return false
    }

    private func save(_ service: any CloudService) async throws {
        _ = try await service.commit(
            bench.request([bench.file(1, "report.pdf", [small, large])], [small, large]))
    }

    private func edit(_ service: any CloudService, base: Int64) async throws {
        let content = ContentChange(
            version: .number(50), baseVersion: .number(1), size: 50_000,
            manifest: [ChunkReference(id: other.id, length: 50_000)])
        _ = try await service.commit(bench.request([Make.put(1, base: base, ChangedFields(content: content))], [other]))
    }

    /// PU-01, PU-02.
    @Test func linkGivesTheContentAndNothingElse() async throws {
        try await save(bench.container())
        let (secret, entry) = try await publish(1)
        #expect(entry.name == "report.pdf" && entry.size == 49_000 && entry.files == 1 && !entry.hasPassword)
        #expect(try await read(secret) == small.bytes + large.bytes)
        #expect(try await read(secret, 8_990..<9_020) == Array((small.bytes + large.bytes)[8_990..<9_020]))
        let link = try await links.find(secret)
        #expect(link.name.description == "report.pdf" && !link.isFolder)
        #expect(try await links.list(in: Self.container, of: Self.account).map(\.id) == [entry.id])
    }

    /// PU-03.
    @Test func linkKeepsItsVersionThroughEditsHistoryAndCollection() async throws {
        let service = try await bench.container()
        try await save(service)
        let (secret, _) = try await publish(1)
        try await edit(service, base: 2)
        // The history drops the first version, and the collector looks for unused chunks.
        bench.clock.advance(seconds: 2 * CloudLimits.unusedChunkAge)
        try await bench.cloud.pool.run { [cloud = bench.cloud] in
            try cloud.write { db in
                try db.execute(
                    sql: "DELETE FROM versions WHERE id = ?", arguments: [Bytes(VersionID.number(1).bytes)])
            }
        }
        try await bench.cloud.maintain()
        #expect(try await read(secret) == small.bytes + large.bytes)
        try await bench.reopen()
        #expect(try await read(secret) == small.bytes + large.bytes)
        // Without the link they go.
        try await links.revoke(secret, in: Self.container, of: Self.account)
        bench.clock.advance(seconds: 2 * CloudLimits.unusedChunkAge)
        try await bench.cloud.maintain()
        let again = try await bench.container()
        #expect(try await again.missingChunks(of: [small.id, large.id]) == [small.id, large.id])
    }

    @Test func earlierVersionCanBePublished() async throws {
        let service = try await bench.container()
        try await save(service)
        try await edit(service, base: 1)
        let (first, _) = try await publish(1, version: 1)
        let (second, _) = try await publish(1)
        #expect(try await read(first) == small.bytes + large.bytes)
        #expect(try await read(second) == other.bytes)
    }

    /// PU-04.
    @Test func expiredRevokedAndDeletedItemsEndTheLink() async throws {
        let service = try await bench.container()
        try await save(service)
        let (expiring, _) = try await publish(1, lifetime: 60)
        let (revoked, entry) = try await publish(1)
        let (deleted, _) = try await publish(1)
        bench.clock.advance(seconds: 61)
        #expect(await isEnded(expiring))
        #expect(await !isEnded(revoked))
        try await links.revoke(entry.id, in: Self.container, of: Self.account)
        #expect(await isEnded(revoked))
        #expect(await !isEnded(deleted))
        let base = try await service.open().revision.number
        _ = try await service.commit(bench.request([Make.delete(1, base: base)]))
        #expect(await isEnded(deleted))
        #expect(try await links.list(in: Self.container, of: Self.account).isEmpty)
        // A restored item has no link.
        try await bench.cloud.maintain()
        #expect(await isEnded(deleted))
    }

    @Test func revocationEndsADownloadInProgress() async throws {
        let service = try await bench.container()
        let chunks = ChunkSamples.chunks(10..<60, length: 60_000)
        try await service.upload(Array(chunks))
        _ = try await service.commit(bench.request([bench.file(1, "film", Array(chunks))]))
        let (secret, entry) = try await publish(1)
        let link = try await links.find(secret), isRevoked = Lock(false), links = links
        let file = try #require(try await links.files(of: link).first)
        await #expect(throws: EndedLink.self) {
            try await links.read(file, 0..<file.size, of: link) { _ in
                guard isRevoked.withLock({ revoked in
                    defer { revoked = true }
                    return !revoked
                }) else { return }
                try await links.revoke(entry.id, in: Self.container, of: Self.account)
            }
        }
    }

    @Test func passwordIsStoredAsAHashAndCompared() async throws {
        try await save(bench.container())
        let (secret, entry) = try await publish(1, password: "Geheim ä")
        #expect(entry.hasPassword)
        let link = try await links.find(secret)
        #expect(try await links.admits("Geheim ä", to: link))
        for wrong in [nil, "", "geheim ä", "Geheim ä "] { #expect(try await !links.admits(wrong, to: link)) }
        try await bench.reopen()
        #expect(try FolderSearch.files(in: bench.folder.path, with: Array("Geheim ä".utf8)).isEmpty)
        #expect(try FolderSearch.files(in: bench.folder.path, with: Array(secret.utf8)).isEmpty)
    }

    /// Test vector of RFC 7914, section 11.
    @Test func passwordHashIsPBKDF2() {
        let hash = LinkPassword("passwd", salt: Array("salt".utf8), rounds: 1).hash
        #expect(Hex.encode(hash) == "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc")
    }

    /// PU-06: folders too. PU-07: of a symbolic link only what stays inside.
    @Test func folderHasItsFilesFoldersAndInnerLinks() async throws {
        let service = try await bench.container()
        let inner = ItemID.number(11)
        let content = ContentChange(
            version: .number(12), baseVersion: nil, size: 9000,
            manifest: [ChunkReference(id: small.id, length: 9000)])
        let file = ChangedFields(
            place: try Make.place("a.txt", in: inner), mode: 0o600, createdAt: .at(100), modifiedAt: .at(200),
            xattrsSet: [Xattr(name: Array("user.secret".utf8), value: Array("xyz".utf8))], content: content)
        _ = try await service.commit(
            bench.request(
                [
                    Make.folder(10, "Trip"), Make.folder(11, "Photos", in: .number(10)), Make.put(12, file),
                    Make.link(13, "inside", in: .number(10), to: "Photos/a.txt"),
                    Make.link(14, "outside", in: .number(10), to: "../other"),
                    Make.link(15, "absolute", in: .number(10), to: "/home/alice"), Make.folder(16, "Other"),
                ], [small]))
        let (secret, entry) = try await publish(10)
        #expect(entry.isFolder && entry.files == 1 && entry.size == 9000)
        let files = try await links.files(of: links.find(secret))
        let paths = files.map { $0.path.map(\.description).joined(separator: "/") }
        #expect(paths == ["Trip", "Trip/Photos", "Trip/Photos/a.txt", "Trip/inside"])
        // Purging a file of the folder ends the link: its content is gone for ever.
        let base = try await service.open().revision.number
        _ = try await service.commit(bench.request([Make.delete(12, base: base)]))
        #expect(await !isEnded(secret))
        let before = try await service.open().revision
        _ = try await bench.cloud.purges.purge(.number(12), in: Self.container, of: Self.account)
        #expect(await isEnded(secret))
        #expect(try await links.list(in: Self.container, of: Self.account).isEmpty)
        #expect(try await service.changes(after: FeedPoint(before), limit: 10).links == [:])
    }

    @Test(arguments: [
        ("Photos/a", 2, true), ("../Trip", 2, false), ("a", 2, true), ("../b", 3, true), ("../../b", 3, false),
        ("/etc", 2, false), ("./x/../y", 2, true), ("x/../../y", 2, false), ("", 2, false),
    ])
    func symbolicLinksThatLeaveAreOmitted(_ target: String, _ depth: Int, _ stays: Bool) throws {
        let path = [ItemName](repeating: try ItemName("f"), count: depth)
        #expect(LinkSnapshot.staysInside(Array(target.utf8), path) == stays)
    }

    @Test func unfitRequestsAreRefused() async throws {
        let service = try await bench.container()
        try await save(service)
        _ = try await service.commit(bench.request([Make.file(2, "announced", version: 20, nil)]))
        #expect(await failure { _ = try await publish(2) } == .notUploadedYet)
        #expect(await failure { _ = try await publish(3) } == .notFound)
        let top = LinkRequest(item: ItemID.root.description)
        #expect(
            await failure { _ = try await links.create(top, in: Self.container, of: Self.account) } == .notSupported)
        #expect(await failure { _ = try await publish(1, version: 77) } == .notFound)
        for lifetime in [0, -1, Double.nan, Double.infinity, CloudLimits.longestLinkLifetime + 1] {
            #expect(await failure { _ = try await publish(1, lifetime: lifetime) } == .invalid)
        }
        #expect(await failure { _ = try await publish(1, password: "") } == .invalid)
        for link in ["", "7", "x", String(repeating: "0", count: 32)] {
            #expect(
                await failure { try await links.revoke(link, in: Self.container, of: Self.account) } == .notFound)
        }
        #expect(await failure { _ = try await links.find(String(repeating: "0", count: 32)) } == .notFound)
    }

    /// Another account's container has none of these links, and cannot end them.
    @Test func accountsSeeTheirOwnLinks() async throws {
        try await save(bench.container())
        let (secret, entry) = try await publish(1)
        _ = try await bench.cloud.createAccount("bob")
        _ = try await bench.container(account: "bob")
        #expect(try await links.list(in: Self.container, of: "bob").isEmpty)
        #expect(await failure { try await links.revoke(entry.id, in: Self.container, of: "bob") } == .notFound)
        #expect(await failure { try await links.revoke(secret, in: Self.container, of: "bob") } == .notFound)
        #expect(await !isEnded(secret))
    }

    @Test func deletedAccountHasNoLinks() async throws {
        _ = try await bench.cloud.createAccount("alice")
        let service = try await bench.container(account: "alice")
        try await save(service)
        let request = LinkRequest(item: ItemID.number(1).description)
        _ = try await links.create(request, in: Self.container, of: "alice")
        try await bench.cloud.deleteAccount("alice")
        let rows = try await bench.cloud.pool.run { [cloud = bench.cloud] in
            try cloud.read { db in
                try Int.fetchOne(db, sql: "SELECT (SELECT count(*) FROM links) + (SELECT count(*) FROM linkFiles)")
            }
        }
        #expect(rows == 0)
    }

    /// XA-03: devices learn the numbers of links from the feed, without items.
    @Test func feedHasTheNumbersOfLinks() async throws {
        let service = try await bench.container()
        try await save(service)
        let before = try await service.changes(after: .zero, limit: 10)
        #expect(before.links == nil)
        let (_, entry) = try await publish(1)
        let (_, second) = try await publish(1, lifetime: 60)
        let page = try await service.changes(after: FeedPoint(before.revision), limit: 10)
        #expect(page.items.isEmpty && page.links == [.number(1): 2] && page.revision > before.revision)
        let same = try await service.changes(after: FeedPoint(page.revision), limit: 10)
        #expect(same.links == nil)
        #expect(second.id != entry.id)
        bench.clock.advance(seconds: 61)
        try await bench.cloud.maintain()
        let expired = try await service.changes(after: FeedPoint(page.revision), limit: 10)
        #expect(expired.links == [.number(1): 1])
        _ = try await service.commit(bench.request([Make.delete(1, base: 1)]))
        let deleted = try await service.changes(after: FeedPoint(expired.revision), limit: 10)
        #expect(deleted.links == [:] && deleted.items.count == 1)
        #expect(try await service.snapshot(after: .zero, limit: 10).links == [:])
    }
}
