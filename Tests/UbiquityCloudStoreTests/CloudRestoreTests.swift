import Testing
import UbiquityCloudStore
import UbiquityCore
import UbiquitySystem
import UbiquityWire

/// An older copy of the cloud's data is restored, and devices know later states.
@Suite struct CloudRestoreTests {
    private let bench: CloudBench

    init() throws { bench = try CloudBench() }

    private var database: String { Path.join(bench.folder.path, "metadata.db") }

    private func bytes() throws -> [UInt8] {
        let file = try FileDescriptor.open(database, .readOnly)
        return try file.read(count: Int(try file.status().size), at: 0)
    }

    /// Overwrites the database in its place: its file stays the same.
    private func putBack(_ copy: [UInt8]) throws {
        for suffix in ["-wal", "-shm"] { try? FileSystem.unlink(database + suffix) }
        let file = try FileDescriptor.open(database, .readWrite)
        try file.truncate(to: 0)
        try file.write(copy, at: 0)
    }

    private func folder(_ number: UInt64, _ service: any CloudService) async throws {
        _ = try await service.commit(bench.request([try Make.folder(number, "d\(number)")]))
    }

    /// The position of a device that has read the feed to its end.
    private func point(_ service: any CloudService) async throws -> FeedPoint {
        let page = try await service.changes(after: .zero, limit: 100)
        return FeedPoint(page.revision, mark: page.mark, incarnation: try await service.open().incarnation)
    }

    /// The cloud is restored to revision 1, and another device commits. This device's revision is another commit now.
    private func overtaken() async throws -> (service: any CloudService, ahead: FeedPoint) {
        var service = try await bench.container()
        try await folder(1, service)
        var copy: [UInt8] = []
        try await bench.reopen { copy = try bytes() }
        service = try await bench.container()
        for number in UInt64(2)...3 { try await folder(number, service) }
        let ahead = try await point(service)
        try await bench.reopen { try putBack(copy) }
        service = try await bench.container()
        for number in UInt64(4)...7 { try await folder(number, service) }
        return (service, ahead)
    }

    @Test func readingFromAnotherHistoryChangesNothing() async throws {
        let (service, ahead) = try await overtaken()
        let beyond = FeedPoint(Revision(1000), incarnation: ahead.incarnation)
        for point in [ahead, beyond, FeedPoint(Revision(1000))] {
            #expect(await failure { _ = try await service.changes(after: point, limit: 10) } == .invalid)
            #expect(await failure { _ = try await service.snapshot(after: point, limit: 10) } == .invalid)
        }
        #expect(try await service.open().incarnation == ahead.incarnation)
    }

    @Test func deviceThatKnowsAnotherHistoryDrawsANewIncarnation() async throws {
        let (service, ahead) = try await overtaken()
        #expect(ahead.revision == Revision(3) && ahead.mark != 0)
        let other = try await point(service)
        #expect(other.incarnation == ahead.incarnation, "nobody has noticed yet")
        #expect(try await service.changes(after: other, limit: 10).items.isEmpty)
        var news = try await service.news().makeAsyncIterator()
        #expect(try await news.next() == Revision(5))
        #expect(await failure { _ = try await service.changes(after: ahead, limit: 10) } == .invalid)
        let renewed = try await service.open(knowing: ahead).incarnation
        #expect(renewed != ahead.incarnation)
        #expect(try await news.next() == nil, "devices that listen connect anew")
        // Devices that know the old incarnation change nothing more.
        for late in [ahead, other] {
            #expect(await failure { _ = try await service.snapshot(after: late, limit: 10) } == .invalid)
            #expect(try await service.open(knowing: late).incarnation == renewed)
        }
        #expect(try await service.open().incarnation == renewed)
        #expect(try await service.changes(after: point(service), limit: 10).items.isEmpty)
    }

    @Test func commitFromAnotherHistoryIsRefused() async throws {
        let (service, ahead) = try await overtaken()
        var request = bench.request([try Make.folder(9, "late")])
        request.known = ahead
        #expect(await failure { _ = try await service.commit(request) } == .offline)
        let renewed = try await service.open()
        #expect(renewed.incarnation != ahead.incarnation && renewed.revision == Revision(5))
        #expect(await failure { _ = try await service.commit(request) } == .offline)
        #expect(try await service.open().incarnation == renewed.incarnation)
        request.known = try await point(service)
        #expect(try await service.commit(request).revision == Revision(6))
    }

    @Test func revisionsWithoutMarksAreAccepted() async throws {
        let (service, _) = try await overtaken()
        #expect(try await service.changes(after: Revision(3), limit: 10).items.count == 2)
        let incarnation = try await service.open().incarnation
        let silent = FeedPoint(Revision(3), incarnation: incarnation)
        #expect(try await service.changes(after: silent, limit: 10).items.count == 2)
        #expect(try await service.open().incarnation == incarnation)
    }

    /// A commit without changes has the revision of the one before, and makes no mark.
    @Test func commitsWithoutChangesKeepTheMark() async throws {
        let service = try await bench.container()
        try await folder(1, service)
        let before = try await point(service)
        #expect(before.mark != 0)
        for _ in 0..<3 { _ = try await service.commit(bench.request([Make.delete(77, .directory, base: 1)])) }
        #expect(try await service.changes(after: before, limit: 10).revision == Revision(1))
        #expect(try await point(service) == before)
    }

    @Test func databaseCopiedBackIsAnotherIncarnation() async throws {
        let service = try await bench.container()
        try await folder(1, service)
        let known = try await service.open().incarnation
        try await bench.reopen()
        #expect(try await bench.container().open().incarnation == known)
        try await bench.reopen {
            let copy = database + ".copy"
            let file = try FileDescriptor.open(copy, [.readWrite, .create, .exclusive])
            try file.write(try bytes(), at: 0)
            for suffix in ["-wal", "-shm"] { try? FileSystem.unlink(database + suffix) }
            try FileSystem.rename(copy, to: database)
        }
        let renewed = try await bench.container().open().incarnation
        #expect(renewed != known)
        try await bench.reopen()
        #expect(try await bench.container().open().incarnation == renewed)
    }
}
