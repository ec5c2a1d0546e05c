import GRDB
import Testing
import UbiquityCore
import UbiquityDatabase

@Suite struct LogTests {
    private let log = MemoryLog()

    @Test("CD-10: entries of a newer schema wait, and older logs are imported after an upgrade")
    func entriesOfANewerSchemaWait() throws {
        var upgraded = Peer.people
        upgraded.registerMigration("phone") { try $0.execute(sql: "ALTER TABLE person ADD COLUMN phone TEXT DEFAULT '-'") }
        let old = try Peer(log), new = try Peer(log, upgraded)
        try old.write("INSERT INTO person (id, last) VALUES ('a', 'old')")
        try old.publish()
        try new.load()
        #expect(try new.rows("SELECT last, phone FROM person") == [["old", "-"]])
        try new.write("UPDATE person SET last = 'new', phone = '123'")
        try new.publish()
        #expect(try old.load().outcome.waitsForNewerProgram)
        // Nothing of the entry is applied in part.
        #expect(try old.rows("SELECT last FROM person") == [["old"]])
        let updated = try Peer(log, upgraded, on: old.queue)
        try updated.load()
        #expect(try updated.rows("SELECT last, phone FROM person") == [["new", "123"]])
    }

    @Test func writesBeforeAnUpgradeAreSentWithTheirSchema() throws {
        var upgraded = Peer.people
        upgraded.registerMigration("phone") { try $0.execute(sql: "ALTER TABLE person ADD COLUMN phone TEXT") }
        let first = try Peer(log), other = try Peer(log)
        try first.write("INSERT INTO person (id) VALUES ('a')")
        try Peer(log, upgraded, on: first.queue).publish()
        try other.load()
        #expect(try other.rows("SELECT id FROM person") == [["a"]])
    }

    @Test func deviceAwayTooLongStartsFromTheBaseAndSendsItsWritesAgain() throws {
        let start: Int64 = 1_700_000_000_000, later = start + 200 * 86_400_000
        let first = try Peer(log, at: start), away = try Peer(log, at: start)
        try first.write("INSERT INTO person (id) VALUES ('gone'), ('kept')")
        try exchange(first, away)
        try Compactor(away.context).acknowledge()
        try first.load()
        // The other one goes on for months, deletes a row, and forgets the deletion.
        try first.write("DELETE FROM person WHERE id = 'gone'")
        let again = try Peer(log, on: first.queue, at: later)
        try again.write("INSERT INTO person (id) VALUES ('later')")
        try again.publish()
        try away.write("INSERT INTO person (id) VALUES ('mine')")
        try away.write("UPDATE person SET last = 'x' WHERE id = 'gone'")
        let number = try away.number()
        try Compactor(again.context).compact(always: true)
        let back = try Peer(log, on: away.queue, at: later)
        try exchange(back, again)
        #expect(try back.number() != number)
        for peer in [back, again] {
            #expect(try peer.rows("SELECT id FROM person ORDER BY id") == [["kept"], ["later"], ["mine"]])
        }
    }

    @Test func segmentsThatEveryDeviceHasAreRemoved() throws {
        var limits = LogLimits()
        limits.segmentBytes = 200
        let first = try Peer(log, limits: limits), second = try Peer(log, limits: limits)
        for number in 0..<60 {
            try first.write("INSERT INTO person (id) VALUES (?)", ["\(number)"])
            try first.publish()
        }
        try exchange(first, second)
        try Compactor(second.context).acknowledge()
        try first.load()
        let before = log.names.count
        try Compactor(first.context).compact(always: true)
        #expect(log.names.count < before)
        let third = try Peer(log)
        try third.load()
        #expect(try third.rows("SELECT count(*) FROM person") == [["60"]])
        try second.write("INSERT INTO person (id) VALUES ('x')")
        try exchange(first, second, third)
        #expect(try third.rows("SELECT count(*) FROM person") == [["61"]])
    }

    @Test func copyOfADatabaseTakesANewNumber() throws {
        let first = try Peer(log), other = try Peer(log)
        try first.write("INSERT INTO person (id) VALUES ('a')")
        try first.publish()
        let copy = try DatabaseQueue()
        try first.queue.backup(to: copy)
        try first.write("INSERT INTO person (id) VALUES ('b')")
        try first.publish()
        let restored = try Peer(log, on: copy)
        try restored.write("INSERT INTO person (id) VALUES ('c')")
        try restored.publish()
        #expect(try restored.number() != first.number())
        try exchange(first, restored, other)
        for peer in [first, restored, other] {
            #expect(try peer.rows("SELECT id FROM person ORDER BY id") == [["a"], ["b"], ["c"]])
        }
    }

    @Test func lostLogIsReplacedByABase() throws {
        let first = try Peer(log)
        try first.write("INSERT INTO person (id) VALUES ('a')")
        try first.publish()
        for name in log.names { try log.remove(name) }
        try first.write("INSERT INTO person (id) VALUES ('b')")
        try first.publish()
        try Compactor(first.context).compact()
        let second = try Peer(log)
        try exchange(first, second)
        #expect(try second.rows("SELECT id FROM person ORDER BY id") == [["a"], ["b"]])
    }

    @Test func logCostsAtMostFortyBytesAValue() throws {
        let first = try Peer(log)
        try first.write("INSERT INTO person (id, last) VALUES ('0A1B2C3D-0000-4000-8000-000000000001', 'x')")
        try first.publish()
        let before = log.size
        for number in 0..<100 {
            try first.write("UPDATE person SET last = ?", ["name \(number % 10)"])
            try first.publish()
        }
        let value = "name 0".utf8.count
        #expect((log.size - before) / 100 - value <= 40)
    }

    @Test func damagedSegmentIsReportedAndLosesNothingElse() throws {
        let first = try Peer(log), second = try Peer(log), third = try Peer(log)
        try first.write("INSERT INTO person (id) VALUES ('a')")
        try first.publish()
        try second.write("INSERT INTO person (id) VALUES ('b')")
        try second.publish()
        let own = String(try first.number(), radix: 16)
        let name = try #require(log.names.first { $0.contains(own) })
        var bytes = try #require(try log.read(name, from: 0))
        bytes[bytes.count - 1] ^= 0xFF
        try log.replace(name, with: bytes)
        let outcome = try third.load().outcome
        #expect(outcome.damage.count == 1)
        #expect(try third.rows("SELECT id FROM person") == [["b"]])
    }
}
