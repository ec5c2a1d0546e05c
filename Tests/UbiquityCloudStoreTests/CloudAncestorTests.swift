import Testing
import UbiquityCloudStore
import UbiquityCore
import UbiquityTestSupport
import UbiquityWire

/// The common ancestor of a conflict is kept until the conflict is resolved.
@Suite struct CloudAncestorTests {
    private let bench: CloudBench
    private static let day = 86_400.0

    init() throws { bench = try CloudBench() }

    private func save(
        _ version: UInt64, on base: UInt64, by device: UInt64 = 1, at seconds: Int64, _ service: any CloudService
    ) async throws {
        bench.clock.advance(seconds: 1)
        let chunk = ChunkSamples.chunk(version)
        let content = ContentChange(
            version: .number(version), baseVersion: .number(base), size: Int64(chunk.bytes.count),
            manifest: [ChunkReference(id: chunk.id, length: chunk.bytes.count)])
        let fields = ChangedFields(modifiedAt: .at(seconds), content: content)
        var request = bench.request([Make.put(1, base: 1, at: seconds, fields)], [chunk])
        request.device = DeviceID(high: 0, low: device)
        _ = try await service.commit(request)
    }

    /// Version 1; 2 and then 3 made from it by one device; 4 made from it by another, which loses.
    private func conflict() async throws -> any CloudService {
        let service = try await bench.container()
        let chunk = ChunkSamples.chunk(1)
        _ = try await service.commit(bench.request([bench.file(1, "a", [chunk])], [chunk]))
        try await save(2, on: 1, at: 300, service)
        try await save(3, on: 2, at: 400, service)
        try await save(4, on: 1, by: 2, at: 200, service)
        #expect(try await service.versions(of: .number(1)).contains { $0.kind == .conflict && $0.id == .number(4) })
        return service
    }

    private func versions(_ service: any CloudService) async throws -> Set<VersionID> {
        Set(try await service.versions(of: .number(1)).map(\.id))
    }

    @Test("CD-07: the ancestor of an open conflict outlives the retention")
    func ancestorOutlivesTheRetention() async throws {
        let service = try await conflict()
        bench.clock.advance(seconds: 31 * Self.day)
        try await bench.cloud.maintain()
        #expect(try await versions(service) == [.number(1), .number(3), .number(4)], "only 2 goes")
        let ancestor = ChunkSamples.chunk(1)
        #expect(try await bench.fetch([ancestor.id], from: service) == [ancestor])
        _ = try await service.commit(bench.request([Make.versions(1, .resolve(.number(4)))]))
        try await bench.cloud.maintain()
        #expect(try await versions(service) == [.number(3), .number(4)])
    }

    @Test("CD-07: the ancestor of an open conflict outlives many later versions")
    func ancestorOutlivesManyVersions() async throws {
        let service = try await conflict()
        for version in UInt64(5)..<115 { try await save(version, on: version == 5 ? 3 : version - 1, at: 500, service) }
        let kept = try await versions(service)
        #expect(kept.contains(.number(1)) && !kept.contains(.number(2)) && !kept.contains(.number(5)))
        #expect(kept.count == 103, "the current one, the conflict, its ancestor and 100 others")
        _ = try await service.commit(bench.request([Make.versions(1, .resolve(.number(4)))]))
        try await save(200, on: 114, at: 600, service)
        #expect(try await !versions(service).contains(.number(1)))
    }

    /// The losing line is edited further: versions in between are removed, the ancestor stays.
    @Test func ancestorOfALosingLineStays() async throws {
        let service = try await conflict()
        try await save(5, on: 4, by: 2, at: 210, service)
        try await save(6, on: 5, by: 2, at: 220, service)
        bench.clock.advance(seconds: 31 * Self.day)
        try await bench.cloud.maintain()
        let kept = try await versions(service)
        #expect(kept.contains(.number(1)) && kept.contains(.number(6)) && !kept.contains(.number(4)))
    }

    /// The later edit wins and the current version loses: it is some edits after the common ancestor.
    @Test func ancestorOfALosingCurrentVersionStays() async throws {
        let service = try await conflict()
        try await save(7, on: 1, by: 3, at: 900, service)
        bench.clock.advance(seconds: 31 * Self.day)
        try await bench.cloud.maintain()
        #expect(try await versions(service).isSuperset(of: [.number(1), .number(3), .number(4), .number(7)]))
    }
}
