import Testing
import UbiquityContent
import UbiquityCore

@Suite struct ChunkerTests {
    private func lengths(_ bytes: [UInt8]) -> [Int] { Chunker.manifest(of: bytes).map(\.length) }

    /// Computed by a second implementation of the documented rule, in another language. They may never change: the
    /// cloud would not find stored chunks again.
    @Test func goldenCutsOfRandomBytes() {
        let manifest = Chunker.manifest(of: Samples.bytes(8 << 20, seed: 1))
        #expect(
            manifest.map(\.length) == [
                302394, 305899, 285049, 135716, 329539, 294792, 267740, 294366, 393532, 318343, 338499, 274614, 303638,
                343408, 265118, 292800, 293651, 431921, 288151, 265723, 348877, 78652, 469455, 347686, 282244, 275842,
                282615, 278344,
            ])
        #expect(
            manifest.first?.id.description == "97d807bb27d03bb9b3e20b4cf15cbea19bbcda42dff599f403346266081e3d5a")
    }

    @Test func goldenCutsOfText() {
        #expect(
            lengths(Samples.text(lines: 100_000)) == [
                270719, 374718, 303562, 311967, 74469, 346299, 270089, 295211, 100638, 241101, 295265, 304852,
            ])
    }

    @Test func zerosAreCutAtTheMaximum() {
        let manifest = Chunker.manifest(of: [UInt8](repeating: 0, count: 3 << 20))
        #expect(manifest.map(\.length) == [1 << 20, 1 << 20, 1 << 20])
        #expect(Set(manifest.map(\.id)).count == 1)
    }

    @Test(arguments: [(0, []), (1, [1]), (65_535, [65_535]), (65_536, [65_536])])
    func noMoreThanTheMinimumIsOneChunk(_ count: Int, _ expected: [Int]) {
        #expect(lengths(Samples.bytes(count, seed: 2)) == expected)
    }

    @Test func lengthsKeepTheirBounds() {
        let found = lengths(Samples.bytes(6 << 20, seed: 3))
        #expect(found.reduce(0, +) == 6 << 20)
        #expect(found.dropLast().allSatisfy { (Limits.minimumChunkLength...Limits.maximumChunkLength).contains($0) })
    }

    @Test(arguments: [1, 63, 4_096, 65_537, 300_001, 2 << 20])
    func cutsDoNotDependOnHowBytesAreFed(_ step: Int) {
        let bytes = Samples.bytes(2 << 20, seed: 4)
        var chunker = Chunker()
        var cuts = [Int]()
        bytes.withUnsafeBytes { all in
            var position = 0
            while position < all.count {
                let part = UnsafeRawBufferPointer(rebasing: all[position..<min(all.count, position + step)])
                if let cut = chunker.nextCut(in: part) {
                    position += cut
                    cuts.append(position)
                } else {
                    position += part.count
                }
            }
        }
        var ends = [Int]()
        for length in lengths(bytes) { ends.append((ends.last ?? 0) + length) }
        // The last chunk ends at the end of the content, without a cut.
        #expect(cuts == Array(ends.dropLast()))
    }

    @Test func oneInsertedByteMovesTheCutsNearItOnly() {
        let bytes = Samples.bytes(8 << 20, seed: 5)
        let before = Chunker.manifest(of: bytes)
        let after = Chunker.manifest(of: [0x55] + bytes)
        let known = Set(before.map(\.id))
        #expect(after.filter { !known.contains($0.id) }.count <= 2)
        var middle = bytes
        middle.insert(0x55, at: 4 << 20)
        #expect(Chunker.manifest(of: middle).filter { !known.contains($0.id) }.count <= 2)
    }

    @Test(arguments: [
        ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (
            "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
        ),
    ])
    func namesAreSHA256(_ text: String, _ name: String) {
        #expect(ChunkNaming.name(of: Array(text.utf8)).description == name)
    }
}
