/// The name of a chunk: the SHA-256 of its content.
package struct ChunkID: Hashable, Comparable, Sendable, CustomStringConvertible {
    package static let byteCount = 32

    private let words: (UInt64, UInt64, UInt64, UInt64)

    /// The id in 32 bytes, or nil if there are more or fewer.
    package init?(bytes: some Collection<UInt8>) {
        guard bytes.count == Self.byteCount else { return nil }
        var words: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
        withUnsafeMutableBytes(of: &words) { raw in
            // One copy for arrays and their slices: records are decoded by the hundred thousand.
            let isCopied: Void? = bytes.withContiguousStorageIfAvailable { raw.copyBytes(from: $0) }
            guard isCopied == nil else { return }
            for (position, byte) in bytes.enumerated() { raw[position] = byte }
        }
        self.words = words
    }

    /// From a SHA-256, which always has 32 bytes; more are cut off, missing ones are zero.
    package init(digest: [UInt8]) {
        var words: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
        withUnsafeMutableBytes(of: &words) { $0.copyBytes(from: digest.prefix(Self.byteCount)) }
        self.words = words
    }

    /// The id in 64 hexadecimal digits, or nil if the text is anything else.
    package init?(hex: String) {
        guard let bytes = Hex.decode(hex) else { return nil }
        self.init(bytes: bytes)
    }

    package var bytes: [UInt8] { withUnsafeBytes(of: words) { Array($0) } }

    package var description: String { Hex.encode(bytes) }

    package static func == (left: Self, right: Self) -> Bool { left.words == right.words }

    package func hash(into hasher: inout Hasher) {
        // The content is a hash already: its first word spreads as well as all four.
        hasher.combine(words.0)
    }

    /// In the order of the bytes.
    package static func < (left: Self, right: Self) -> Bool {
        let (a, b) = (left.words, right.words)
        if a.0 != b.0 { return a.0.bigEndian < b.0.bigEndian }
        if a.1 != b.1 { return a.1.bigEndian < b.1.bigEndian }
        if a.2 != b.2 { return a.2.bigEndian < b.2.bigEndian }
        return a.3.bigEndian < b.3.bigEndian
    }
}

/// A chunk's place in a content: its id and its length in bytes.
package struct ChunkReference: Hashable, Sendable {
    package let id: ChunkID
    /// Length in bytes, 1 … `Limits.maximumChunkLength`.
    package let length: Int

    package init(id: ChunkID, length: Int) {
        self.id = id
        self.length = length
    }
}

/// The content of a version: its chunks in order. An empty content has none.
package typealias Manifest = [ChunkReference]
