/// Base64 (RFC 4648) with padding.
package enum Base64 {
    private static let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    private static let values: [UInt8] = {
        var values = [UInt8](repeating: 0xFF, count: 256)
        for (value, digit) in digits.enumerated() { values[Int(digit)] = UInt8(value) }
        return values
    }()

    package static func encode(_ bytes: [UInt8]) -> String {
        var text = [UInt8]()
        text.reserveCapacity((bytes.count + 2) / 3 * 4)
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let count = min(3, bytes.count - start)
            var word = UInt32(bytes[start]) << 16
            if count > 1 { word |= UInt32(bytes[start + 1]) << 8 }
            if count > 2 { word |= UInt32(bytes[start + 2]) }
            for place in 0..<4 {
                text.append(place <= count ? digits[Int(word >> (18 - 6 * UInt32(place)) & 63)] : UInt8(ascii: "="))
            }
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Nil if the text is not base64 with its padding.
    package static func decode(_ text: String) -> [UInt8]? {
        let digits = Array(text.utf8)
        guard digits.count.isMultiple(of: 4) else { return nil }
        let padding = digits.suffix(2).count { $0 == UInt8(ascii: "=") }
        if padding > 0, digits.last != UInt8(ascii: "=") { return nil }
        var bytes = [UInt8](), word: UInt32 = 0
        bytes.reserveCapacity(digits.count / 4 * 3)
        for (place, digit) in digits.enumerated() {
            let isPadding = place >= digits.count - padding
            let value = isPadding ? 0 : values[Int(digit)]
            guard value < 64 else { return nil }
            word = word << 6 | UInt32(value)
            guard place % 4 == 3 else { continue }
            for shift in [16, 8, 0] { bytes.append(UInt8(truncatingIfNeeded: word >> UInt32(shift))) }
            word = 0
        }
        bytes.removeLast(padding)
        return bytes
    }
}
