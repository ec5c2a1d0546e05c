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
    func message() throws(UbiquityError) -> Wire
}

extension MessageConvertible {
    package init(wire bytes: [UInt8], as format: WireFormat) throws(UbiquityError) {
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
