import Testing
import UbiquityCore
import UbiquityIndex
import UbiquityTestSupport
import UbiquityWire
@testable import UbiquitySync

/// A cloud that lies refuses other calls as if they were commits.
@Suite struct MisplacedRefusalTests: WorldTests {
    static let seed: UInt64 = 98

    private static let refusals: [any Error & Sendable] = [MissingChunks(ids: []), OutdatedCommit(last: 7)]

    @Test(arguments: [0, 1]) func refusedTrashIsAPlainError(refusal: Int) async throws {
        try await run { world in
            try await world.settle()
            world.a.link.script(.trash, .fail(Self.refusals[refusal]))
            let error = await #expect(throws: UbiquityError.self) {
                _ = try await world.a.engine.trash.items(in: nil, limit: 5)
            }
            #expect(error?.code == .io)
        }
    }

    @Test(arguments: [0, 1]) func refusedListOfVersionsIsAPlainError(refusal: Int) async throws {
        try await run { world in
            try await world.a.create("f", [1])
            try await world.settle()
            let id = try world.a.live("f").id
            world.a.link.script(.versions, .fail(Self.refusals[refusal]))
            let error = await #expect(throws: UbiquityError.self) {
                _ = try await world.a.engine.versions.allVersions(of: id)
            }
            #expect(error?.code == .io)
        }
    }

    @Test(arguments: [CloudCall.upload, .missingChunks]) func refusedUploadIsRetried(call: CloudCall) async throws {
        try await run { world in
            try await world.settle()
            world.a.link.script(call, .fail(MissingChunks(ids: [])))
            try await world.a.create("f", [UInt8](repeating: 7, count: 500_000))
            try await world.settle()
            #expect(try await world.b.read("f").count == 500_000)
        }
    }
}
