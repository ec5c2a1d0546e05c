/// The name of a chunk: the SHA-256 of its content.
package struct ChunkID: Hashable, Comparable, Sendable, CustomStringConvertible {
    package static let byteCount = 32

    private let words: (UInt64, UInt64, UInt64, UInt64)

    /// Makes the id from 32 bytes; nil if there are more or fewer.
    package init?(bytes: some Collection<UInt8>) {
        guard bytes.count == Self.byteCount else { return nil }
        var words: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
        withUnsafeMutableBytes(of: &words) { raw in
            // Arrays and slices are copied at once: records are decoded by the hundred thousand.
            let isCopied: Void? = bytes.withContiguousStorageIfAvailable { raw.copyBytes(from: $0) }
            guard isCopied == nil else { return }
            for (position, byte) in bytes.enumerated() { raw[position] = byte }
        }
        self.words = words
    }

    /// Makes the id from a SHA-256, which always has 32 bytes. More bytes are cut off, missing ones are zero.
    package init(digest: [UInt8]) {
        var words: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
        withUnsafeMutableBytes(of: &words) { $0.copyBytes(from: digest.prefix(Self.byteCount)) }
        self.words = words
    }

    /// Makes the id from 64 hexadecimal digits; nil for any other text.
    package init?(hex: String) {
        guard let bytes = Hex.decode(hex) else { return nil }
        self.init(bytes: bytes)
    }

    package var bytes: [UInt8] { withUnsafeBytes(of: words) { Array($0) } }

    package var description: String { Hex.encode(bytes) }

    package static func == (left: Self, right: Self) -> Bool { left.words == right.words }

    package func hash(into hasher: inout Hasher) {
        // The id is a hash already, so its first word is as well distributed as all four.
        hasher.combine(words.0)
    }

    /// Compares in the order of the bytes.
    package static func < (left: Self, right: Self) -> Bool {
        let (a, b) = (left.words, right.words)
        if a.0 != b.0 { return a.0.bigEndian < b.0.bigEndian }
        if a.1 != b.1 { return a.1.bigEndian < b.1.bigEndian }
        if a.2 != b.2 { return a.2.bigEndian < b.2.bigEndian }
        return a.3.bigEndian < b.3.bigEndian
    }
}

/// A chunk in a content: its id and its length in bytes.
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
