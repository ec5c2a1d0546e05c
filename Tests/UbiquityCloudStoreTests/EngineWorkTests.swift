import Testing
import UbiquityCloudStore
import UbiquityCore
import UbiquityWire

/// The cost of a commit, and the refusal of one that would cost others too much.
@Suite struct EngineWorkTests {
    /// Counts the engine's reads.
    private final class CountingState: ContainerState {
        let base: any ContainerState
        private(set) var questions = 0

        init(_ base: any ContainerState) { self.base = base }

        private func count<T>(_ body: () throws -> T) rethrows -> T {
            questions += 1
            return try body()
        }

        func item(_ id: ItemID) throws -> ItemRecord? { try count { try base.item(id) } }
        func liveChild(of parent: ItemID, named name: ItemName) throws -> ItemID? {
            try count { try base.liveChild(of: parent, named: name) }
        }
        func liveChildCount(of parent: ItemID) throws -> Int { try count { try base.liveChildCount(of: parent) } }
        func liveLinks(to item: ItemID) throws -> [ItemID] { try count { try base.liveLinks(to: item) } }
        func version(_ id: VersionID) throws -> VersionRecord? { try count { try base.version(id) } }
        func conflicts(of item: ItemID) throws -> [VersionRecord] { try count { try base.conflicts(of: item) } }
        func history(of item: ItemID) throws -> [VersionID] { try count { try base.history(of: item) } }
        func name(of device: DeviceID) throws -> String? { try count { try base.name(of: device) } }
    }

    private func plan(_ changes: [ItemChange], _ state: any ContainerState) throws -> CommitPlan {
        try CommitEngine.plan(.of(changes), on: state, revision: Revision(5), now: .at(1000))
    }

    /// A folder in each folder of a deep tree.
    @Test func deepTreeIsWalkedOnce() throws {
        let bench = EngineBench(), depth: UInt64 = 300
        try bench.commit(EngineBench.here, (1...depth).map { try Make.folder($0, "d", in: $0 == 1 ? .root : .number($0 - 1)) })
        let state = CountingState(bench.container)
        let plan = try plan((1...depth).map { try Make.folder(1000 + $0, "new", in: .number($0)) }, state)
        #expect(plan.items.count == Int(depth))
        #expect(state.questions < 4 * Int(depth), "\(state.questions) questions")
    }

    /// A folder `Documents` with "a.txt", "a 2.txt" and so on.
    private struct NumberedNames: ContainerState {
        var last = 20_000

        func item(_ id: ItemID) throws -> ItemRecord? {
            guard id.high == 1, id.low > 0, id.low <= UInt64(last) else { return nil }
            var record = ItemRecord(
                id: id, kind: id.low == 1 ? .directory : .file, revision: Revision(1),
                parent: id.low == 1 ? .root : .number(1), name: try ItemName(id.low == 1 ? "Documents" : "a"), mode: 0o755,
                createdAt: .at(1), modifiedAt: .at(1),
                stamps: ItemStamps(FieldStamp(revision: Revision(1), time: .at(1), device: EngineBench.there)))
            if record.kind == .file { record.version = .number(id.low) }
            return record
        }
        func liveChild(of parent: ItemID, named name: ItemName) throws -> ItemID? {
            guard parent == .number(1) else { return nil }
            if name.description == "a.txt" { return .number(2) }
            guard let number = UInt64(name.description.dropFirst(2).dropLast(4)), number <= UInt64(last) else { return nil }
            return .number(number)
        }
        func liveChildCount(of parent: ItemID) throws -> Int { last }
        func liveLinks(to item: ItemID) throws -> [ItemID] { [] }
        func version(_ id: VersionID) throws -> VersionRecord? {
            guard id.high == 2, id.low <= UInt64(last) else { return nil }
            return VersionRecord(
                id: id, item: .number(id.low), role: .current, size: 10, modifiedAt: .at(1), device: EngineBench.there,
                deviceName: "there", baseVersion: nil, savedName: try ItemName("a"), manifest: try Make.manifest("o"),
                savedAt: .at(1))
        }
        func conflicts(of item: ItemID) throws -> [VersionRecord] { [] }
        func history(of item: ItemID) throws -> [VersionID] { [] }
        func name(of device: DeviceID) throws -> String? { nil }
    }

    @Test func freeNumberAmongManyTakesFewQuestions() throws {
        let state = CountingState(NumberedNames())
        let changes = try (0..<10).map { number in
            try Make.file(90_000 + number, "a.txt", in: .number(1), version: 90_000 + number, "n")
        }
        let plan = try plan(changes, state)
        #expect(plan.items.map(\.name.description) == (1...10).map { "a \(20_000 + $0).txt" })
        #expect(state.questions < 500, "\(state.questions) questions")
    }

    private func edit(_ bench: EngineBench, _ number: UInt64) throws {
        try bench.commit(
            DeviceID(high: 3, low: number),
            try Make.save(1, base: 1, at: 200 - Int64(number), version: 10 + number, on: 1, nil, size: Int64(number)))
    }

    /// A conflict beyond the limit is refused and stays on its device; accepted ones are kept.
    @Test func conflictBeyondTheLimitIsRefusedAndComesLater() throws {
        let bench = EngineBench()
        try bench.commit(EngineBench.here, try Make.file(1, "f", version: 1))
        try bench.commit(EngineBench.here, try Make.save(1, base: 1, at: 900, version: 2, on: 1, "y"))
        for number in UInt64(1)...UInt64(CloudLimits.conflictsPerItem) { try edit(bench, number) }
        let before = bench.items[.number(1)]
        let error = #expect(throws: UbiquityError.self) { try edit(bench, 150) }
        #expect(error?.code == .tooLarge && error?.remedy.isEmpty == false)
        #expect(bench.items[.number(1)] == before)
        // The winner's device can continue, and so can an edit of a conflict version.
        try bench.commit(EngineBench.here, try Make.save(1, base: 1, at: 950, version: 3, on: 2, "z"))
        try bench.commit(
            DeviceID(high: 3, low: 1), try Make.save(1, base: 1, at: 250, version: 500, on: 11, "w"))
        #expect(bench.items[.number(1)]?.conflictCount == CloudLimits.conflictsPerItem)
        try bench.commit(EngineBench.here, Make.versions(1, .resolve(.number(12))))
        try edit(bench, 150)
        #expect(bench.items[.number(1)]?.conflictCount == CloudLimits.conflictsPerItem)
    }

    /// Folders that each need a walk through another part of a large tree: the device sends fewer at a time.
    @Test func commitBeyondItsBudgetIsRefused() throws {
        let bench = EngineBench()
        let error = #expect(throws: UbiquityError.self) {
            var request = CommitRequest.of(try (1...20).map { try Make.folder($0, "d\($0)") })
            request.device = EngineBench.there
            _ = try CommitEngine.plan(request, on: bench.container, revision: .zero, now: .at(1000), work: 20)
        }
        #expect(error?.code == .tooLarge)
        try bench.commit(EngineBench.here, (1...20).map { try Make.folder($0, "d\($0)") })
    }
}
