import Testing
import UbiquityCore
@testable import UbiquityIndex
import UbiquitySystem
import UbiquityTestSupport

/// The key-values of a device.
@Suite struct KeyValueReplicaTests {
    private let database: KeyValueDatabase
    private let time = ManualTime()
    private let random = SeededRandom(1)
    private static let device = DeviceID(high: 1, low: 1)
    private static let other = DeviceID(high: 1, low: 2)

    init() throws { database = try KeyValueDatabase(path: nil) }

    private func replica(_ account: String = "alice", isSignedOut: Bool = false) throws -> KeyValueReplica {
        try KeyValueReplica(
            database, account: KeyValueReplica.Account(name: account, isSignedOut: isSignedOut), device: Self.device,
            deviceName: "laptop", timekeeper: time, random: random)
    }

    private func key(_ text: String) throws -> KeyValueKey { try KeyValueKey(text) }

    private func record(
        _ key: String, _ value: PropertyValue?, revision: Int64, mark: UInt64 = 99
    ) throws -> KeyValueRecord {
        let stamp = KeyValueStamp(time: time.now().nanoseconds, device: Self.other)
        let entry = KeyValueEntry(value: try value?.encoded(), stamp: stamp, deviceName: "phone", mark: mark)
        return KeyValueRecord(
            store: .standard, key: try self.key(key), revision: Revision(revision), register: KeyValueRegister(entry))
    }

    private func page(
        _ records: [KeyValueRecord], _ revision: Int64, incarnation: UInt64 = 7, forgotten: Int64 = 0
    ) -> KeyValuePage {
        KeyValuePage(
            records: records, revision: Revision(revision), hasMore: false, incarnation: incarnation,
            forgotten: Revision(forgotten))
    }

    private func values(_ replica: KeyValueReplica) throws -> [String: PropertyValue] {
        var values = [String: PropertyValue]()
        for item in try replica.items(in: .standard) {
            values[item.key.text] = try item.current.value.map { try PropertyValue(encoded: $0) }
        }
        return values
    }

    @Test("KV-10: a set survives the end of the process, and a failed write changes nothing")
    func setIsDurable() throws {
        let folder = try TemporaryFolder()
        let path = folder.path + "/kv.db"
        func open() throws -> (KeyValueDatabase, KeyValueReplica) {
            let database = try KeyValueDatabase(path: path)
            return (
                database,
                try KeyValueReplica(
                    database, account: KeyValueReplica.Account(name: "a", isSignedOut: false), device: Self.device,
                    deviceName: "laptop", timekeeper: time, random: random)
            )
        }
        let (first, before) = try open()
        try before.set(.string("dark"), key("theme"), in: .standard)
        FaultPoints.setHook { $0 == "kv.write" ? UbiquityError(.io, "on purpose") : nil }
        #expect(throws: UbiquityError.self) { try before.set(.string("light"), key("theme"), in: .standard) }
        FaultPoints.setHook(nil)
        // Not closed: as after a kill.
        let (second, after) = try open()
        #expect(try values(after) == ["theme": .string("dark")])
        #expect(try after.nextPush()?.changes.count == 1)
        try first.close()
        try second.close()
    }

    @Test("KV-03, KV-14: a set over the limit throws and changes nothing")
    func setOverTheLimitChangesNothing() throws {
        let replica = try replica()
        let whole = PropertyValue.data([UInt8](repeating: 1, count: KeyValueLimits.maximumBytes))
        try replica.set(whole, key("big"), in: .standard)
        let error = #expect(throws: UbiquityError.self) { try replica.set(.bool(true), key("k"), in: .standard) }
        #expect(error?.code == .quotaExceeded)
        #expect(try values(replica) == ["big": whole])
        // Another store has limits of its own.
        try replica.set(.bool(true), key("k"), in: KeyValueStoreID("other"))
    }

    @Test("KV-12: the first download replaces values that were set before it, and keeps the others")
    func firstDownloadReplacesEarlierSets() throws {
        let replica = try replica()
        try replica.set(.integer(1), key("level"), in: .standard)
        try replica.set(.integer(5), key("mine"), in: .standard)
        let (news, _) = try replica.apply(page([record("level", .integer(50), revision: 1)], 1))
        #expect(news == [KeyValueNews(store: .standard, reason: .initialSync, keys: [try key("level")])])
        #expect(try values(replica) == ["level": .integer(50), "mine": .integer(5)])
        #expect(try replica.nextPush()?.changes.map(\.key.text) == ["mine"])
        // KV-15: the overwritten value stays readable.
        #expect(try replica.item(key("level"), in: .standard)?.previous?.stamp.device == Self.device)
    }

    @Test("KV-11, KV-13: a change of another device is news with its key, a local set is none")
    func remoteChangeIsNews() throws {
        let replica = try replica()
        _ = try replica.apply(page([], 0))
        let (news, _) = try replica.apply(page([record("k", .integer(1), revision: 1)], 1))
        #expect(news == [KeyValueNews(store: .standard, reason: .serverChange, keys: [try key("k")])])
        let (again, _) = try replica.apply(page([record("k", .integer(1), revision: 2)], 2))
        #expect(again == [])
    }

