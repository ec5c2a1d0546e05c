import Testing
import UbiquityCore

@Suite struct LinkCountsTests {
    @Test func countsSurviveTheirBytes() throws {
        let counts = [ItemID(high: 1, low: 2): 1, ItemID(high: .max, low: 0): 70_000]
        #expect(try LinkCounts.decode(LinkCounts.encode(counts)) == counts)
        #expect(LinkCounts.encode([:]).isEmpty)
    }

    /// A torn entry, and an item without links.
    @Test(arguments: [[UInt8](repeating: 1, count: 19), [UInt8](repeating: 0, count: 20)])
    func malformedBytesAreRefused(_ bytes: [UInt8]) {
        #expect(throws: UbiquityError.self) { try LinkCounts.decode(bytes) }
    }
}
