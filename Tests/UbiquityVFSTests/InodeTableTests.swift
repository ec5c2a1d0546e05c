import Testing
@testable import UbiquityVFS

@Suite struct InodeTableTests {
    /// The table keeps the remaining inode with all its data.
    @Test func forgottenInodesReleaseMemory() {
        let table = InodeTable()
        for ino in 2...UInt64(200_000) { table.addLookup(ino) }
        table.withNode(77) { $0.listing = 5 }
        #expect(table.room >= 200_000)
        for ino in 2...UInt64(200_000) where ino % 100 != 77 { table.forget(ino, 1) }
        #expect(table.count == 2001)
        #expect(table.room < 40_000)
        #expect(table.withNode(77) { $0.listing } == 5)
        for ino in 2...UInt64(200_000) { table.addLookup(ino) }
        #expect(table.count == 200_000)
        table.forget(77, 1)
        #expect(table.withNode(77) { $0.listing } == 5)
        #expect(table.violation() == nil)
    }
}
