import GRDB
import Testing
import UbiquityCore
import UbiquityDatabase

@Suite struct MergeTests {
    private let log = MemoryLog()

    @Test("CD-07: names on one device and the address on another give all three")
    func editsOfDifferentColumnsAreMerged() throws {
        let first = try Peer(log), second = try Peer(log)
        try first.write("INSERT INTO person VALUES ('1', 'John Doe', NULL, NULL)")
        try exchange(first, second)
        try first.write("UPDATE person SET first = 'John', last = 'Doe'")
        try second.write("UPDATE person SET email = 'john@example.org'")
        try exchange(first, second)
        let expected = [["1", "John", "Doe", "john@example.org"]]
        #expect(try first.rows("SELECT * FROM person") == expected)
        #expect(try second.rows("SELECT * FROM person") == expected)
    }

    @Test("CD-02: a new device rebuilds the database from the logs")
    func newDeviceGetsEverything() throws {
        let first = try Peer(log)
        for number in 0..<50 { try first.write("INSERT INTO person (id) VALUES (?)", ["\(number)"]) }
        try first.publish()
        let second = try Peer(log)
        try second.load()
        #expect(try second.rows("SELECT count(*) FROM person") == [["50"]])
    }

    @Test("CD-04: an import names inserted, updated and deleted rows")
    func importNamesItsRows() throws {
        let first = try Peer(log), second = try Peer(log)
        try first.write("INSERT INTO person (id) VALUES ('a'), ('b')")
        try exchange(first, second)
        try first.write("INSERT INTO person (id) VALUES ('c')")
        try first.write("UPDATE person SET last = 'x' WHERE id = 'a'")
        try first.write("DELETE FROM person WHERE id = 'b'")
        try first.publish()
        let rows = try #require(try second.load().changes.first?.tables["person"])
        #expect(rows.inserted == [["c".databaseValue]])
        #expect(rows.updated == [["a".databaseValue]])
        #expect(rows.deleted == [["b".databaseValue]])
    }

    /// pointfreeco/sqlite-data #424 and #315: a child was dropped if it came before its parent.
    @Test func childBeforeItsParentWaits() throws {
        let first = try Peer(log), second = try Peer(log), third = try Peer(log)
        try first.write("INSERT INTO person (id) VALUES ('p')")
        try exchange(first, second)
        try second.write("INSERT INTO note VALUES ('n', 'text', 'p')")
        try second.publish()
        let parents = "logs/000001/" + hex(try first.number())
        log.hide { $0.hasPrefix(parents) }
        try third.load()
        #expect(try third.rows("SELECT id FROM note") == [])
        log.hide(nil)
        try third.load()
        #expect(try third.rows("SELECT id, person FROM note") == [["n", "p"]])
    }

    @Test func childOfADeletedParentComesBackWithIt() throws {
        let first = try Peer(log), second = try Peer(log)
        try first.write("INSERT INTO person (id) VALUES ('p')")
        try exchange(first, second)
        try first.write("DELETE FROM person")
        try second.write("INSERT INTO note VALUES ('n', 'text', 'p')")
        try exchange(first, second)
        #expect(try first.rows("SELECT id FROM note") == [])
        #expect(try second.rows("SELECT id FROM note") == [])
        try first.write("INSERT INTO person (id) VALUES ('p')")
        try exchange(first, second)
        #expect(try first.rows("SELECT id FROM note") == [["n"]])
        #expect(try second.rows("SELECT id FROM note") == [["n"]])
    }

    /// pointfreeco/sqlite-data #418: a row that was deleted and inserted again in one transaction was lost.
    @Test func deletionAndInsertionKeepTheRow() throws {
        let first = try Peer(log), second = try Peer(log)
        try first.write("INSERT INTO person (id, last) VALUES ('p', 'old')")
        try exchange(first, second)
        try first.write("DELETE FROM person; INSERT INTO person (id, last) VALUES ('p', 'new')")
        try exchange(first, second)
        #expect(try second.rows("SELECT last FROM person") == [["new"]])
        try first.write("DELETE FROM person")
        try first.write("INSERT INTO person (id, last) VALUES ('p', 'newest')")
        try exchange(first, second)
        #expect(try second.rows("SELECT last FROM person") == [["newest"]])
    }

    /// pointfreeco/sqlite-data #432: records were dropped after an error that would have passed.
    @Test func errorThatPassesLosesNothing() throws {
        let first = try Peer(log), second = try Peer(log)
        try first.write("INSERT INTO person (id) VALUES ('p')")
        log.refuse(UbiquityError(.noSpace, "the disk is full"))
        #expect(throws: UbiquityError.self) { try first.publish() }
        log.refuse(nil)
        try first.publish()
        // A lock of the database by a reader's write is an error that passes.
        try second.queue.write { try $0.execute(sql: "PRAGMA max_page_count = 1") }
        _ = try? second.load()
        try second.queue.write { try $0.execute(sql: "PRAGMA max_page_count = 1000000") }
        try second.load()
        #expect(try second.rows("SELECT id FROM person") == [["p"]])
    }

    @Test func deletionWinsOverAnUpdateElsewhere() throws {
        let first = try Peer(log), second = try Peer(log)
        try first.write("INSERT INTO person (id) VALUES ('p')")
        try exchange(first, second)
        try first.write("DELETE FROM person")
        try second.write("UPDATE person SET last = 'x'")
        try exchange(first, second)
        #expect(try first.rows("SELECT * FROM person") == [])
        #expect(try second.rows("SELECT * FROM person") == [])
    }

    @Test func valueLaterThanADeletionSurvivesIt() throws {
        let first = try Peer(log), second = try Peer(log), third = try Peer(log)
        try first.write("INSERT INTO person (id, last) VALUES ('p', 'old')")
        try exchange(first, second, third)
        try first.write("DELETE FROM person")
        try first.publish()
        for number in 1...5 { try second.write("UPDATE person SET last = ?", ["second \(number)"]) }
        try second.load()
        try third.load()
        try third.write("INSERT INTO person (id, last) VALUES ('p', 'third')")
        try exchange(first, second, third)
        for peer in [first, second, third] { #expect(try peer.rows("SELECT last FROM person") == [["second 5"]]) }
    }

    @Test func laterWriteWinsEvenIfItsClockIsAYearBehind() throws {
        let first = try Peer(log, at: 1_700_000_000_000), second = try Peer(log, at: 1_668_000_000_000)
        try first.write("INSERT INTO person (id, last) VALUES ('p', 'first')")
        try exchange(first, second)
        try second.write("UPDATE person SET last = 'second'")
        try exchange(first, second)
        #expect(try first.rows("SELECT last FROM person") == [["second"]])
    }

    private func hex(_ number: UInt64) -> String {
        let text = String(number, radix: 16)
        return String(repeating: "0", count: 16 - text.count) + text
    }
}
