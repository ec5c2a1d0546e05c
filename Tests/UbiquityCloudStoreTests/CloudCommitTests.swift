import Testing
import UbiquityCloudStore
import UbiquityCore
import UbiquitySystem
import UbiquityWire

@Suite struct CloudCommitTests {
    private let bench: CloudBench
    private let small = ChunkSamples.chunk(1)
    private let large = ChunkSamples.chunk(2, length: 40_000)

    init() throws { bench = try CloudBench() }

    @Test func fileSurvivesAReopen() async throws {
        var service = try await bench.container()
        try await service.upload([large])
        let answer = try await service.commit(bench.request([bench.file(1, "a", [small, large])], [small]))
        let before = try await service.changes(after: .zero, limit: 10)
        let opened = try await service.open()
        try await bench.reopen()
        service = try await bench.container()
        #expect(try await service.changes(after: .zero, limit: 10) == before)
        #expect(try await service.open() == opened)
        #expect(answer.results.first?.item == before.items.first && before.revision == Revision(1))
        #expect(try await bench.fetch([small.id, large.id], from: service) == [small, large])
        #expect(try await service.manifest(of: .number(1)).map(\.id) == [small.id, large.id])
        #expect(try await service.usage().usedBytes == 43_000)
    }

    /// Nobody would find the commits of such a cloud: another cloud may use the folder's place by then.
    @Test func cloudWithoutItsFolderRefusesCommits() async throws {
        let service = try await bench.container(), path = bench.folder.path
        let request = bench.request([try bench.file(1, "a", [small])], [small])
        try FileSystem.rename(path, to: path + ".away")
        for isReplaced in [false, true] {
            if isReplaced {
                try FileSystem.makeDirectory(path)
                _ = try FileDescriptor.open(path + "/cloud.lock", [.writeOnly, .create])
            }
            #expect(!bench.cloud.isInPlace)
            #expect(await failure { _ = try await service.commit(request) } == .offline)
            #expect(await failure { _ = try await service.changes(after: .zero, limit: 10) } == .offline)
            #expect(await failure { try await service.upload([large]) } == .offline)
        }
        try FileSystem.removeTree(path)
        try FileSystem.rename(path + ".away", to: path)
        #expect(bench.cloud.isInPlace)
        #expect(try await service.commit(request).revision == Revision(1))
    }

    @Test func repeatedCommitHasNoSecondEffect() async throws {
        let service = try await bench.container()
        let request = bench.request([try bench.file(1, "a", [small])], [small])
        let first = try await service.commit(request)
        #expect(try await service.commit(request) == first)
        try await bench.reopen()
        let again = try await bench.container()
        #expect(try await again.commit(request) == first)
        #expect(try await again.usage().usedBytes == 3000)
        var other = request
        other.changes.append(try Make.folder(2, "d"))
        #expect(await failure { _ = try await again.commit(other) } == .invalid)
    }

    @Test func missingChunksAreNamedAndLeaveNoTrace() async throws {
        let service = try await bench.container()
        let request = bench.request([try bench.file(1, "a", [small, large]), try Make.folder(2, "d")])
        do {
            _ = try await service.commit(request)
            Issue.record("a commit with missing chunks was accepted")
        } catch let missing as MissingChunks {
            #expect(Set(missing.ids) == [small.id, large.id])
        }
        #expect(try await service.changes(after: .zero, limit: 10).items.isEmpty)
        #expect(try await service.missingChunks(of: [small.id, large.id]) == [small.id, large.id])
        try await service.upload([small, large])
        #expect(try await service.missingChunks(of: [small.id, large.id]).isEmpty)
        #expect(try await service.commit(request).revision == Revision(1))
    }

    @Test func refusedCommitLeavesNoTrace() async throws {
        let service = try await bench.container()
        try await service.upload([small])
        let bad = [try bench.file(1, "a", [small]), try Make.folder(1, "b")]
        #expect(await failure { _ = try await service.commit(bench.request(bad)) } == .invalid)
        let inFile = [try bench.file(1, "a", [small]), try Make.folder(2, "b", in: .number(1))]
        #expect(await failure { _ = try await service.commit(bench.request(inFile)) } == .invalid)
        #expect(try await service.changes(after: .zero, limit: 10).items.isEmpty)
        #expect(try await service.usage().usedBytes == 0)
    }

    @Test func chunkOfCommitIsVerified() async throws {
        let service = try await bench.container()
        var bad = small
        bad.bytes[7] ^= 1
        #expect(await failure { try await service.upload([bad]) } == .invalid)
        let request = bench.request([try bench.file(1, "a", [small])], [bad])
        #expect(await failure { _ = try await service.commit(request) } == .invalid)
        try await service.upload([small])
        let shorter = ContentChange(
            version: .number(1), baseVersion: nil, size: 10, manifest: [ChunkReference(id: small.id, length: 10)])
        var change = try bench.file(1, "a", [small])
        if case .put(var fields) = change.action {
            fields.content = shorter
            change.action = .put(fields)
        }
        let wrongLength = bench.request([change])
        #expect(await failure { _ = try await service.commit(wrongLength) } == .invalid)
    }

