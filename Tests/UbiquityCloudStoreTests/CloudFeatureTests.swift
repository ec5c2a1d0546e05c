import GRDB
import Testing
@testable import UbiquityCloudStore
import UbiquityCore
import UbiquitySystem
import UbiquityTestSupport
import UbiquityWire

/// The features of a cloud's data stop older programs as far as they must. AW-05, AW-06.
@Suite struct CloudFeatureTests {
    private let bench: CloudBench

    init() throws { bench = try CloudBench() }

    private func rows() throws -> [String: String] {
        let database = try DatabaseQueue(path: Path.join(bench.folder.path, "metadata.db"))
        return try database.read { db in
            let rows = try Row.fetchAll(db, sql: "SELECT name, value FROM meta WHERE typeof(value) = 'text'")
            return Dictionary(uniqueKeysWithValues: rows.map { ($0[0] as String, $0[1] as String) })
        }
    }

    private func set(_ features: String) throws {
        let database = try DatabaseQueue(path: Path.join(bench.folder.path, "metadata.db"))
        try database.write { try $0.execute(sql: "UPDATE meta SET value = ? WHERE name = 'features'", arguments: [features]) }
        try database.close()
    }

    @Test func dataNamesItsFeaturesAndTheHighestProgram() async throws {
        try await bench.reopen {
            let found = try rows()
            #expect(found["features"] == "compat=display-names")
            #expect(found["highest-program"] == FormatFeatures.program)
            let database = try DatabaseQueue(path: Path.join(bench.folder.path, "metadata.db"))
            try database.write { try $0.execute(sql: "UPDATE meta SET value = '99.1' WHERE name = 'highest-program'") }
            try database.close()
        }
        // An older program does not lower it.
        try await bench.reopen {
            let found = try rows()
            #expect(found["highest-program"] == "99.1")
        }
    }

    @Test func unknownCompatibleFeatureIsKept() async throws {
        try await bench.reopen { try set("compat=later") }
        _ = try await bench.container()
        try await bench.reopen {
            let found = try rows()
            #expect(found["features"] == "compat=display-names,later")
        }
    }

    @Test func unknownReadOnlyFeatureLetsDevicesReadOnly() async throws {
        _ = try await bench.container()
        try await bench.reopen { try set("ro-compat=sums program=7.2") }
        let service = try await bench.container()
        let description = try await service.open()
        #expect(description.features.access(knowing: FormatFeatures.known) == .readOnly(["sums"]))
        let error = await #expect(throws: UbiquityError.self) {
            _ = try await service.commit(bench.request([try Make.folder(1, "d")]))
        }
        #expect(error?.code == .newerFormat && error?.remedy.contains("7.2") == true)
        #expect(try await service.changes(after: .zero, limit: 10).items.isEmpty)
        try await bench.cloud.maintain()
    }

    /// A newer device sets a field; an older device changes the item; a newer device sees the field.
    @Test func unknownFieldsOfAnItemSurviveOtherChanges() async throws {
        let service = try await bench.container(), item = ItemID.number(1)
        // Fields 99 and 98.
        let text: [UInt8] = [0x9A, 0x06, 0x03, 0x78, 0x79, 0x7A], number: [UInt8] = [0x90, 0x06, 0x07]
        func change(_ fields: ChangedFields, base: Int64) -> ItemChange {
            ItemChange(
                id: item, kind: .directory, baseRevision: Revision(base), changedAt: bench.clock.now(),
                action: .put(fields))
        }
        let place = Place(parent: .root, name: try ItemName("d"))
        let created = ChangedFields(
            place: place, mode: 0o755, createdAt: .zero, modifiedAt: .zero, unknownFields: text)
        _ = try await service.commit(bench.request([change(created, base: 0)]))
        _ = try await service.commit(bench.request([change(ChangedFields(mode: 0o700), base: 1)]))
        _ = try await service.commit(bench.request([change(ChangedFields(unknownFields: number), base: 2)]))
        try await bench.reopen()
        let page = try await bench.container().changes(after: .zero, limit: 10)
        #expect(page.items.map(\.mode) == [0o700] && page.items.map(\.unknownFields) == [text + number])
        #expect(page.items.first?.xattrs == [])
    }

    @Test func unknownIncompatibleFeatureNamesTheNeededVersion() async throws {
        try await bench.reopen {
            try set("incompat=keys program=9.0")
            let error = #expect(throws: UbiquityError.self) {
                _ = try CloudBench.open(bench.folder.path, bench.clock, bench.pool)
            }
            #expect(error?.code == .newerFormat && error?.remedy.contains("9.0") == true)
            // The data is unchanged.
            #expect(try rows()["features"] == "incompat=keys program=9.0")
            try set("")
        }
    }
}
