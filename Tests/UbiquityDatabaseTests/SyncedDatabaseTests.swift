import Foundation
import GRDB
import Testing
import Ubiquity
import UbiquityDatabase
import UbiquityTestSupport

@Suite struct SyncedDatabaseTests {
    struct Person: Codable, FetchableRecord, PersistableRecord {
        static let databaseTableName = "person"
        var id: String
        var first: String?
        var last: String?
        var email: String?
    }

    private func open(_ folder: URL, _ device: String) throws -> SyncedDatabase {
        var configuration = SyncedDatabaseConfiguration()
        configuration.localFolder = folder.appending(path: device)
        return try SyncedDatabase(
            named: "People", in: folder, migrator: Peer.people, configuration: configuration)
    }

    @Test("CD-01, CD-04, CD-14: a write arrives on another device by itself")
    func writeArrivesOnAnotherDevice() async throws {
        let folder = try TemporaryFolder(), url = URL(filePath: folder.path)
        let first = try open(url, "first"), second = try open(url, "second")
        let changes = second.importedChanges
        try await first.write { try Person(id: "1", last: "Doe").insert($0) }
        try await first.synchronize()
        try await second.synchronize()
        for await change in changes where change.tables["person"]?.inserted.isEmpty == false { break }
        #expect(try second.read { try Person.fetchOne($0)?.last } == "Doe")
        try await first.close()
        try await second.close()
    }

    @Test("CD-09: merge policies decide about columns changed on both sides")
    func mergePoliciesDecide() async throws {
        let folder = try TemporaryFolder(), database = try open(URL(filePath: folder.path), "only")
        let original = Person(id: "1", first: "a", last: "b")
        try await database.write { db in
            try original.insert(db)
            try db.execute(sql: "UPDATE person SET first = 'theirs', email = 'theirs'")
        }
        var record = original
        (record.first, record.last) = ("ours", "ours")
        let wanted = record
        await #expect(throws: MergeConflict.self) {
            try await database.write { try $0.merge(wanted, from: original, policy: .error) }
        }
        try await database.write { try $0.merge(wanted, from: original, policy: .remoteWins) }
        var row = try database.read { try Person.fetchOne($0) }
        #expect([row?.first, row?.last, row?.email] == ["theirs", "ours", "theirs"])
        try await database.write { try $0.merge(wanted, from: original) }
        row = try database.read { try Person.fetchOne($0) }
        #expect([row?.first, row?.last, row?.email] == ["ours", "ours", "theirs"])
        try await database.close()
    }

    @Test("CD-13: seeding from a file is an import, whose rows travel")
    func seededRowsTravel() async throws {
        let folder = try TemporaryFolder(), url = URL(filePath: folder.path)
        let file = try DatabaseQueue(path: folder.path + "/seed.sqlite")
        try Peer.people.migrate(file)
        try await file.write { try Person(id: "1", last: "Seed").insert($0) }
        try file.close()
        let first = try open(url, "first"), second = try open(url, "second")
        #expect(try first.seed(from: url.appending(path: "seed.sqlite")) == 1)
        try await first.synchronize()
        try await second.synchronize()
        #expect(try second.read { try Person.fetchOne($0)?.last } == "Seed")
        try first.export(to: url.appending(path: "copy.sqlite"))
        let copy = try DatabaseQueue(path: folder.path + "/copy.sqlite")
        #expect(try await copy.read { try $0.tableExists("ubiquity_clock") } == false)
        #expect(try await copy.read { try Person.fetchCount($0) } == 1)
        try await first.close()
        try await second.close()
    }

    @Test("CD-03: one program at a time has a database of that name")
    func secondProgramIsRefused() async throws {
        let folder = try TemporaryFolder(), url = URL(filePath: folder.path)
        let first = try open(url, "first")
        #expect(throws: UbiquitousFileError.self) { try open(url, "first") }
        try await first.close()
    }

    @Test("CD-11: a large value is a file beside the database")
    func externalFileIsBesideTheDatabase() throws {
        let folder = try TemporaryFolder(), files = try ExternalFiles(of: "People", in: URL(filePath: folder.path))
        let name = try files.add(Data("picture".utf8), suffix: ".jpg")
        #expect(try Data(contentsOf: files.url(of: name)) == Data("picture".utf8))
        try files.remove([name, "absent"])
        #expect(!FileManager.default.fileExists(atPath: files.url(of: name).path))
    }
}
