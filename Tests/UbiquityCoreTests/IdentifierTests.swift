import Testing
import UbiquityCore

@Suite struct IdentifierTests {
    private struct Counter: RandomNumberGenerator {
        var value: UInt64 = 0x0123_4567_89ab_cdef
        mutating func next() -> UInt64 {
            defer { value &+= 1 }
            return value
        }
    }

    @Test func bytesAndTextRoundTrip() throws {
        var generator = Counter()
        let id = ItemID(using: &generator)
        #expect(id.bytes.count == 16)
        #expect(ItemID(bytes: id.bytes) == id)
        #expect(ItemID(hex: id.description) == id)
        #expect(id.description == "0123456789abcdef0123456789abcdf0")
    }

    @Test(arguments: ["", "00", "zz", "0123456789abcdef0123456789abcdf", "0123456789abcdef0123456789abcdfg"])
    func otherTextIsNoIdentifier(_ text: String) { #expect(ItemID(hex: text) == nil) }

    @Test func orderFollowsTheBytes() {
        let low = ItemID(high: 1, low: .max), high = ItemID(high: 2, low: 0)
        #expect(low < high)
        #expect(low.bytes.lexicographicallyPrecedes(high.bytes))
    }

    @Test func chunkIDsAreTheirBytes() throws {
        let bytes = (0..<32).map { UInt8($0 * 7) }
        let id = try #require(ChunkID(bytes: bytes))
        #expect(id.bytes == bytes)
        #expect(ChunkID(hex: id.description) == id)
        #expect(ChunkID(bytes: bytes.dropLast()) == nil)
        #expect(ChunkID(hex: String(id.description.dropLast())) == nil)
        #expect(try #require(ChunkID(bytes: bytes.reversed())) != id)
    }

    @Test(arguments: ["default", "a", "Notes-2.x_y", String(repeating: "a", count: 64)])
    func containerNamesAreChecked(_ name: String) { #expect(ContainerID(name)?.name == name) }

    @Test(arguments: ["", ".", "..", ".a", "-a", "a/b", "a b", "ä", "a\0b", String(repeating: "a", count: 65)])
    func otherContainerNamesAreRefused(_ name: String) { #expect(ContainerID(name) == nil) }
}
