import FoundationEssentials
import Hummingbird
internal import Logging
internal import NIOCore
internal import UbiquityCore
internal import UbiquityWire

/// The source of a request's context: whether the connection came through the Unix socket.
struct CloudContextSource: RequestContextSource {
    let logger: Logger
    let channel: any Channel
    let isLocal: Bool
    let isSecure: Bool
}

struct CloudContext: RequestContext {
    typealias Source = CloudContextSource

    var coreContext: CoreRequestContextStorage
    /// The request's connection.
    let channel: any Channel
    /// Whether it came through the Unix socket, which only the cloud's owner can open.
    let isLocal: Bool
    /// Whether it came over TLS.
    let isSecure: Bool

    init(source: CloudContextSource) {
        coreContext = CoreRequestContextStorage(source: source)
        channel = source.channel
        isLocal = source.isLocal
        isSecure = source.isSecure
    }
}

extension Request {
    /// A header field by its name in lower case.
    func header(_ name: String) -> String? { headers.first { $0.name.canonicalName == name }?.value }

    /// The format of the answer: the one the client accepts, else that of its own message, else protobuf.
    var answerFormat: WireFormat {
        header("accept").flatMap(WireFormat.init(mediaType:))
            ?? header("content-type").flatMap(WireFormat.init(mediaType:)) ?? .protobuf
    }

    /// The number in the query, or `fallback` if it is missing.
    func number(_ name: String, in range: ClosedRange<Int64>, else fallback: Int64) throws -> Int64 {
        guard let text = uri.queryParameters[Substring(name)] else { return fallback }
        guard let number = Int64(text), range.contains(number) else {
            throw UbiquityError(
                .invalid, "\"\(name)\" is not a number from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    /// A 64-bit number in the query; nil if it is missing.
    func unsigned(_ name: String) throws -> UInt64? {
        guard let text = uri.queryParameters[Substring(name)] else { return nil }
        guard let number = UInt64(text) else { throw UbiquityError(.invalid, "\"\(name)\" is not a 64-bit number") }
        return number
    }

    /// The token of `Authorization: Bearer …`; nil if there is none.
    func bearer() throws -> String? {
        guard let field = header("authorization") else { return nil }
        let parts = field.split(separator: " ", omittingEmptySubsequences: true)
        guard parts.count == 2, parts[0].lowercased() == "bearer" else {
            throw UbiquityError(.signedOut, "the Authorization field is not \"Bearer TOKEN\"")
        }
        return String(parts[1])
    }

    /// The name and the password of `Authorization: Basic …`; nil if there is none.
    func basicLogin() throws -> (name: String, token: String)? {
        guard let field = header("authorization") else { return nil }
        let parts = field.split(separator: " ", omittingEmptySubsequences: true)
        guard parts.first?.lowercased() == "basic" else { return nil }
        guard parts.count == 2, let decoded = Data(base64Encoded: String(parts[1])),
            let text = String(validating: decoded, as: UTF8.self), let colon = text.firstIndex(of: ":")
        else { throw UbiquityError(.signedOut, "the Authorization field is not \"Basic\" and a name and password") }
        return (String(text[..<colon]), String(text[text.index(after: colon)...]))
    }
}
