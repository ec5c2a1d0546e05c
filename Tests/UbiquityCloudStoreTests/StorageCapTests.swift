import GRDB
import Testing

@testable import UbiquityCloudStore
import UbiquityCore
import UbiquitySystem
import UbiquityTestSupport
import UbiquityWire

/// The limit of all stored bytes of an account, three times its quota.
@Suite struct StorageCapTests {
    private static let quota: Int64 = 1 << 20
    private static let account = Cloud.localAccount
    private static let length = 200_000
    private let bench: CloudBench

    init() async throws {
        bench = try CloudBench()
        _ = try await bench.container()
        try await bench.reopen(quotaBytes: Self.quota)
    }

    private func stored() async throws -> Int64 { try await bench.cloud.storedBytes(of: Self.account) }

    /// Repeats `step` until the account is full. The limit must be reached before 10 MiB have been sent.
    private func fill(_ bytesOfAStep: Int, _ step: (UInt64) async throws -> Void) async throws {
        for number in 1...UInt64(10 << 20 / bytesOfAStep) {
            do { try await step(number) } catch let error as UbiquityError {
                #expect(error.code == .quotaExceeded)
                #expect(error.message.contains("storage is full") && error.message.contains("3145728"), "\(error)")
                let (bytes, contents) = (try await stored(), try await contents())
                #expect((2 * Self.quota...3 * Self.quota).contains(bytes), "\(bytes)")
                #expect(contents <= bytes)
                return
            }
        }
        Issue.record("nothing was refused")
    }

    /// The bytes in files and in the longest columns, counted in another way than the cap's.
    private func contents() async throws -> Int64 {
        let folder = Path.join(bench.folder.path, "chunks/1")
        var paths = [String]()
        if try FileSystem.exists(folder) {
            paths = [Path.join(folder, "incoming")]
            for entry in try FileSystem.entries(of: Path.join(folder, "chunks")) {
                paths.append("\(folder)/chunks/\(entry.text)")
            }
        }
        var bytes: Int64 = 0
        for path in paths {
            for entry in try FileSystem.entries(of: path) {
                bytes += try FileSystem.status(Path.join(path, entry.text)).size
            }
        }
        return bytes + (try await number("SELECT (SELECT coalesce(sum(length(bytes)), 0) FROM smallChunks) + "
            + "(SELECT coalesce(sum(length(xattrs)), 0) FROM items)"))
    }

    private func number(_ sql: String) async throws -> Int64 {
        try await bench.cloud.pool.run { [cloud = bench.cloud] in
            try cloud.read { try Int64.fetchOne($0, sql: sql) ?? -1 }
        }
    }

    private func chunk(_ number: UInt64, _ length: Int = length) -> Chunk { ChunkSamples.chunk(number, length: length) }

    // MARK: Ways to fill an account

    /// Uploads that no commit refers to, in files and in rows.
    @Test(arguments: [length, 15_000]) func uploadsAreRefusedAtTheCap(_ length: Int) async throws {
        let service = try await bench.container()
        try await service.upload([chunk(1, length)])
        try await fill(length) { try await service.upload([chunk($0 + 1, length)]) }
        // A stored chunk may be sent again: that repairs it.
        try await service.upload([chunk(1, length)])
        // Another account has its own quota.
        _ = try await bench.cloud.createAccount("bob")
        let other = try await bench.container(account: "bob")
        try await other.upload([chunk(9000, length)])
        let bytes = try await stored()
        bench.clock.advance(seconds: CloudLimits.unusedChunkAge + CloudLimits.askedAgainAfter + 1)
        try await bench.cloud.maintain()
        #expect(try await stored() < bytes / 10)
        try await service.upload([chunk(9000, length)])
    }

    @Test func uploadsSideBySideDoNotPassTheCap() async throws {
        let service = try await bench.container()
        let refused = await withTaskGroup(of: Int.self) { group in
            for number in UInt64(1)...8 {
                let chunks = (0..<4).map { chunk(number * 10 + $0) } + [chunk(number * 10 + 5, 15_000)]
                group.addTask { await failure { try await service.upload(chunks) } == nil ? 0 : 1 }
            }
            return await group.reduce(0, +)
        }
        #expect(refused > 0)
        #expect(try await stored() <= 3 * Self.quota)
        #expect(try await contents() <= stored())
    }

    private func edit(_ number: UInt64, after base: UInt64?) async throws {
        let service = try await bench.container(), chunk = chunk(number)
        let content = ContentChange(
            version: .number(number), baseVersion: base.map { VersionID.number($0) }, size: Int64(Self.length),
            manifest: [ChunkReference(id: chunk.id, length: Self.length)])
        var fields = ChangedFields(content: content)
        if base == nil {
            fields = ChangedFields(
                place: try Make.place("f"), mode: 0o644, createdAt: .at(100), modifiedAt: .at(100), content: content)
        }
        // One half arrives before the commit, the other with it.
        if number % 2 == 0 { try await service.upload([chunk]) }
        _ = try await service.commit(bench.request([Make.put(1, fields)], number % 2 == 0 ? [] : [chunk]))
    }

