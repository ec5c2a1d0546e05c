/// A value of the key-value store: one of the types of a property list.
///
/// The encoding is canonical: equal values have equal bytes on every device. The first byte names the type. The others
/// are the payload, and their number is the size of the value that the limits count.
package indirect enum PropertyValue: Hashable, Sendable {
    case string(String)
    case integer(Int64)
    case real(Double)
    case bool(Bool)
    /// Seconds since 1970-01-01 UTC.
    case date(Double)
    case data([UInt8])
    case array([PropertyValue])
    case dictionary([String: PropertyValue])

    /// Levels of arrays and dictionaries in each other.
    package static let maximumDepth = 32

    /// The types, as the first byte of the encoding.
    private enum Tag: UInt8 {
        case string = 1, integer, real, bool, date, data, array, dictionary
    }

    // MARK: Encoding

    /// The bytes of the value. Throws `.invalid` if it is nested too deep.
    package func encoded() throws(UbiquityError) -> [UInt8] {
        var bytes = [UInt8]()
        try append(to: &bytes, depth: 0)
        return bytes
    }

    private func append(to bytes: inout [UInt8], depth: Int) throws(UbiquityError) {
        guard depth <= Self.maximumDepth else { throw Self.tooDeep }
        switch self {
        case .string(let text):
            bytes.append(Tag.string.rawValue)
            bytes.append(contentsOf: text.utf8)
        case .integer(let number): Self.append(.integer, UInt64(bitPattern: number), to: &bytes)
        case .real(let number): Self.append(.real, number.bitPattern, to: &bytes)
        case .date(let seconds): Self.append(.date, seconds.bitPattern, to: &bytes)
        case .bool(let flag): bytes += [Tag.bool.rawValue, flag ? 1 : 0]
        case .data(let data):
            bytes.append(Tag.data.rawValue)
            bytes.append(contentsOf: data)
        case .array(let values):
            bytes.append(Tag.array.rawValue)
            for value in values { try Self.append(value, to: &bytes, depth) }
        case .dictionary(let values):
            bytes.append(Tag.dictionary.rawValue)
            let sorted = values.sorted { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }
            for (key, value) in sorted {
                Self.append(length: key.utf8.count, to: &bytes)
                bytes.append(contentsOf: key.utf8)
                try Self.append(value, to: &bytes, depth)
            }
        }
    }

    private static func append(_ tag: Tag, _ word: UInt64, to bytes: inout [UInt8]) {
        bytes.append(tag.rawValue)
        for shift in stride(from: 56, through: 0, by: -8) { bytes.append(UInt8(truncatingIfNeeded: word >> shift)) }
    }

    private static func append(_ value: PropertyValue, to bytes: inout [UInt8], _ depth: Int) throws(UbiquityError) {
        var element = [UInt8]()
        try value.append(to: &element, depth: depth + 1)
        append(length: element.count, to: &bytes)
        bytes += element
    }

    /// Seven bits a byte, the lowest first; the high bit says that another byte follows.
    private static func append(length: Int, to bytes: inout [UInt8]) {
        var rest = UInt64(length)
        while rest >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(rest))
    }

    // MARK: Decoding

    /// Throws `.invalid` if the bytes are not the encoding of a value.
    package init(encoded bytes: [UInt8]) throws(UbiquityError) { try self.init(bytes[...], depth: 0) }

    private init(_ bytes: ArraySlice<UInt8>, depth: Int) throws(UbiquityError) {
        guard depth <= Self.maximumDepth else { throw Self.tooDeep }
        guard let first = bytes.first, let tag = Tag(rawValue: first) else { throw Self.malformed }
        let payload = bytes.dropFirst()
        switch tag {
        case .string: self = .string(try Self.text(payload))
        case .integer: self = .integer(Int64(bitPattern: try Self.word(payload)))
        case .real: self = .real(Double(bitPattern: try Self.word(payload)))
        case .date: self = .date(Double(bitPattern: try Self.word(payload)))
        case .bool:
            guard payload.count == 1, let flag = payload.first, flag < 2 else { throw Self.malformed }
            self = .bool(flag == 1)
        case .data: self = .data(Array(payload))
        case .array:
            var rest = payload, values = [PropertyValue]()
            while !rest.isEmpty { values.append(try PropertyValue(try Self.part(&rest), depth: depth + 1)) }
            self = .array(values)
        case .dictionary:
            var rest = payload, values = [String: PropertyValue]()
            while !rest.isEmpty {
                let key = try Self.text(try Self.part(&rest))
                let value = try PropertyValue(try Self.part(&rest), depth: depth + 1)
                guard values.updateValue(value, forKey: key) == nil else { throw Self.malformed }
            }
            self = .dictionary(values)
        }
    }

    private static func text(_ bytes: ArraySlice<UInt8>) throws(UbiquityError) -> String {
        guard let text = String(validating: bytes, as: UTF8.self) else { throw malformed }
        return text
    }

    private static func word(_ bytes: ArraySlice<UInt8>) throws(UbiquityError) -> UInt64 {
        guard bytes.count == 8 else { throw malformed }
        return bytes.reduce(0) { $0 << 8 | UInt64($1) }
    }

    private static func part(_ bytes: inout ArraySlice<UInt8>) throws(UbiquityError) -> ArraySlice<UInt8> {
        var length = 0
        for shift in stride(from: 0, to: 35, by: 7) {
            guard let byte = bytes.popFirst() else { throw malformed }
            length |= Int(byte & 0x7F) << shift
            if byte & 0x80 == 0 { break }
            guard shift < 28 else { throw malformed }
        }
        guard length <= bytes.count else { throw malformed }
        defer { bytes = bytes.dropFirst(length) }
        return bytes.prefix(length)
    }

    private static let malformed = UbiquityError(.invalid, "the bytes are not a value of the key-value store")
    private static let tooDeep = UbiquityError(
        .invalid, "the value has more than \(maximumDepth) arrays and dictionaries in each other",
        remedy: "store it as data")

    // MARK: Sizes

    /// Bytes that an encoded value counts for. Nil, which is a removed key, counts nothing.
    package static func size(ofEncoded bytes: [UInt8]?) -> Int { bytes.map { max(0, $0.count - 1) } ?? 0 }
}
