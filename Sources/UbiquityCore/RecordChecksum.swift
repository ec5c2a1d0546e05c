/// FNV-1a over 64-bit words. It detects a truncated record of a journal, not a forged one.
package struct RecordChecksum: Sendable {
    package private(set) var value: UInt64

    /// - Parameter seed: A value the reader must know to accept the record.
    package init(seed: UInt64) { value = (0xcbf2_9ce4_8422_2325 ^ seed) &* 0x100_0000_01b3 }

    package mutating func add(_ word: UInt64) { value = (value ^ word) &* 0x100_0000_01b3 }

    package mutating func add(_ bytes: ArraySlice<UInt8>) { bytes.withUnsafeBytes { add($0) } }

    private mutating func add(_ bytes: UnsafeRawBufferPointer) {
        let end = bytes.count & ~7
        for start in stride(from: 0, to: end, by: 8) {
            add(UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: start, as: UInt64.self)))
            value ^= value >> 29
        }
        for byte in bytes[end...] { add(UInt64(byte)) }
    }
}
