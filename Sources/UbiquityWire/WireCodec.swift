package import UbiquityCore
internal import SwiftProtobuf

/// A value that travels as a message.
package protocol WireValue: Sendable {
    /// Reads the value and checks it: every id's length, name, kind, size and count.
    /// Throws `UbiquityError` `.invalid` with the reason.
    init(wire bytes: [UInt8], as format: WireFormat) throws(UbiquityError)

    /// Throws `.invalid` only if the value holds unknown fields that are not protobuf.
    func wire(as format: WireFormat) throws(UbiquityError) -> [UInt8]
}

/// Values to bytes and back.
package enum WireCodec {
    package static func encode(_ value: some WireValue, as format: WireFormat) throws(UbiquityError) -> [UInt8] {
        try value.wire(as: format)
    }

    package static func decode<Value: WireValue>(
        _ type: Value.Type, from bytes: [UInt8], as format: WireFormat
    ) throws(UbiquityError) -> Value {
        guard bytes.count <= Limits.maximumMessageLength else {
            throw UbiquityError(
                .tooLarge, "a message of \(bytes.count) bytes is longer than \(Limits.maximumMessageLength)")
        }
        return try Value(wire: bytes, as: format)
    }
}

/// How a value is a protobuf message. `WireValue` follows from it; the messages stay inside this module.
protocol MessageConvertible: WireValue {
    associatedtype Wire: SwiftProtobuf.Message
    init(message: Wire) throws(UbiquityError)
    /// Entries that the message may have, each list's each: more are refused before they are read, as an empty one
    /// takes a hundred times its bytes in memory.
    static var maximumEntries: Int { get }
    func message() throws(UbiquityError) -> Wire
}

extension MessageConvertible {
    static var maximumEntries: Int { .max }

    package init(wire bytes: [UInt8], as format: WireFormat) throws(UbiquityError) {
        let isProtobuf = format == .protobuf
        let entries = isProtobuf ? ProtobufEntries.count(in: bytes) : bytes.count { $0 == UInt8(ascii: "{") }
        // In JSON what is in an entry counts too, each chunk of a large file.
        let limit = isProtobuf ? Self.maximumEntries : max(Self.maximumEntries, ProtobufEntries.maximumObjects)
        guard entries <= limit else { throw .malformed("more than \(limit) entries") }
        let message: Wire
        do {
            message = try Wire.read(bytes, as: format)
        } catch {
            throw UbiquityError(.invalid, "the message cannot be read: \(error)")
        }
        try self.init(message: message)
    }

    package func wire(as format: WireFormat) throws(UbiquityError) -> [UInt8] {
        let message = try message()
        do {
            return try message.written(as: format)
        } catch {
            throw UbiquityError(.invalid, "the message cannot be written: \(error)")
        }
    }
}

/// Counts the fields of a message as they stand on the wire, those in its fields not.
enum ProtobufEntries {
    /// Objects in a text: the chunks of the largest file, and some.
    static let maximumObjects = 1_000_000

    /// - Returns: how many there are up to the first that cannot be read.
    static func count(in bytes: [UInt8]) -> Int {
        var position = 0, count = 0
        while position < bytes.count {
            guard let tag = variable(bytes, &position) else { break }
            switch tag & 7 {
            case 0: guard variable(bytes, &position) != nil else { return count }
            case 1: position += 8
            case 2:
                guard let length = variable(bytes, &position), length <= UInt64(bytes.count - position) else {
                    return count
                }
                position += Int(length)
            case 5: position += 4
            // The ends of a group, which is read over with all that is in it.
            case 3, 4: break
            default: return count
            }
            count += 1
        }
        return count
    }

    private static func variable(_ bytes: [UInt8], _ position: inout Int) -> UInt64? {
        var value: UInt64 = 0
        for shift in stride(from: UInt64(0), to: 64, by: 7) {
            guard position < bytes.count else { return nil }
            let byte = bytes[position]
            position += 1
            value |= UInt64(byte & 0x7F) << shift
            if byte & 0x80 == 0 { return value }
        }
        return nil
    }
}

extension SwiftProtobuf.Message {
    /// Levels of messages in messages: ours have 6, JSON counts its arrays too.
    private static var depth: Int { 16 }

    fileprivate static func read(_ bytes: [UInt8], as format: WireFormat) throws -> Self {
        switch format {
        case .protobuf:
            var options = BinaryDecodingOptions()
            options.messageDepthLimit = depth
            return try Self(serializedBytes: bytes, options: options)
        case .json:
            var options = JSONDecodingOptions()
            options.messageDepthLimit = depth
            options.ignoreUnknownFields = true
            return try Self(jsonUTF8Bytes: bytes, options: options)
        }
    }

    fileprivate func written(as format: WireFormat) throws -> [UInt8] {
        switch format {
        case .protobuf: try serializedBytes()
        case .json: try jsonUTF8Bytes()
        }
    }
}
