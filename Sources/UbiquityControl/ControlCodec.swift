import FoundationEssentials
import UbiquityCore

/// How messages stand on the local socket: JSON, keys sorted so that the same state is the same text.
package enum ControlCodec {
    /// Bytes in one request's body: 10,000 paths of PATH_MAX (4096 bytes) would be 40 MiB; a shell's argument list
    /// (2 MiB by default) with JSON's escapes fits well.
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

    /// The message, or `.invalid` if the bytes are not one of that type.
    package static func decode<Message: Decodable>(
        _ type: Message.Type, from bytes: some Sequence<UInt8>
    ) throws(UbiquityError) -> Message {
        do {
            return try JSONDecoder().decode(type, from: Data(bytes))
        } catch {
            throw UbiquityError(.invalid, "not a control message of type \(type): \(error)")
        }
    }
}
