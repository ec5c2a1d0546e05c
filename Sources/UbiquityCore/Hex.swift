/// Lower-case hexadecimal text of bytes, and back.
package enum Hex {
    private static let digits = Array("0123456789abcdef".utf8)

    package static func encode(_ bytes: some Sequence<UInt8>) -> String {
        var text = [UInt8]()
        text.reserveCapacity(bytes.underestimatedCount * 2)
        for byte in bytes {
            text.append(digits[Int(byte >> 4)])
            text.append(digits[Int(byte & 15)])
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Decodes the text; nil if it is not an even number of hexadecimal digits.
    package static func decode(_ text: String) -> [UInt8]? {
        var bytes = [UInt8]()
        var half: UInt8?
        for character in text.utf8 {
            guard let value = value(of: character) else { return nil }
            if let high = half {
                bytes.append(high << 4 | value)
                half = nil
            } else {
                half = value
            }
        }
        return half == nil ? bytes : nil
    }

    private static func value(of digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): digit - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}
