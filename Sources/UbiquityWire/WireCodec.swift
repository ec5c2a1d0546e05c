package import UbiquityCore
internal import SwiftProtobuf

/// A value that travels as a message.
package protocol WireValue: Sendable {
    /// Reads the value and checks it: every id's length, name, kind, size and count.
    /// - Throws: `.invalid` with the reason.
    init(wire bytes: [UInt8], as format: WireFormat) throws(UbiquityError)

    /// Writes the value.
    /// - Throws: `.invalid` only if the value holds unknown fields that are not protobuf.
    func wire(as format: WireFormat) throws(UbiquityError) -> [UInt8]
}

/// Encodes and decodes values.
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

/// The mapping of a value to a protobuf message. It provides `WireValue`; the messages stay inside this module.
protocol MessageConvertible: WireValue {
    associatedtype Wire: SwiftProtobuf.Message
    init(message: Wire) throws(UbiquityError)
    /// Reads protobuf whose entries have been counted.
    init(protobuf bytes: [UInt8]) throws(UbiquityError)
    /// The repeated fields of the message.
    static var shape: MessageShape { get }
    func message() throws(UbiquityError) -> Wire
}

extension MessageConvertible {
    static var shape: MessageShape { MessageShape() }

    package init(wire bytes: [UInt8], as format: WireFormat) throws(UbiquityError) {
        switch format {
        case .protobuf:
            try MessageCensus.check(bytes, Self.shape)
            try self.init(protobuf: bytes)
        case .json:
            try MessageCensus.checkJSON(bytes)
            try self.init(message: try WireCodec.message(Wire.self, bytes, as: .json))
        }
    }

    init(protobuf bytes: [UInt8]) throws(UbiquityError) {
        try self.init(message: try WireCodec.message(Wire.self, bytes))
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

extension WireCodec {
    static func message<Wire: SwiftProtobuf.Message>(
        _ type: Wire.Type, _ bytes: [UInt8], as format: WireFormat = .protobuf
    ) throws(UbiquityError) -> Wire {
        do {
            return try Wire.read(bytes, as: format)
        } catch {
            throw UbiquityError(.invalid, "the message cannot be read: \(error)")
        }
    }

    /// Decodes the entries of a message one by one, so that only one is in memory as a message.
    /// - Parameter take: gets an entry's field and range. Returns false for a field that is no entry.
    /// - Returns: the message without these entries.
    static func remaining<Wire: SwiftProtobuf.Message>(
        _ type: Wire.Type, of bytes: [UInt8],
        _ take: (Int, UnsafeRawBufferPointer, Range<Int>) throws(UbiquityError) -> Bool
    ) throws(UbiquityError) -> Wire {
        var rest = [UInt8](), failure: UbiquityError?
        bytes.withUnsafeBytes { raw in
            do throws(UbiquityError) { rest = try untaken(raw, take) } catch { failure = error }
        }
        if let failure { throw failure }
        return try message(type, rest)
    }

    private static func untaken(
        _ raw: UnsafeRawBufferPointer, _ take: (Int, UnsafeRawBufferPointer, Range<Int>) throws(UbiquityError) -> Bool
    ) throws(UbiquityError) -> [UInt8] {
        var rest = [UInt8](), reader = WireReader(raw, 0..<raw.count), position = 0
        while let field = reader.next() {
            position = field.whole.upperBound
            if field.type == 2, try take(field.number, raw, field.content) { continue }
            rest.append(contentsOf: UnsafeRawBufferPointer(rebasing: raw[field.whole]))
        }
        // The decoder reports why the message cannot be read.
        rest.append(contentsOf: UnsafeRawBufferPointer(rebasing: raw[position...]))
        return rest
    }

    /// The bytes of one entry.
    static func bytes(_ raw: UnsafeRawBufferPointer, _ range: Range<Int>) -> [UInt8] {
        [UInt8](UnsafeRawBufferPointer(rebasing: raw[range]))
    }
}

extension SwiftProtobuf.Message {
    /// Levels of nested messages: ours have 6, and JSON counts its arrays too.
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
