import Testing
import UbiquityCore

@Suite struct KeyedHashTests {
    /// Vectors of the reference implementation (`vectors_sip128`).
    @Test func referenceVectorsAreMet() throws {
        let hash = try #require(KeyedHash(key: Array(0..<16)))
        #expect(Hex.encode(hash.hash([])) == "a3817f04ba25a8e66df67214c7550293")
        #expect(Hex.encode(hash.hash([0])) == "da87c1d86b99af44347659119b22fc45")
        #expect(Hex.encode(hash.hash(Array(0..<8))) == "3b62a9ba6258f5610f83e264f31497b4")
        #expect(Hex.encode(hash.hash(Array(0..<63))) == "5150d1772f50834a503e069a973fbd7c")
    }

    @Test func keyOfAnotherLengthIsRefused() { #expect(KeyedHash(key: [1, 2]) == nil) }
}
