/// SipHash-2-4 with 128 bits: a hash that nobody can compute or reverse without the key.
///
/// See Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012.
package struct KeyedHash: Sendable {
    /// Bytes of a key and of a hash.
    package static let length = 16

    private let key: (UInt64, UInt64)

    /// - Parameter key: 16 bytes; nil is returned for another number.
    package init?(key: [UInt8]) {
        guard key.count == Self.length else { return nil }
        self.key = (Self.word(key[0..<8]), Self.word(key[8..<16]))
    }

    /// Returns the 16 bytes of the hash.
    package func hash(_ bytes: [UInt8]) -> [UInt8] {
        var state = State(key)
        let whole = bytes.count & ~7
        for start in stride(from: 0, to: whole, by: 8) { state.add(Self.word(bytes[start..<start + 8])) }
        state.add(Self.word(bytes[whole...]) | UInt64(bytes.count & 0xFF) << 56)
        return state.end()
    }

    /// The number of up to eight bytes, the lowest first.
    private static func word(_ bytes: ArraySlice<UInt8>) -> UInt64 {
        bytes.enumerated().reduce(0) { $0 | UInt64($1.element) << UInt64(8 * $1.offset) }
    }

    private struct State {
        private var v0, v1, v2, v3: UInt64

        init(_ key: (UInt64, UInt64)) {
            v0 = 0x736f_6d65_7073_6575 ^ key.0
            v1 = 0x646f_7261_6e64_6f6d ^ key.1 ^ 0xee
            v2 = 0x6c79_6765_6e65_7261 ^ key.0
            v3 = 0x7465_6462_7974_6573 ^ key.1
        }

        mutating func add(_ word: UInt64) {
            v3 ^= word
            for _ in 0..<2 { turn() }
            v0 ^= word
        }

        mutating func end() -> [UInt8] {
            v2 ^= 0xee
            for _ in 0..<4 { turn() }
            let first = v0 ^ v1 ^ v2 ^ v3
            v1 ^= 0xdd
            for _ in 0..<4 { turn() }
            let second = v0 ^ v1 ^ v2 ^ v3
            return [first, second].flatMap { word in (0..<8).map { UInt8(truncatingIfNeeded: word >> (8 * $0)) } }
        }

        private mutating func turn() {
            v0 &+= v1
            v1 = Self.rotated(v1, 13) ^ v0
            v0 = Self.rotated(v0, 32)
            v2 &+= v3
            v3 = Self.rotated(v3, 16) ^ v2
            v0 &+= v3
            v3 = Self.rotated(v3, 21) ^ v0
            v2 &+= v1
            v1 = Self.rotated(v1, 17) ^ v2
            v2 = Self.rotated(v2, 32)
        }

        private static func rotated(_ word: UInt64, _ bits: UInt64) -> UInt64 { word << bits | word >> (64 - bits) }
    }
}
