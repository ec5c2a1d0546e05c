/// Iterates over the fields of a protobuf message without decoding it.
struct WireReader {
    struct Field {
        var number: Int
        /// The wire type: 0 varint, 1 eight bytes, 2 bytes or a message, 3 and 4 the ends of a group, 5 four bytes.
        var type: UInt64
        /// The whole field, including its tag.
        var whole: Range<Int>
        /// The bytes of the value.
        var content: Range<Int>
        /// The number of a field of type 0.
        var value: UInt64
    }

    private let bytes: UnsafeRawBufferPointer
    private var position: Int
    private let end: Int

    init(_ bytes: UnsafeRawBufferPointer, _ range: Range<Int>) {
        self.bytes = bytes
        position = range.lowerBound
        end = range.upperBound
    }

    /// The next field. Nil at the end, and at a field that cannot be read: the decoder reports its error.
    mutating func next() -> Field? {
        let start = position
        guard let tag = variable() else { return nil }
        var value: UInt64 = 0, content = position..<position
        switch tag & 7 {
        case 0:
            guard let number = variable() else { return nil }
            value = number
        case 1: position += 8
        case 2:
            guard let length = variable(), length <= UInt64(max(0, end - position)) else { return nil }
            content = position..<position + Int(length)
            position = content.upperBound
        case 3, 4: break
        case 5: position += 4
        default: return nil
        }
        guard position <= end, let number = Int(exactly: tag >> 3) else { return nil }
        return Field(number: number, type: tag & 7, whole: start..<position, content: content, value: value)
    }

    private mutating func variable() -> UInt64? {
        var value: UInt64 = 0
        for shift in stride(from: UInt64(0), to: 64, by: 7) {
            guard position < end else { return nil }
            let byte = bytes[position]
            position += 1
            value |= UInt64(byte & 0x7F) << shift
            if byte & 0x80 == 0 { return value }
        }
        return nil
    }
}
