import Testing
@testable import UbiquityCloudStore
import UbiquityCore
import UbiquitySystem
import UbiquityTestSupport
import UbiquityWire

/// The space of an account by container and document. CI-15, CI-16, QU-03, QU-04.
@Suite struct UsageSurveyTests {
    private let bench: CloudBench
    private static let length = 300_000

    init() throws { bench = try CloudBench() }

    private func chunk(_ number: UInt64, _ length: Int = length) -> Chunk { ChunkSamples.chunk(number, length: length) }

    private func file(_ number: UInt64, _ name: String, in folder: UInt64?, _ chunks: [Chunk]) throws -> ItemChange {
        let manifest = chunks.map { ChunkReference(id: $0.id, length: $0.bytes.count) }
        return Make.put(
            number,
            ChangedFields(
                place: try Make.place(name, in: folder.map { .number($0) } ?? .root), mode: 0o644, createdAt: .at(100),
                modifiedAt: .at(100),
                content: ContentChange(
                    version: .number(number), baseVersion: nil, size: manifest.reduce(0) { $0 + Int64($1.length) },
                    manifest: manifest)))
    }

    private func usage(_ account: String = Cloud.localAccount) async throws -> AccountUsage {
        try await bench.cloud.survey.usage(of: account)
    }

    /// Documents (a file, a package, an edited file, a deleted one), data of the app, and a copy of a content.
    private func fill() async throws {
        let service = try await bench.container()
        _ = try await service.commit(
            bench.request([
                try Make.folder(1, "Documents"), try Make.folder(2, "Data"),
                try Make.folder(3, "Talk.key", in: .number(1)), try Make.folder(4, "slides", in: .number(3)),
            ]))
        let files: [(UInt64, String, UInt64?)] = [
            (10, "letter.txt", 1), (11, "slide", 4), (12, "edited.txt", 1), (13, "gone.txt", 1), (14, "cache.db", 2),
        ]
        for (number, name, folder) in files {
            _ = try await service.commit(
                bench.request([try file(number, name, in: folder, [chunk(number)])], [chunk(number)]))
        }
        // A copy takes no space.
        _ = try await service.commit(bench.request([try file(15, "copy.txt", in: nil, [chunk(10)])]))
        let content = ContentChange(
            version: .number(50), baseVersion: .number(12), size: Int64(Self.length),
            manifest: [ChunkReference(id: chunk(50).id, length: Self.length)])
        let now = try await service.open().revision.number
        _ = try await service.commit(
            bench.request([Make.put(12, base: now, ChangedFields(content: content))], [chunk(50)]))
        _ = try await service.commit(bench.request([Make.delete(13, base: now)]))
    }

    @Test func documentsAreNamedAndAllElseIsOneSum() async throws {
        try await fill()
        let container = try #require(try await usage().containers.first)
        let documents = try #require(container.documents)
        #expect(Set(documents.map(\.name)) == ["letter.txt", "Talk.key", "edited.txt", "gone.txt"])
        func bytes(_ name: String) -> UsageSums? { documents.first { $0.name == name }?.bytes }
        let one = Int64(Self.length)
        #expect(bytes("letter.txt")?.live == one && bytes("Talk.key")?.live == one)
        #expect(bytes("edited.txt")?.live == one && bytes("edited.txt")?.earlierVersions == one)
        #expect(bytes("gone.txt")?.live == 0 && bytes("gone.txt")?.trash == one)
        // The app's own data has no name.
        #expect(container.others.live == one)
        #expect(container.bytes.live == 4 * one)
        #expect(container.bytes.earlierVersions == one && container.bytes.trash == one)
    }

    @Test func sumsAddUpToTheFilesOfTheCloud() async throws {
        try await fill()
        let service = try await bench.container("other")
        // An upload that no commit names, and contents in rows.
        try await service.upload([chunk(60)])
        for number in UInt64(70)..<90 {
            _ = try await service.commit(
                bench.request([try bench.file(number, "f\(number)", [chunk(number, 9000)])], [chunk(number, 9000)]))
        }
        let usage = try await usage()
        #expect(usage.unused == Int64(Self.length))
        #expect(usage.containers.map(\.name) == ["notes", "other"])
        #expect(usage.bytes.live == usage.containers.reduce(0) { $0 + $1.bytes.live })
        let files = try size(of: bench.folder.path)
        #expect(abs(Double(usage.total - files)) < 0.05 * Double(files), "\(usage.total) of \(files)")
    }

