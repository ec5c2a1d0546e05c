/// The checksum of zip archives (CRC-32, IEEE 802.3), eight bytes a step.
package struct CRC32: Sendable {
    private var state: UInt32 = ~0

    package init() {}

    package init(of bytes: [UInt8]) { add(bytes[...]) }

    package var value: UInt32 { ~state }

    package mutating func add(_ bytes: ArraySlice<UInt8>) { bytes.withUnsafeBytes { add($0) } }

    package mutating func add(_ bytes: UnsafeRawBufferPointer) {
        var crc = state
        Self.tables.withUnsafeBufferPointer { tables in
            let end = bytes.count & ~7
            for start in stride(from: 0, to: end, by: 8) {
                let word = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: start, as: UInt64.self))
                var mixed = word ^ UInt64(crc)
                crc = 0
                for table in stride(from: 7, through: 0, by: -1) {
                    crc ^= tables[table << 8 | Int(mixed & 0xFF)]
                    mixed >>= 8
                }
            }
            for byte in bytes[end...] { crc = crc >> 8 ^ tables[Int((crc ^ UInt32(byte)) & 0xFF)] }
        }
        state = crc
    }

    /// Eight tables of 256 values. Table n gives the effect of a byte that n more bytes follow.
    private static let tables: [UInt32] = {
        var tables = [UInt32](repeating: 0, count: 8 << 8)
        for byte in 0..<256 {
            var crc = UInt32(byte)
            for _ in 0..<8 { crc = crc & 1 == 1 ? crc >> 1 ^ 0xEDB8_8320 : crc >> 1 }
            tables[byte] = crc
        }
        for index in 256..<tables.count {
            let before = tables[index - 256]
            tables[index] = before >> 8 ^ tables[Int(before & 0xFF)]
        }
        return tables
    }()
}
