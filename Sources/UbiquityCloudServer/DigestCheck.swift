import Hummingbird
internal import UbiquityCore
internal import UbiquityWire

/// A request that was damaged in transit. Its sender repeats it.
struct DamagedRequest: Error {
    let reason: String

    var failure: UbiquityError {
        UbiquityError(.offline, "the request was damaged in transit: \(reason)", remedy: "send it again, or use TLS")
    }
}

/// Refuses requests that were damaged in transit, before they have an effect.
///
/// A device sends two digests with each request, and one demands the other: a flipped bit in a field's name does not
/// make it a request without digests. Requests without both are served: they come from older devices and from curl.
struct DigestCheck: RouterMiddleware {
    typealias Context = CloudContext

    func handle(
        _ request: Request, context: CloudContext, next: (Request, CloudContext) async throws -> Response
    ) async throws -> Response {
        try request.checkHead()
        return try await next(request, context)
    }
}

extension Request {
    /// Whether its sender adds digests to all its requests.
    var isProven: Bool { header(MessageDigest.requestField) != nil }

    fileprivate func checkHead() throws {
        let hasContent = header(MessageDigest.contentField) != nil
        guard let told = header(MessageDigest.requestField) else {
            guard hasContent, header("ubiquity-device") != nil else { return }
            throw DamagedRequest(reason: "it lacks its \(MessageDigest.requestField)")
        }
        let own = MessageDigest.ofRequest(method.rawValue, head.path ?? "") { header($0) }
        guard MessageDigest.matches(told, own) == true else {
            throw DamagedRequest(reason: "its \(MessageDigest.requestField) is not the digest of its head")
        }
        // The ids of chunks prove their bytes.
        guard hasContent || header("content-type") == WireFormat.chunkMediaType else {
            throw DamagedRequest(reason: "it lacks its \(MessageDigest.contentField)")
        }
    }

    func checkBody(_ digest: BodyDigest) throws {
        guard let told = header(MessageDigest.contentField) else { return }
        switch MessageDigest.matches(told, digest.field()) {
        case true?: return
        case nil where !isProven: return
        default: throw DamagedRequest(reason: "its \(MessageDigest.contentField) is not the digest of its body")
        }
    }
}

extension HTTPFields {
    /// Adds a field by its name in lower case.
    mutating func set(_ name: String, _ value: String) {
        if let name = HTTPFields.Element.Name(name) { self[name] = value }
    }
}