    /// For existing accounts and for new ones; without the option it stays.
    @Test func quotaIsSetAtTheStart() async throws {
        func quotas() async throws -> [Int64] {
            [try await bench.container().usage().quotaBytes, try await bench.container(account: "eve").usage().quotaBytes]
        }
        _ = try await bench.container()
        try await bench.reopen(quotaBytes: 1 << 40)
        _ = try await bench.cloud.createAccount("eve")
        #expect(try await quotas() == [1 << 40, 1 << 40])
        try await bench.reopen()
        #expect(try await quotas() == [1 << 40, 1 << 40])
        try await bench.reopen(quotaBytes: 1000)
        #expect(try await quotas() == [1000, 1000])
    }

    @Test func commitBeyondTheQuotaIsRefused() async throws {
        let service = try await bench.container()
        let announced = ContentChange(
            version: .number(1), baseVersion: nil, size: CloudLimits.defaultQuotaBytes, manifest: nil)
        let fields = ChangedFields(
            place: try Make.place("big"), mode: 0o644, createdAt: .at(1), modifiedAt: .at(1), content: announced)
        _ = try await service.commit(bench.request([Make.put(1, fields)]))
        let more = bench.request([try bench.file(2, "more", [small])], [small])
        #expect(await failure { _ = try await service.commit(more) } == .quotaExceeded)
        #expect(try await service.changes(after: .zero, limit: 10).items.count == 1)
        _ = try await service.commit(bench.request([Make.delete(1, base: 1)]))
        #expect(try await service.usage().usedBytes == 0)
        #expect(try await service.commit(more).revision == Revision(3))
    }

    /// It belongs to every program that reaches the cloud's socket.
    @Test func localAccountIsReserved() async throws {
        let error = await #expect(throws: UbiquityError.self) { try await bench.cloud.createAccount(Cloud.localAccount) }
        #expect(error?.code == .invalidName)
    }

    /// The top folder has no row until something of it is changed.
    @Test func topFolderCommitIsAnswered() async throws {
        let service = try await bench.container()
        let change = ItemChange(
            id: .root, kind: .directory, baseRevision: .zero, changedAt: .at(1), action: .put(ChangedFields()))
        let response = try await service.commit(bench.request([change]))
        #expect(response.results.map(\.item?.id) == [.root])
    }

    @Test func accountsDoNotSeeEachOther() async throws {
        let token = try await bench.cloud.createAccount("eve")
        #expect(try await bench.cloud.tokens.authenticate(token).account == "eve")
        let mine = try await bench.container()
        let hers = try await bench.container(account: "eve")
        _ = try await mine.commit(bench.request([try bench.file(1, "a", [small])], [small]))
        try await mine.upload([large])
        #expect(try await hers.changes(after: .zero, limit: 10).items.isEmpty)
        #expect(try await hers.missingChunks(of: [small.id, large.id]) == [small.id, large.id])
        #expect(await failure { _ = try await hers.manifest(of: .number(1)) } == .notFound)
        #expect(await failure { _ = try await bench.fetch([large.id], from: hers) } == .notFound)
        try await bench.cloud.deleteAccount("eve")
        #expect(await failure { _ = try await bench.cloud.tokens.authenticate(token) } == .signedOut)
        #expect(try await bench.cloud.accounts() == [Cloud.localAccount])
        #expect(try await bench.fetch([large.id], from: mine) == [large])
    }

    /// A device that has read the deleted account's feed has read nothing of this one.
    @Test func recreatedAccountIsAnotherOne() async throws {
        var incarnations = Set<UInt64>()
        for _ in 0..<2 {
            _ = try await bench.cloud.createAccount("eve")
            let container = try await bench.container(account: "eve")
            incarnations.insert(try await container.open().incarnation)
            #expect(incarnations.contains(try await bench.container(account: "eve").open().incarnation))
            try await bench.cloud.deleteAccount("eve")
        }
        #expect(incarnations.count == 2)
    }

    @Test func newsAnnounceCommits() async throws {
        let service = try await bench.container()
        var news = try await service.news().makeAsyncIterator()
        #expect(try await news.next() == .zero)
        _ = try await service.commit(bench.request([try Make.folder(1, "d")]))
        #expect(try await news.next() == Revision(1))
        // A slow reader gets only the newest.
        for number in UInt64(2)...5 {
            _ = try await service.commit(bench.request([try Make.folder(number, "\(number)")]))
        }
        #expect(try await news.next() == Revision(5))
        try await bench.cloud.close()
        #expect(try await news.next() == nil)
    }

    @Test func concurrentCommitsAreAllAccepted() async throws {
        let service = try await bench.container()
        let requests = try (UInt64(1)...40).map { number in
            let chunk = ChunkSamples.chunk(number + 100, length: 200)
            return bench.request([try bench.file(number, "f\(number)", [chunk])], [chunk])
        }
        let revisions = try await withThrowingTaskGroup(of: Revision.self) { group in
            for request in requests { group.addTask { try await service.commit(request).revision } }
            return try await group.reduce(into: Set<Revision>()) { $0.insert($1) }
        }
        #expect(revisions == Set((1...40).map { Revision($0) }))
        #expect(try await service.changes(after: .zero, limit: 100).items.count == 40)
    }
}
