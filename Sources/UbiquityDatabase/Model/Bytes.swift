import FoundationEssentials
import GRDB
import UbiquityCore

/// Appends the fields of a record of the log.
package struct ByteWriter {
    package private(set) var bytes: [UInt8] = []

    package init() {}

    package mutating func byte(_ value: UInt8) { bytes.append(value) }

    package mutating func varint(_ value: UInt64) {
        var value = value
        while value >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: value) | 0x80)
            value >>= 7
        }
        bytes.append(UInt8(value))
    }

    package mutating func count(_ value: Int) { varint(UInt64(value)) }

    package mutating func fixed(_ value: UInt64) {
        for shift in stride(from: 56, through: 0, by: -8) { bytes.append(UInt8(truncatingIfNeeded: value >> shift)) }
    }

    package mutating func raw(_ more: some Sequence<UInt8>) { bytes.append(contentsOf: more) }

    package mutating func block(_ more: some Collection<UInt8>) {
        count(more.count)
        raw(more)
    }

    package mutating func text(_ value: String) { block(Array(value.utf8)) }

    package mutating func stamp(_ stamp: Stamp) {
        varint(stamp.time)
        fixed(stamp.device.number)
    }

    package mutating func value(_ value: DatabaseValue) {
        switch value.storage {
        case .null: byte(ValueTag.null)
        case .int64(let number):
            byte(ValueTag.integer)
            varint(UInt64(bitPattern: (number << 1) ^ (number >> 63)))
        case .double(let number):
            byte(ValueTag.real)
            fixed(number.bitPattern)
        case .string(let text):
            if let id = UUIDText.bytes(of: text) {
                byte(id.isUppercase ? ValueTag.upperID : ValueTag.lowerID)
                raw(id.bytes)
            } else {
                byte(ValueTag.text)
                self.text(text)
            }
        case .blob(let data):
            byte(ValueTag.blob)
            block(data)
        }
    }
}

/// The first byte of a value in a record.
private enum ValueTag {
    static let null: UInt8 = 0, integer: UInt8 = 1, real: UInt8 = 2, text: UInt8 = 3, blob: UInt8 = 4
    /// A UUID written as text, in 16 bytes.
    static let lowerID: UInt8 = 5, upperID: UInt8 = 6
}

/// UUIDs as programs write them: 36 characters, all letters in one case.
private enum UUIDText {
    private static let hyphens: Set<Int> = [8, 13, 18, 23]

    static func bytes(of text: String) -> (bytes: [UInt8], isUppercase: Bool)? {
        var text = text
        return text.withUTF8 { characters in
            guard characters.count == 36 else { return nil }
            var result: [UInt8] = [], half: UInt8?, hasUpper = false, hasLower = false
            result.reserveCapacity(16)
            for (index, character) in characters.enumerated() {
                if hyphens.contains(index) {
                    guard character == UInt8(ascii: "-") else { return nil }
                    continue
                }
                let digit: UInt8
                switch character {
                case 0x30...0x39: digit = character - 0x30
                case 0x41...0x46: (digit, hasUpper) = (character - 0x41 + 10, true)
                case 0x61...0x66: (digit, hasLower) = (character - 0x61 + 10, true)
                default: return nil
                }
                if let high = half {
                    result.append(high << 4 | digit)
                    half = nil
                } else {
                    half = digit
                }
            }
            return hasUpper && hasLower ? nil : (result, hasUpper)
        }
    }

    static func text(_ bytes: some Sequence<UInt8>, isUppercase: Bool) -> String {
        let digits = Array((isUppercase ? "0123456789ABCDEF" : "0123456789abcdef").utf8)
        var text: [UInt8] = []
        text.reserveCapacity(36)
        for byte in bytes {
            text.append(digits[Int(byte >> 4)])
            text.append(digits[Int(byte & 15)])
            if hyphens.contains(text.count) { text.append(UInt8(ascii: "-")) }
        }
        return String(decoding: text, as: UTF8.self)
    }
}

/// Reads the fields of a record. Every read fails with `.damaged` instead of reading beyond the end.
package struct ByteReader {
    private let bytes: ArraySlice<UInt8>
    package private(set) var position: Int

    package init(_ bytes: ArraySlice<UInt8>) {
        self.bytes = bytes
        position = bytes.startIndex
    }

    package init(_ bytes: [UInt8]) { self.init(bytes[...]) }

    package var isAtEnd: Bool { position == bytes.endIndex }
    package var remaining: Int { bytes.endIndex - position }

    static func damage(_ what: String) -> UbiquityError {
        UbiquityError(.damaged, "a record of the database's log is damaged: \(what)")
    }

    package mutating func byte() throws -> UInt8 {
        guard position < bytes.endIndex else { throw Self.damage("it ends early") }
        defer { position += 1 }
        return bytes[position]
    }

    package mutating func varint() throws -> UInt64 {
        var result: UInt64 = 0
        for shift in stride(from: 0, to: 70, by: 7) {
            let next = try byte()
            guard shift < 63 || next <= 1 else { throw Self.damage("a number is too large") }
            result |= UInt64(next & 0x7F) << UInt64(shift)
            if next < 0x80 { return result }
        }
        throw Self.damage("a number is too long")
    }

    /// A number of bytes or elements. Each takes at least one byte, so a larger number is damage.
    package mutating func count() throws -> Int {
        let value = try varint()
        guard value <= UInt64(remaining) else { throw Self.damage("a count is larger than the record") }
        return Int(value)
    }

    package mutating func fixed() throws -> UInt64 {
        var value: UInt64 = 0
        for _ in 0..<8 { value = value << 8 | UInt64(try byte()) }
        return value
    }

    package mutating func raw(_ count: Int) throws -> ArraySlice<UInt8> {
        guard count <= remaining else { throw Self.damage("it ends early") }
        defer { position += count }
        return bytes[position..<position + count]
    }

    package mutating func block() throws -> ArraySlice<UInt8> { try raw(count()) }

    package mutating func text() throws -> String { String(decoding: try block(), as: UTF8.self) }

    package mutating func stamp() throws -> Stamp { Stamp(try varint(), DeviceID(try fixed())) }

    package mutating func value() throws -> DatabaseValue {
        switch try byte() {
        case ValueTag.null: return .null
        case ValueTag.integer:
            let number = try varint()
            return (Int64(bitPattern: number >> 1) ^ -Int64(bitPattern: number & 1)).databaseValue
        case ValueTag.real: return Double(bitPattern: try fixed()).databaseValue
        case ValueTag.text: return try text().databaseValue
        case ValueTag.blob: return Data(try block()).databaseValue
        case ValueTag.lowerID: return UUIDText.text(try raw(16), isUppercase: false).databaseValue
        case ValueTag.upperID: return UUIDText.text(try raw(16), isUppercase: true).databaseValue
        case let tag: throw Self.damage("a value has the unknown kind \(tag)")
        }
    }
}
