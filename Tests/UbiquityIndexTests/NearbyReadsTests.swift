import Foundation
import GRDB
import GRDBSQLite
import Testing

@testable import UbiquityIndex

/// Which pages are read along with one that came from the disk.
@Suite struct NearbyReadsTests {
    private static let page: Int64 = 4096, far: Int64 = 1 << 30

    @Test func thePageThatIsFirstSomewhereBringsNothingAlong() {
        var reads = NearbyReads()
        for place in 0..<100 as Range<Int64> { #expect(reads.note(slowReadAt: place * Self.far) == nil) }
    }

    @Test func aWalkBringsMoreAndMoreAlong() {
        var reads = NearbyReads()
        #expect(reads.note(slowReadAt: 0) == nil)
        var offset = Self.page
        for span in [32, 128, 128, 128] as [Int64] {
            let end = offset + span << 10
            #expect(reads.note(slowReadAt: offset) == offset..<end)
            offset = end
        }
    }

    @Test func aTableAndItsIndexAreWalksOfTheirOwn() {
        var reads = NearbyReads()
        let found = (0..<10 as Range<Int64>).flatMap { step in
            [0, Self.far].map { reads.note(slowReadAt: $0 + step * 3 * Self.page)?.count ?? 0 }
        }
        #expect(found.prefix(6) == [0, 0, 32 << 10, 32 << 10, 128 << 10, 128 << 10])
        #expect(found.dropFirst(6).allSatisfy { $0 == 128 << 10 })
    }

    @Test func pagesAllOverTheFileBringNothingAlong() {
        var reads = NearbyReads()
        let random = SeededRandom(1)
        let found = (0..<10_000).filter { _ in
            reads.note(slowReadAt: Int64(random.next() % (1 << 20)) * Self.page) != nil
        }
        // By chance one lies near another.
        #expect(found.count < 50, "\(found.count)")
    }

    /// Whatever takes how long: what is read, written, counted and closed is the same.
    @Test func aDatabaseIsReadAsBefore() throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "nearby-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appending(path: "f.db").path
        var configuration = Configuration()
        configuration.journalMode = .wal
        configuration.prepareDatabase { db in
            DatabaseReads.attach(to: db, slow: .zero)
            try db.execute(sql: "PRAGMA cache_size = 10")
        }
        for round in 1...3 {
            let database = try DatabaseQueue(path: path, configuration: configuration)
            try database.write { db in
                try db.execute(sql: "CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, text TEXT)")
                for _ in 0..<5000 { try db.execute(sql: "INSERT INTO t (text) VALUES (hex(randomblob(50)))") }
            }
            try database.writeWithoutTransaction { db in
                try db.checkpoint(.truncate)
                #expect(try Int.fetchOne(db, sql: "SELECT sum(length(text)) FROM t") == round * 500_000)
                #expect(try String.fetchOne(db, sql: "PRAGMA integrity_check") == "ok")
            }
            try database.close()
        }
    }
}
