internal import Crypto
internal import FoundationEssentials

/// The HTTP fields that prove that a request or an answer arrived unchanged. A connection without TLS flips bits, and
/// the checksum of TCP misses some of them.
package enum MessageDigest {
    /// The digest of a body, by RFC 9530. Every metadata body has one, in both directions.
    package static let contentField = "content-digest"
    /// The digest of a request's method, target and fields. A device that sends it also sends `contentField`.
    package static let requestField = "ubiquity-request-digest"
    /// An answer has this field if the cloud sends digests. The client refuses every answer of such a cloud without
    /// one.
    package static let supportField = "ubiquity-digests"
    package static let support = "sha-256"
    /// The answer to a request damaged in transit has this field, by RFC 9530. The client sends that request again.
    package static let refusalField = "want-content-digest"
    package static let refusal = "sha-256=10"

    /// The fields of a request that its digest covers, beside method and target.
    package static let coveredFields = [
        "authorization", "content-type", "ubiquity-device", "ubiquity-device-name", contentField,
    ]

    package static func field(of bytes: [UInt8]) -> String {
        var hash = BodyDigest()
        hash.add(bytes)
        return hash.field()
    }

    /// Whether a `Content-Digest` matches the computed one in `field`. Nil if it has no SHA-256.
    package static func matches(_ text: String, _ field: String) -> Bool? {
        for member in text.split(separator: ",") {
            let value = String(member.prefix { $0 != ";" }.filter { $0 != " " && $0 != "\t" })
            if value.lowercased().hasPrefix("sha-256=") { return value.dropFirst(8) == field.dropFirst(8) }
        }
        return nil
    }

    /// - Parameter value: returns the value of a field by its name in lower case.
    package static func ofRequest(_ method: String, _ target: String, value: (String) -> String?) -> String {
        let lines = [method, target] + coveredFields.map { trimmed(value($0) ?? "") }
        return field(of: Array(lines.joined(separator: "\n").utf8))
    }

    /// The line of a server-sent event that proves its data.
    package static func ofEvent(_ data: String) -> String { field(of: Array(data.utf8)) }

    /// Whether the bytes have this SHA-256.
    package static func isName(_ id: [UInt8], of bytes: [UInt8]) -> Bool { SHA256.hash(data: bytes).elementsEqual(id) }

    private static func trimmed(_ text: String) -> String {
        let isBlank: (Character) -> Bool = { $0 == " " || $0 == "\t" }
        return String(text.drop(while: isBlank).reversed().drop(while: isBlank).reversed())
    }
}

/// The digest of a body that arrives in pieces.
package struct BodyDigest: Sendable {
    private var hash = SHA256()

    package init() {}

    package mutating func add(_ bytes: [UInt8]) { bytes.withUnsafeBytes { hash.update(bufferPointer: $0) } }
    package mutating func add(_ bytes: UnsafeRawBufferPointer) { hash.update(bufferPointer: bytes) }

    /// The value of the field `Content-Digest`.
    package func field() -> String { "sha-256=:\(Data(hash.finalize()).base64EncodedString()):" }
}
