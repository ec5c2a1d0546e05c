/// The name of an item in its directory: bytes, as on Linux, known to be UTF-8.
///
/// It is not a `String`: two canonically equivalent strings are equal, but name two files.
public struct ItemName: Hashable, Comparable, Sendable, CustomStringConvertible {
    public let bytes: [UInt8]

    /// The reason why a name cannot be used.
    public enum Invalid: Error, Equatable {
        case empty, tooLong, notUTF8
        /// "." or "..", or a name with "/" or a zero byte.
        case reserved
    }

    public init(_ bytes: [UInt8]) throws(Invalid) {
        guard !bytes.isEmpty else { throw .empty }
        guard bytes.count <= Limits.maximumNameLength else { throw .tooLong }
        // Every request with a name runs this code: one pass, and only a name that is not ASCII becomes a string.
        var isASCII = true, dots = 0
        for byte in bytes {
            switch byte {
            case 0, UInt8(ascii: "/"): throw .reserved
            case UInt8(ascii: "."): dots += 1
            case 0x80...: isASCII = false
            default: break
            }
        }
        guard dots != bytes.count || dots > 2 else { throw .reserved }
        guard isASCII || String(validating: bytes, as: UTF8.self) != nil else { throw .notUTF8 }
        self.bytes = bytes
    }

    public init(_ text: String) throws(Invalid) { try self.init(Array(text.utf8)) }

    /// For bytes that were a valid name when they were stored (the index, the top folder's empty name).
    public init(stored bytes: [UInt8]) { self.bytes = bytes }

    /// The folder of an item's other versions, present in every directory. No item may have this name, on any device.
    package static let versionsFolder = ItemName(stored: Array(".versions".utf8))

    public var description: String { String(decoding: bytes, as: UTF8.self) }

    public static func < (left: Self, right: Self) -> Bool { left.bytes.lexicographicallyPrecedes(right.bytes) }

    /// The name's stem, and its extension with the dot (empty if none): "a.tar.gz" is "a.tar" and ".gz"; ".profile" has
    /// no extension.
    package var stemAndExtension: (stem: [UInt8], suffix: [UInt8]) {
        guard let dot = bytes.lastIndex(of: UInt8(ascii: ".")), dot > 0 else { return (bytes, []) }
        return (Array(bytes[..<dot]), Array(bytes[dot...]))
    }

    /// Returns the name for a second item of this name: "report.txt" becomes "report 2.txt".
    package func numbered(_ number: Int) -> ItemName {
        let (stem, suffix) = stemAndExtension
        let mark = Array(" \(number)".utf8)
        let room = Limits.maximumNameLength - mark.count - suffix.count
        guard room > 0 else { return Self.shortened(bytes, to: Limits.maximumNameLength - mark.count, then: mark) }
        return Self.shortened(stem, to: room, then: mark + suffix)
    }

    /// Returns the name with the number before the last character, for a name whose end has a meaning: "notes~" becomes
    /// "notes 2~".
    package func numberedBeforeItsEnd(_ number: Int) -> ItemName {
        var end = bytes.count - 1
        while end > 0, bytes[end] & 0xC0 == 0x80 { end -= 1 }
        let tail = Array(" \(number)".utf8) + bytes[end...]
        return Self.shortened(Array(bytes[..<end]), to: Limits.maximumNameLength - tail.count, then: tail)
    }

    /// Returns a numbered name for an item that must stay on this device: "report.txt" becomes "report.txt 2.nosync".
    package func numberedLocal(_ number: Int) -> ItemName {
        let tail = Array(" \(number)".utf8) + IgnoreRules.localSuffix
        return Self.shortened(bytes, to: Limits.maximumNameLength - tail.count, then: tail)
    }

    /// Returns at most `length` bytes of `head`, cut between characters, followed by `tail`.
    private static func shortened(_ head: [UInt8], to length: Int, then tail: [UInt8]) -> ItemName {
        var end = min(head.count, length)
        while end > 0, end < head.count, head[end] & 0xC0 == 0x80 { end -= 1 }
        return ItemName(stored: Array(head[..<end]) + tail)
    }
}
