/// Percent-encoding for URLs and header fields: everything but letters, digits and "-._~" becomes "%" and two
/// hexadecimal digits.
package enum PercentEncoding {
    package static func encode(_ text: String) -> String {
        var result = [UInt8]()
        for byte in text.utf8 {
            if isPlain(byte) {
                result.append(byte)
            } else {
                result.append(UInt8(ascii: "%"))
                result += Array(Hex.encode([byte]).utf8)
            }
        }
        return String(decoding: result, as: UTF8.self)
    }

    /// Decodes the text; nil if a "%" is not followed by two hexadecimal digits or the bytes are not UTF-8.
    package static func decode(_ text: some StringProtocol) -> String? {
        let bytes = Array(text.utf8)
        var result = [UInt8]()
        var position = 0
        while position < bytes.count {
            guard bytes[position] == UInt8(ascii: "%") else {
                result.append(bytes[position])
                position += 1
                continue
            }
            guard position + 2 < bytes.count,
                let byte = Hex.decode(String(decoding: bytes[(position + 1)...(position + 2)], as: UTF8.self))
            else { return nil }
            result += byte
            position += 3
        }
        return String(validating: result, as: UTF8.self)
    }

    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
            UInt8(ascii: "~"):
            true
        default: false
        }
    }
}
