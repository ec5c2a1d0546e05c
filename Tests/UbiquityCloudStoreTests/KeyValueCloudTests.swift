import GRDB
import Testing
@testable import UbiquityCloudStore
import UbiquityCore
import UbiquitySystem
import UbiquityTestSupport
import UbiquityWire

/// The key-value stores of a container at the cloud.
@Suite struct KeyValueCloudTests {
    private let bench: CloudBench
    private static let now: Int64 = 1_800_000_000_000_000_000

    init() throws { bench = try CloudBench() }

    private func service() async throws -> any KeyValueService {
        guard let container = ContainerID("notes") else { throw UbiquityError(.invalid, "the name") }
        return try await bench.cloud.keyValues(account: Cloud.localAccount, container: container)
    }

    private func change(
        _ key: String, _ value: PropertyValue?, device: UInt64 = 1, at time: Int64 = now - 100, mark: UInt64,
        store: KeyValueStoreID = .standard
    ) throws -> KeyValueChange {
        KeyValueChange(
            store: store, key: try KeyValueKey(key),
            entry: KeyValueEntry(
                value: try value?.encoded(), stamp: KeyValueStamp(time: time, device: DeviceID(high: 1, low: device)),
                deviceName: "device \(device)", mark: mark),
            seen: 0, isFinal: true)
    }

    private func push(_ changes: [KeyValueChange], by device: UInt64 = 1) async throws -> [KeyValueResult] {
        try await service().push(
            KeyValuePush(
                device: DeviceID(high: 1, low: device), sentAt: Timestamp(nanoseconds: Self.now), changes: changes))
    }

    private func values() async throws -> [String: PropertyValue] {
        var values = [String: PropertyValue]()
        for record in try await service().keyValues(after: KeyValuePoint()).records {
            values[record.key.text] = try record.register.current.value.map { try PropertyValue(encoded: $0) }
        }
        return values
    }

    @Test("KV-07: two devices that set one key agree, whichever set arrives first")
    func laterSetWins() async throws {
        _ = try await push([change("k", .integer(2), device: 2, at: 20, mark: 2)], by: 2)
        let late = try await push([change("k", .integer(1), device: 1, at: 10, mark: 1)])
        #expect(late.map(\.outcome) == [.superseded])
        #expect(try await values() == ["k": .integer(2)])
        // The same time: the device decides.
        _ = try await push([change("k", .integer(3), device: 1, at: 20, mark: 3)])
        #expect(try await values() == ["k": .integer(2)])
        let page = try await service().keyValues(after: KeyValuePoint())
        #expect(page.records.first?.register.previous?.mark == 3)
    }

    @Test("KV-03: a push over the limit refuses single sets and changes nothing for them")
    func setsOverTheLimitAreRefused() async throws {
        let half = PropertyValue.data([UInt8](repeating: 1, count: KeyValueLimits.maximumBytes / 2))
        let first = try await push([change("a", half, mark: 1), change("b", half, mark: 2)])
        #expect(first.map(\.outcome) == [.applied, .applied])
        let results = try await push([
            change("c", .bool(true), mark: 3), change("d", .string(""), mark: 4), change("a", .data([1]), at: Self.now - 80, mark: 5),
        ])
        // The set that makes space is applied first.
        #expect(results.map(\.outcome) == [.applied, .applied, .applied])
        let full = try await push([change("a", half, at: Self.now - 50, mark: 6)])
        #expect(full.map(\.outcome) == [.refused])
        #expect(try await values()["a"] == .data([1]))
    }

    @Test("KV-03: a store has 1,024 keys, and one key can have 1,048,576 bytes")
    func keysAreCounted() async throws {
        let whole = PropertyValue.data([UInt8](repeating: 7, count: KeyValueLimits.maximumBytes))
        let other = try KeyValueStoreID("other")
        #expect(try await push([change("big", whole, mark: 1, store: other)]).map(\.outcome) == [.applied])
        var changes = [KeyValueChange]()
        for number in 0..<KeyValueLimits.maximumKeys {
            changes.append(try change("k\(number)", .bool(true), mark: UInt64(100 + number)))
        }
        #expect(try await push(changes).allSatisfy { $0.outcome == .applied })
        #expect(try await push([change("more", .bool(true), mark: 9)]).map(\.outcome) == [.refused])
        // Removing a key makes space for another one.
        let swap = try await push([change("more", .bool(true), mark: 10), change("k1", nil, at: Self.now, mark: 11)])
        #expect(swap.map(\.outcome) == [.applied, .applied])
    }

    @Test("KV-05: values do not count towards the account's quota")
    func valuesAreOutsideTheQuota() async throws {
        let before = try await bench.cloud.storedBytes(of: Cloud.localAccount)
        let whole = PropertyValue.data([UInt8](repeating: 7, count: KeyValueLimits.maximumBytes))
        _ = try await push([change("big", whole, mark: 1)])
        #expect(try await bench.cloud.storedBytes(of: Cloud.localAccount) == before)
        #expect(try await bench.cloud.survey.usage(of: Cloud.localAccount).counted == 0)
    }

    @Test("KV-10: a repeated set has no second effect")
    func repeatedPushChangesNothing() async throws {
        let set = try change("k", .integer(1), at: 10, mark: 1)
        _ = try await push([set])
        let revision = try await service().keyValues(after: KeyValuePoint()).revision
        #expect(try await push([set]).map(\.outcome) == [.applied])
        #expect(try await service().keyValues(after: KeyValuePoint()).revision == revision)
    }

    @Test("KV-09: the feed continues after a revision, and forgets old removals")
    func feedContinuesAndForgets() async throws {
        _ = try await push([change("a", .integer(1), mark: 1)])
        let point = KeyValuePoint(revision: try await service().keyValues(after: KeyValuePoint()).revision)
        #expect(try await service().keyValues(after: point).records == [])
        let count = KeyValueLimits.keptRemovals + 5
        for start in stride(from: 0, to: count, by: 500) {
            let keys = (start..<min(start + 500, count)).map { "r\($0)" }
            _ = try await push(keys.enumerated().map { try change($1, .bool(true), mark: UInt64(start + $0 + 10_000)) })
            _ = try await push(
                keys.enumerated().map { try change($1, nil, at: Self.now, mark: UInt64(start + $0 + 20_000)) })
        }
        let page = try await service().keyValues(after: point)
        #expect(page.forgotten > point.revision)
        #expect(page.records.count == KeyValueLimits.keptRemovals)
    }

    @Test("KV-01: a cloud of format 12 gets the tables and keeps its containers")
    func olderCloudGetsTheTables() async throws {
        _ = try await push([change("a", .integer(1), mark: 1)])
        try await bench.reopen {
            let database = try DatabaseQueue(path: bench.folder.path + "/metadata.db")
            try database.writeWithoutTransaction { db in
                try db.execute(
                    sql: """
                        ALTER TABLE containers DROP COLUMN displayName;
                        DROP TABLE keyValues; DROP TABLE keyValueFeeds; PRAGMA user_version = 12
                        """)
            }
            try database.close()
        }
        #expect(try await values() == [:])
        #expect(try await push([change("a", .integer(2), mark: 2)]).map(\.outcome) == [.applied])
    }

    @Test("KV-16: the documents of a container do not depend on key-values")
    func documentsStayUnchanged() async throws {
        let container = try await bench.container()
        let revision = try await container.open().revision
        _ = try await push([change("a", .integer(1), mark: 1)])
        #expect(try await container.open().revision == revision)
    }
}