    @Test func earlierVersionsAreCountedAndExpire() async throws {
        var base: UInt64?
        try await fill(Self.length) { number in
            try await edit(number, after: base)
            base = number
        }
        try await deletionsAreTaken()
        bench.clock.advance(seconds: 40 * 86_400)
        try await bench.cloud.maintain()
        #expect(try await stored() < Self.quota / 2)
    }

    @Test func trashIsCountedAndExpires() async throws {
        let service = try await bench.container()
        try await fill(Self.length) { number in
            let chunk = chunk(number)
            let change = try bench.file(number, "f\(number)", [chunk])
            let response = try await service.commit(bench.request([change], [chunk]))
            _ = try await service.commit(bench.request([Make.delete(number, base: response.revision.number)]))
        }
        bench.clock.advance(seconds: 40 * 86_400)
        try await bench.cloud.maintain()
        #expect(try await stored() < Self.quota / 2)
        _ = try await service.commit(bench.request([try bench.file(900, "new", [chunk(900)])], [chunk(900)]))
    }

    private func folder(_ number: UInt64, attributes length: Int) throws -> ItemChange {
        let attribute = Xattr(name: Array("user.a".utf8), value: [UInt8](repeating: 1, count: length))
        var fields = ChangedFields(
            place: try Make.place("f\(number)"), mode: 0o755, createdAt: .at(100), modifiedAt: .at(100))
        fields.xattrsSet = [attribute]
        return Make.put(number, kind: .directory, fields)
    }

    @Test func attributesAreCounted() async throws {
        let service = try await bench.container()
        try await service.upload([chunk(1)])
        try await fill(60_000) { number in
            _ = try await service.commit(bench.request([folder(number, attributes: 60_000)]))
        }
        try await deletionsAreTaken(.directory)
    }

    /// At the cap the cloud accepts a deletion and nothing else.
    private func deletionsAreTaken(_ kind: ItemKind = .file) async throws {
        let service = try await bench.container()
        var number: UInt64 = 500
        for length in [60_000, 6_000, 600, 1] {
            var refusal: UbiquityError.Code?
            while refusal == nil, number < 600 {
                number += 1
                let change = try folder(number, attributes: length)
                refusal = await failure { _ = try await service.commit(bench.request([change])) }
            }
            #expect(refusal == .quotaExceeded)
        }
        let base = try await service.open().revision.number
        _ = try await service.commit(bench.request([Make.delete(1, kind, base: base)]))
        #expect(try await service.trash(in: nil, after: nil, limit: 10).items.map(\.item.id) == [.number(1)])
        #expect(try await stored() <= 3 * Self.quota)
    }

    // MARK: The sums

    private func kept() async throws -> Int64 { try await number("SELECT stored FROM accounts") }

    /// The triggers' sums equal a count.
    private func expectExactRows() async throws {
        #expect(try await kept() == number("SELECT \(StoredRows.sum) FROM accounts"))
    }

    @Test func rowsAreCountedExactly() async throws {
        let service = try await bench.container()
        let small = chunk(1, 500)
        for number in UInt64(1)...5 {
            var request = bench.request([try bench.file(number, "f\(number)", [small])], [small])
            request.number = Int64(number)
            _ = try await service.commit(request)
        }
        _ = try await service.commit(bench.request([try Make.move(1, base: 1, to: "a longer name")]))
        _ = try await service.commit(bench.request([Make.delete(2, base: 9)]))
        #expect(try await kept() > 500)
        try await expectExactRows()
        bench.clock.advance(seconds: 100 * 86_400)
        try await bench.cloud.maintain()
        try await expectExactRows()
        try await bench.reopen()
        try await expectExactRows()
    }

    @Test func filesAreCountedAgainAfterACrash() async throws {
        let service = try await bench.container()
        for number in UInt64(0)..<4 { try await service.upload([chunk(number)]) }
        _ = try await service.commit(bench.request([try bench.file(1, "f", [chunk(0)])]))
        #expect(try await stored() - kept() == Int64(4 * Self.length))
        let sum = "\(bench.folder.path)/chunks/1/size"
        #expect(try !FileSystem.exists(sum), "a process that is killed leaves no sum")
        // Files that were not durable are lost with the process.
        var left: [UInt8]?
        try await bench.reopen { left = try SmallFile.read(sum, limit: 64) }
        #expect(left == Array("\(Self.length)".utf8))
        #expect(try await stored() - kept() == Int64(Self.length))
        #expect(try !FileSystem.exists(sum))
        try await bench.reopen { try FileSystem.unlink(sum) }
        #expect(try await stored() - kept() == Int64(Self.length))
    }

    @Test func accountsOfOlderFormatsAreCounted() async throws {
        let service = try await bench.container()
        _ = try await service.commit(bench.request([try Make.folder(1, "d")], []))
        let before = try await kept()
        try await bench.reopen {
            let database = try DatabaseQueue(path: bench.folder.path + "/metadata.db")
            try database.write { db in
                try db.execute(sql: OlderFormats.undo10)
                for trigger in StoredRows.triggers { try db.execute(sql: "DROP TRIGGER \(trigger)") }
                try db.execute(sql: "ALTER TABLE accounts DROP COLUMN stored")
                try db.execute(sql: "PRAGMA user_version = 8")
            }
            try database.close()
        }
        #expect(try await kept() == before)
        #expect(before > 0)
        try await expectExactRows()
    }
}
