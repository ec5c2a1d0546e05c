import Testing
import UbiquityCore
import UbiquityTestSupport
@testable import UbiquitySync

/// A folder is deleted whose items are sent later than the folder: it must not reappear.
@Suite struct FolderDeletionTests: WorldTests {
    static let seed: UInt64 = 31

    private func makePackage(_ device: SimulatedDevice, _ path: String) async throws {
        try device.makeFolder(path)
        for name in ["one", "two"] { try await device.create("\(path)/\(name)", [1]) }
    }

    private func settleAndFind(_ world: Simulation, _ expected: [String]) async throws {
        try await world.settle()
        for device in world.devices { #expect(try device.paths().map(\.path).sorted() == expected, "\(device.name)") }
        try await world.check()
    }

    /// The package's deletion waits a while.
    @Test(arguments: ["d/sub", "d/deep/sub"]) func folderWithADeepPackageStaysDeleted(folder: String) async throws {
        try await run { world in
            var path = ""
            for name in folder.split(separator: "/") {
                path += path.isEmpty ? "\(name)" : "/\(name)"
                try world.a.makeFolder(path)
            }
            try await makePackage(world.a, "\(folder)/p.rtfd")
            try await world.a.create("other", [2])
            try await world.settle()
            try world.a.remove("d")
            try await settleAndFind(world, ["other"])
        }
    }

    @Test func folderWhoseFilesMovedIntoAPackageStaysDeleted() async throws {
        try await run { world in
            try world.a.makeFolder("d")
            for name in ["x", "y"] { try await world.a.create("d/\(name)", [3]) }
            try await makePackage(world.a, "p.rtfd")
            try await world.settle()
            for name in ["x", "y"] { try world.a.rename("d/\(name)", "p.rtfd/\(name)") }
            try world.a.remove("d")
            try await settleAndFind(world, ["p.rtfd", "p.rtfd/one", "p.rtfd/two", "p.rtfd/x", "p.rtfd/y"])
        }
    }

    /// The account has no space for its written content.
    @Test func folderWithAMovedRefusedFileStaysDeleted() async throws {
        try await run { world in
            try world.a.makeFolder("d")
            try world.a.makeFolder("e")
            try await world.a.create("d/big", [1])
            try await world.settle()
            world.cloud.setQuota(1000)
            try await world.a.edit("d/big") { _ in world.random.bytes(5000) }
            try await world.sleep(.seconds(30))
            #expect(try world.a.engine.status(of: world.a.live("d/big")).uploadingError?.code == .quotaExceeded)
            try world.a.rename("d/big", "e/big")
            try world.a.remove("d")
            try await world.sleep(.seconds(30))
            #expect(try world.a.row("d") == nil && world.b.row("d") == nil)
            world.cloud.setQuota(100_000)
            try await settleAndFind(world, ["e", "e/big"])
        }
    }

    /// New, and never sent under its first name: nothing moves into it before the cloud knows it.
    @Test(arguments: [3, 2100]) func folderWithTheDeletedNameKeepsTheItems(count: Int) async throws {
        try await run(["a", "b"], ["a": .init(allowsMassDelete: true)]) { world in
            try world.a.makeFolder("d")
            for number in 0..<count { try await world.a.create("d/f\(number)", [1]) }
            try await world.settle()
            try world.a.setPaused(true)
            try world.a.makeFolder("d.new")
            for number in 0..<count { try world.a.rename("d/f\(number)", "d.new/f\(number)") }
            try world.a.remove("d")
            try world.a.rename("d.new", "d")
            world.a.link.resetCounts()
            try world.a.setPaused(false)
            try await world.settle()
            #expect(world.a.link.counts.calls[.commit, default: 0] < 40)
            for device in world.devices { #expect(try device.paths().count == count + 1, "\(device.name)") }
            try await world.check()
        }
    }

    /// A linked backup: the document's new content never shows at another name.
    @Test func reusedNameNeverShowsTheNextContent() async throws {
        try await run { world in
            for number in 0..<150 { try await world.a.create("f\(number)", [1]) }
            try await world.a.create("doc", [1])
            try await world.settle()
            try world.a.makeHardLink("backup", to: "doc")
            try await world.settle([world.a])
            try await world.sleep(.seconds(2))
            #expect(try await world.b.read("backup") == [1])
            try await world.a.saveOver("doc", [2])
            for _ in 0..<200 {
                try await world.sleep(.milliseconds(50))
                guard try world.b.row("backup") != nil else { continue }
                #expect(try await world.b.read("backup") == [1])
            }
            try await world.settle()
            #expect(try await world.b.read("backup") == [1])
            #expect(try await world.b.read("doc") == [2])
        }
    }

    /// The device does not know that file when it sends the deletion.
    @Test func remoteCreationInADeletedFolderIsKept() async throws {
        try await run { world in
            try world.a.makeFolder("d")
            try await world.settle()
            world.a.link.setAway(true)
            try await world.b.create("d/new", [1])
            try await world.settle([world.b])
            try world.a.remove("d")
            world.a.link.setAway(false)
            try await settleAndFind(world, ["d", "d/new"])
        }
    }
}
