import Logging
import Testing
import UbiquityCloudStore
import UbiquityContent
import UbiquityCore
@testable import UbiquityDaemon
import UbiquitySystem
import UbiquityTestSupport
import UbiquityWire

/// Documents of the account before come into a folder of the present one. CI-12, CI-14, CI-20.
@Suite struct AccountImportTests {
    /// The account before, and a folder in place of the new mount.
    private final class Bench {
        let root: TemporaryFolder
        let pool: BlockingPool
        let cloud: Cloud
        let service: any CloudService
        private var numbers: UInt64 = 0

        var target: String { root("target") }

        init() async throws {
            root = try TemporaryFolder()
            let pool = BlockingPool(name: "import-test", threads: 2)
            self.pool = pool
            let data = root("cloud")
            try FileSystem.makeDirectory(root("target"))
            let cloud = try await pool.run {
                try Cloud(
                    data: data, timekeeper: SystemTimekeeper(), random: SystemRandom(), pool: pool,
                    logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
            }
            self.cloud = cloud
            service = try await cloud.service(
                account: Cloud.localAccount, container: try #require(ContainerID("default")))
            _ = try await service.open()
        }

        private func id() -> UInt64 {
            numbers += 1
            return numbers
        }

        private func commit(_ kind: ItemKind, _ fields: ChangedFields, _ chunks: [Chunk] = []) async throws -> ItemID {
            let item = ItemID(high: 5, low: id())
            let change = ItemChange(
                id: item, kind: kind, baseRevision: .zero, changedAt: SystemTimekeeper().now(), action: .put(fields))
            let request = CommitRequest(
                id: RequestID(high: 5, low: id()), device: DeviceID(high: 5, low: 1), deviceName: "old",
                changes: [change], chunks: chunks)
            #expect(try await service.commit(request).results.count == 1)
            return item
        }

        func folder(_ name: String, in parent: ItemID = .root) async throws -> ItemID {
            try await commit(
                .directory,
                ChangedFields(
                    place: Place(parent: parent, name: try ItemName(name)), mode: 0o755, createdAt: .zero,
                    modifiedAt: .zero))
        }

        func file(_ name: String, _ text: String, in parent: ItemID = .root) async throws {
            let bytes = Array(text.utf8), chunk = Chunk(id: ChunkNaming.name(of: bytes), bytes: bytes)
            // The content names its chunk twice.
            let manifest = [ChunkReference](repeating: ChunkReference(id: chunk.id, length: bytes.count), count: 2)
            let content = ContentChange(
                version: VersionID(high: 5, low: id()), baseVersion: nil, size: Int64(bytes.count * 2),
                manifest: manifest)
            _ = try await commit(
                .file,
                ChangedFields(
                    place: Place(parent: parent, name: try ItemName(name)), mode: 0o640, createdAt: .zero,
                    modifiedAt: Timestamp(nanoseconds: 1_000_000_000_000), content: content), [chunk])
        }

        func run(
            _ paths: [String] = [], copies: Bool = false, confirm: ([String]) async throws -> Void = { _ in }
        ) async throws -> AccountImport.Report {
            try await AccountImport(
                from: service, to: target, keepsOriginals: copies, packages: .standard,
                journal: root("journal"), pool: pool
            ).run(paths, confirm: confirm) { _ in }
        }

        /// The names and texts below the target, folders with a slash.
        func tree(_ path: String? = nil, _ prefix: String = "") throws -> [String] {
            try FileSystem.entries(of: path ?? target).map(\.text).sorted().flatMap { name -> [String] in
                let inside = Path.join(path ?? target, name)
                guard try FileSystem.status(inside).isDirectory else {
                    let text = String(decoding: try SmallFile.read(inside, limit: 1000) ?? [], as: UTF8.self)
                    return ["\(prefix)\(name)=\(text)"]
                }
                return ["\(prefix)\(name)/"] + (try tree(inside, "\(prefix)\(name)/"))
            }
        }

        func write(_ name: String, _ text: String) throws {
            try SmallFile.publish(Array(text.utf8), at: Path.join(target, name))
        }

        /// The paths of the account before.
        func left() async throws -> [String] {
            let tree = try await ImportTree.read(service)
            return tree.items.values.filter { $0.id != .root }.map { tree.path(of: $0) }.sorted()
        }

        func end() async throws { try await cloud.close() }
    }

    @Test func documentsMoveAndNamesThatMeetAreNumbered() async throws {
        let bench = try await Bench()
        let docs = try await bench.folder("Documents"), talk = try await bench.folder("Talk.key", in: docs)
        try await bench.file("a.txt", "ab", in: docs)
        try await bench.file("slide", "s", in: talk)
        try await bench.file("note", "n")
        try FileSystem.makeDirectories(Path.join(bench.target, "Documents/Talk.key"))
        try bench.write("Documents/a.txt", "present")
        try bench.write("Documents/Talk.key/slide", "present")
        let report = try await bench.run()
        #expect(report.imported == 3 && report.removed == 5 && report.skipped.isEmpty, "\(report)")
        #expect(
            try bench.tree() == [
                "Documents/", "Documents/Talk 2.key/", "Documents/Talk 2.key/slide=ss", "Documents/Talk.key/",
                "Documents/Talk.key/slide=present", "Documents/a 2.txt=abab", "Documents/a.txt=present", "note=nn",
            ])
        let status = try FileSystem.status(Path.join(bench.target, "note"))
        #expect(status.modifiedAt == Timestamp(nanoseconds: 1_000_000_000_000) && status.permissions == 0o640)
        #expect(try await bench.left().isEmpty)
        #expect(try await bench.service.trash(in: nil, after: nil, limit: 10).items.count > 0)
        try await bench.end()
    }

    @Test func nothingIsRemovedBeforeTheNewCloudConfirms() async throws {
        let bench = try await Bench()
        try await bench.file("a", "a")
        try await bench.file("b", "b")
        await #expect(throws: UbiquityError.self) {
            _ = try await bench.run { _ in throw UbiquityError(.offline, "the new cloud is away") }
        }
        #expect(try await bench.left() == ["a", "b"])
        var confirmed = [String]()
        let report = try await bench.run { confirmed += $0 }
        // The files of the first run are confirmed, not copied again.
        #expect(report.imported == 2 && report.removed == 2)
        #expect(confirmed == ["a", "b"].map { Path.join(bench.target, $0) })
        #expect(try bench.tree() == ["a=aa", "b=bb"])
        #expect(try await bench.left().isEmpty)
        try await bench.end()
    }

    @Test func copyKeepsTheOriginalsAndIsNotRepeated() async throws {
        let bench = try await Bench()
        let folder = try await bench.folder("d")
        try await bench.file("a", "a", in: folder)
        try await bench.file("b", "b")
        #expect(try await bench.run(["d/a"], copies: true).imported == 1)
        #expect(try bench.tree() == ["d/", "d/a=aa"])
        #expect(try await bench.run(copies: true).imported == 2)
        #expect(try bench.tree() == ["b=bb", "d/", "d/a=aa"])
        #expect(try await bench.left() == ["b", "d", "d/a"])
        let missing = await #expect(throws: UbiquityError.self) { _ = try await bench.run(["none"]) }
        #expect(missing?.code == .notFound)
        try await bench.end()
    }
}
