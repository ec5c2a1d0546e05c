import FoundationEssentials
import UbiquityCore

/// Encodes messages on the local socket as JSON. Keys are sorted, so that equal states give equal texts.
package enum ControlCodec {
    /// Largest request body in bytes. 10,000 paths of PATH_MAX (4096 bytes) would be 40 MiB; a shell's argument list (2
    /// MiB by default) with JSON's escapes fits easily.
    package static let maximumRequestLength = 16 * 1024 * 1024

    /// The message as JSON text on one line.
    package static func encode(_ message: some Encodable) throws(UbiquityError) -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        do {
            return Array(try encoder.encode(message))
        } catch {
            throw UbiquityError(.invalid, "cannot write a control message: \(error)")
        }
    }

    /// Decodes a message. Throws `.invalid` if the bytes are not one of that type.
    package static func decode<Message: Decodable>(
        _ type: Message.Type, from bytes: some Sequence<UInt8>
    ) throws(UbiquityError) -> Message {
        do {
            return try JSONDecoder().decode(type, from: Data(bytes))
        } catch {
            throw UbiquityError(.invalid, "not a \(type): \(reason(of: error))")
        }
    }

    private static func reason(_ context: DecodingError.Context, _ what: String) -> String {
        let place = context.codingPath.map { $0.intValue.map(String.init) ?? $0.stringValue }.joined(separator: ".")
        return what + (place.isEmpty ? "" : " in '\(place)'")
    }

    private static func reason(of error: any Error) -> String {
        switch error {
        case DecodingError.keyNotFound(let key, let context): reason(context, "'\(key.stringValue)' is missing")
        case DecodingError.typeMismatch(let type, let context): reason(context, "not of type \(name(of: type))")
        case DecodingError.valueNotFound(let type, let context): reason(context, "null, not \(name(of: type))")
        case DecodingError.dataCorrupted(let context) where context.codingPath.isEmpty: "not JSON"
        case DecodingError.dataCorrupted(let context): reason(context, "an unknown value")
        default: "\(error)"
        }
    }

    /// The type's name in the OpenAPI file.
    private static func name(of type: Any.Type) -> String {
        switch type {
        case is String.Type: "string"
        case is Bool.Type: "boolean"
        case is Double.Type, is any BinaryInteger.Type: "number"
        case is any RandomAccessCollection.Type: "array"
        default: "object"
        }
    }
}
