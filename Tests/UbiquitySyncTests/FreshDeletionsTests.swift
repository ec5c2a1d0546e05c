import Testing
import UbiquityCore
import UbiquityTestSupport
@testable import UbiquitySync

/// A device deletes many items that it created a moment ago.
@Suite struct FreshDeletionsTests: WorldTests {
    static let seed: UInt64 = 19

    /// Device a makes 120 files; `change` comes after that, and then device a removes them.
    /// - Parameter held: The expected number of deletions on hold. If there are none, the other device ends without
    ///   items.
    private func removeTree(
        held: Int, after change: @escaping @Sendable (Simulation) async throws -> Void
    ) async throws {
        try await run { world in
            try world.a.makeFolder("d")
            for number in 0..<120 { try await world.a.create("d/f\(number)", [UInt8(number)]) }
            try await world.settle()
            try await change(world)
            try await world.settle()
            try world.a.remove("d")
            try await world.sleep(.seconds(10))
            #expect(try world.a.engine.heldDeletions == held)
            #expect(try world.b.paths().isEmpty == (held == 0))
        }
    }

    @Test func ownFreshTreeIsDeletedWithoutQuestion() async throws {
        try await removeTree(held: 0) { _ in }
    }

    @Test func ownEditsOfAFreshTreeChangeNothing() async throws {
        try await removeTree(held: 0) { world in
            for number in 0..<120 { try await world.a.saveOver("d/f\(number)", [1, 2]) }
        }
    }

    @Test func treeThatAnotherDeviceEditedIsHeld() async throws {
        try await removeTree(held: 121) { world in
            for number in 0..<110 { try await world.b.overwrite("d/f\(number)", [9]) }
        }
    }

    @Test func treeThatAnotherDeviceRenamedIsHeld() async throws {
        try await removeTree(held: 121) { world in
            for number in 0..<110 { try world.b.rename("d/f\(number)", "d/g\(number)") }
        }
    }

    @Test func ownTreeOfAnHourAgoIsHeld() async throws {
        try await removeTree(held: 121) { try await $0.sleep(.seconds(3600)) }
    }

    /// A folder with foreign files in it is deleted file by file.
    @Test func filesOfAnotherDeviceInAnOwnFreshFolderAreHeld() async throws {
        try await removeTree(held: 251) { world in
            for number in 0..<130 { try await world.b.create("d/b\(number)", [1]) }
        }
    }
}
