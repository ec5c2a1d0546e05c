import Testing
import UbiquityCore
import UbiquitySystem
import UbiquityTestSupport

@Suite struct SmallFileTests {
    let folder: TemporaryFolder
    init() throws { folder = try TemporaryFolder() }

    @Test func publishReplacesAtOnceAndLeavesNothingElse() throws {
        try SmallFile.publish([1, 2, 3], at: folder("f"))
        try SmallFile.publish([4], at: folder("f"), mode: 0o644)
        #expect(try SmallFile.read(folder("f"), limit: 1) == [4])
        #expect(try FileSystem.entries(of: folder.path).map(\.text) == ["f"])
        #expect(try FileSystem.status(folder("f")).permissions == 0o644)
    }

    @Test func failedPublishKeepsTheOldFileAndCleansUp() throws {
        try FileSystem.makeDirectory(folder("f"))
        #expect(throws: UbiquityError.self) { try SmallFile.publish([1], at: folder("f")) }
        #expect(try FileSystem.entries(of: folder.path).map(\.text) == ["f"])
    }

    @Test func limitIsKept() throws {
        try SmallFile.publish([UInt8](repeating: 1, count: 100), at: folder("f"))
        #expect(try SmallFile.read(folder("f"), limit: 100)?.count == 100)
        let error = #expect(throws: UbiquityError.self) { try SmallFile.read(folder("f"), limit: 99) }
        #expect(error?.code == .tooLarge)
    }

    /// Since 6.8 the kernel gives every mount a unique number; before, both have 0.
    @Test func bootOfAFolderIsStable() throws {
        #expect(try Boot.id(ofFolder: "/") == Boot.id(ofFolder: "/usr/.."))
        #expect(try Boot.id(ofFolder: "/").hasPrefix(Boot.id()))
    }

    @Test func bootIDIsStable() throws {
        let id = try Boot.id()
        #expect(id.utf8.count == 36)
        #expect(try Boot.id() == id)
    }
}