    @Test("KV-07: a pending set is shown until the cloud has decided, and a later remote set then replaces it")
    func cloudDecidesAboutPendingSets() throws {
        let replica = try replica()
        _ = try replica.apply(page([], 0))
        try replica.set(.integer(1), key("k"), in: .standard)
        let push = try #require(try replica.nextPush())
        #expect(try replica.apply(page([record("k", .integer(2), revision: 1)], 1)).news == [])
        #expect(try values(replica) == ["k": .integer(1)])
        let later = try record("k", .integer(2), revision: 1)
        let news = try replica.apply([KeyValueResult(outcome: .superseded, record: later)], of: push)
        #expect(news.map(\.reason) == [.serverChange])
        #expect(try values(replica) == ["k": .integer(2)])
        #expect(try replica.pendingCount() == 0)
    }

    @Test("KV-07: an answer that is older than a change that has arrived is replaced by the change")
    func answerOlderThanAnArrivedChangeIsReplacedByIt() throws {
        let replica = try replica()
        _ = try replica.apply(page([], 1))
        try replica.set(.string("mine"), key("k"), in: .standard)
        let push = try #require(try replica.nextPush())
        let change = push.changes[0]
        let answered = KeyValueRecord(
            store: .standard, key: change.key, revision: Revision(2), register: KeyValueRegister(change.entry))
        // The feed is faster than the answer.
        let later = try record("k", .string("theirs"), revision: 3)
        _ = try replica.apply(page([later], 3))
        _ = try replica.apply([KeyValueResult(outcome: .applied, record: answered)], of: push)
        #expect(try replica.point().revision < Revision(3))
        _ = try replica.apply(page([later], 3))
        #expect(try values(replica) == ["k": .string("theirs")])
    }

    @Test("KV-07: a set that is made while the one before is being sent stays pending")
    func newerSetStaysPending() throws {
        let replica = try replica()
        _ = try replica.apply(page([], 0))
        try replica.set(.integer(1), key("k"), in: .standard)
        let push = try #require(try replica.nextPush())
        try replica.set(.integer(2), key("k"), in: .standard)
        let mark = push.changes[0].entry.mark
        let answer = KeyValueResult(outcome: .applied, record: try record("k", .integer(1), revision: 1, mark: mark))
        #expect(try replica.apply([answer], of: push) == [])
        #expect(try values(replica) == ["k": .integer(2)])
        #expect(try replica.pendingCount() == 1)
    }

    @Test("KV-14: a set that the cloud refuses is undone, with the reason quota-violation")
    func refusedSetIsUndone() throws {
        let replica = try replica()
        _ = try replica.apply(page([record("k", .integer(1), revision: 1)], 1))
        try replica.set(.integer(2), key("k"), in: .standard)
        let push = try #require(try replica.nextPush())
        let news = try replica.apply(
            [KeyValueResult(outcome: .refused, record: try record("k", .integer(1), revision: 1))], of: push)
        #expect(news.map(\.reason) == [.quotaViolation])
        #expect(try values(replica) == ["k": .integer(1)])
    }

    @Test("KV-08: values of a signed-out device come to the account at the sign-in, once")
    func signedOutValuesComeToTheAccount() throws {
        let local = try replica("local", isSignedOut: true)
        try local.set(.string("dark"), key("theme"), in: .standard)
        let alice = try replica("alice")
        #expect(alice.arrival == [])
        #expect(try values(alice) == ["theme": .string("dark")])
        #expect(try alice.nextPush()?.changes.count == 1)
        let bob = try replica("bob")
        #expect(try values(bob) == [:])
        #expect(bob.arrival.map(\.reason) == [.accountChange])
        #expect(bob.arrival.first?.keys.map(\.text) == ["theme"])
        #expect(try values(replica("alice")) == ["theme": .string("dark")])
    }

    @Test("KV-09: a cloud whose data was replaced gets all values again")
    func replacedCloudGetsAllValues() throws {
        let replica = try replica()
        _ = try replica.apply(page([record("k", .integer(1), revision: 5)], 5))
        #expect(try replica.apply(page([], 0, incarnation: 8)).hasMore)
        _ = try replica.apply(page([], 0, incarnation: 8))
        let push = try #require(try replica.nextPush())
        #expect(push.changes.map(\.isFinal) == [true])
        #expect(push.changes[0].entry.stamp.device == Self.other)
        #expect(try values(replica) == ["k": .integer(1)])
    }

    @Test("KV-09: a device that was away while removals were forgotten reads everything, and drops removed keys")
    func longAbsenceReadsEverything() throws {
        let replica = try replica()
        _ = try replica.apply(page([record("a", .integer(1), revision: 1), record("b", .integer(1), revision: 2)], 2))
        #expect(try replica.apply(page([], 9, forgotten: 8)).hasMore)
        #expect(try replica.point().revision == .zero)
        let (news, _) = try replica.apply(page([record("b", .integer(1), revision: 2)], 9, forgotten: 8))
        #expect(news == [KeyValueNews(store: .standard, reason: .serverChange, keys: [try key("a")])])
        #expect(try values(replica) == ["b": .integer(1)])
    }

    @Test("KV-07: a clock that jumps between set and push does not change the time of the set")
    func jumpOfTheClockIsCompensated() throws {
        let replica = try replica()
        try replica.set(.integer(1), key("k"), in: .standard)
        time.advance(seconds: 10)
        let push = try #require(try replica.nextPush())
        #expect(push.sentAt.nanoseconds - push.changes[0].entry.stamp.time == 10_000_000_000)
    }
}