    @Test func accountsShareTheDatabaseByTheirRows() async throws {
        for (account, count) in [("alice", UInt64(20)), ("bob", 5)] {
            _ = try await bench.cloud.createAccount(account)
            let service = try await bench.container(account: account)
            for number in 1...count {
                _ = try await service.commit(
                    bench.request([try bench.file(number, "f\(number)", [chunk(number, 9000)])], [chunk(number, 9000)]))
            }
        }
        let (alice, bob) = (try await usage("alice"), try await usage("bob"))
        #expect(alice.bytes.live == 20 * 9000 && bob.bytes.live == 5 * 9000)
        #expect(alice.database > bob.database)
        let files = try size(of: bench.folder.path)
        #expect(abs(Double(alice.total + bob.total - files)) < 0.15 * Double(files))
        #expect(await failure { _ = try await usage("eve") } == .notFound)
    }

    @Test func purgeAndCollectionFreeTheSpace() async throws {
        try await fill()
        _ = try await bench.cloud.purges.emptyTrash(of: #require(ContainerID("notes")), of: Cloud.localAccount)
        let waiting = try await usage()
        #expect(waiting.bytes.trash == 0 && waiting.unused == Int64(Self.length))
        bench.clock.advance(seconds: CloudLimits.purgedChunkAge + 1)
        try await bench.cloud.maintain()
        #expect(try await usage().unused == 0)
    }

    @Test func deletedContainerIsRestoredWithAllItsItems() async throws {
        try await fill()
        let notes = try #require(ContainerID("notes")), before = try await usage()
        let deleted = try await bench.cloud.deletions.delete(notes, of: Cloud.localAccount)
        #expect(deleted.items == 9 && deleted.kept == 0 && deleted.restorableSeconds == 30 * 86_400)
        let empty = try await usage()
        #expect(empty.bytes.live == 0 && empty.counted == 0)
        #expect(empty.bytes.trash == before.bytes.total)
        // A second deletion finds nothing. An item made since stays at the restore, and takes its name.
        #expect(try await bench.cloud.deletions.delete(notes, of: Cloud.localAccount).items == 0)
        let service = try await bench.container()
        _ = try await service.commit(bench.request([try file(99, "copy.txt", in: nil, [chunk(99)])], [chunk(99)]))
        #expect(try await bench.cloud.deletions.restore(notes, of: Cloud.localAccount).items == 9)
        let after = try await usage()
        #expect(after.bytes.live == before.bytes.live + Int64(Self.length))
        // The item that a user had deleted before stays in the trash.
        #expect(after.bytes.trash == before.bytes.trash)
        let items = try await service.snapshot(after: .zero, limit: 100).items
        let names = items.filter { $0.parent == .root && $0.id != .root && !$0.isDeleted }.map { $0.name.description }
        #expect(names.sorted() == ["Data", "Documents", "copy 2.txt", "copy.txt"])
        #expect(await failure { _ = try await bench.cloud.deletions.restore(notes, of: Cloud.localAccount) } == .notFound)
    }

    @Test func deletedContainerIsGoneAfterItsTime() async throws {
        try await fill()
        let notes = try #require(ContainerID("notes"))
        _ = try await bench.cloud.deletions.delete(notes, of: Cloud.localAccount)
        bench.clock.advance(seconds: 31 * 86_400)
        try await bench.cloud.maintain()
        #expect(await failure { _ = try await bench.cloud.deletions.restore(notes, of: Cloud.localAccount) } == .notFound)
        #expect(try await usage().total < Int64(Self.length))
    }

    @Test func containersHaveDisplayNames() async throws {
        let containers = bench.cloud.containers, notes = try #require(ContainerID("notes"))
        try await containers.set(notes, ContainerSettings(displayName: "My Notes"), of: Cloud.localAccount)
        _ = try await bench.container("other")
        let listed = try await containers.list(of: Cloud.localAccount)
        #expect(listed == [ContainerEntry(name: "notes", displayName: "My Notes"), ContainerEntry(name: "other")])
        #expect(try await usage().containers.first?.displayName == "My Notes")
        for name in ["a/b", " ", "..", String(repeating: "x", count: 129)] {
            let settings = ContainerSettings(displayName: name)
            #expect(await failure { try await containers.set(notes, settings, of: Cloud.localAccount) } != nil)
        }
        try await containers.set(notes, ContainerSettings(displayName: ""), of: Cloud.localAccount)
        #expect(try await containers.list(of: Cloud.localAccount).first?.displayName == nil)
    }

    private func size(of folder: String) throws -> Int64 {
        try FileSystem.entries(of: folder).reduce(0) { sum, entry in
            let path = Path.join(folder, entry.text), status = try FileSystem.status(path)
            // The database's memory that its processes share is no data.
            guard !entry.text.hasSuffix("-shm") else { return sum }
            return sum + (status.isDirectory ? try size(of: path) : status.size)
        }
    }
}
