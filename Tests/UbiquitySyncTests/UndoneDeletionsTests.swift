import Testing
import UbiquityCore
import UbiquityIndex
import UbiquityTestSupport
@testable import UbiquitySync

/// Many deletions are held, and a person takes them back.
@Suite struct UndoneDeletionsTests: WorldTests {
    static let seed: UInt64 = 23

    /// The file itself took the place of its further name, as the first one went.
    @Test func aFileAndItsFurtherNameAreWhereTheyWere() async throws {
        try await run { world in
            try world.a.makeFolder("d")
            for number in 0..<120 { try await world.a.create("d/f\(number)", [UInt8(number)]) }
            try world.a.makeHardLink("link", to: "d/f7")
            try await world.settle()
            let before = try world.b.paths().map(\.path)
            try world.a.remove("d")
            for _ in 0..<100 where try world.a.engine.heldDeletions == 0 { try await world.sleep(.seconds(1)) }
            #expect(try world.a.engine.heldDeletions > 100)
            _ = try world.a.engine.undoDeletions()
            try await world.settle()
            for device in world.devices {
                #expect(try device.paths().map(\.path) == before)
                for name in ["d/f7", "link"] { #expect(try await device.read(name) == [7]) }
            }
            try await world.check()
        }
    }
}
