import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import NIOPosix
internal import UbiquityCore
internal import UbiquitySystem
internal import UbiquityWire

/// HTTP requests to one cloud: connections, times, headers, failures. `CloudClient` defines what the requests mean.
final class Transport: Sendable {
    /// The weight of a request, which selects its connection and its times.
    enum Load: Sendable {
        /// A small request with a quick answer.
        case call
        /// A small request whose answer may take a while.
        case commit
        /// A large request, for which a slow connection needs time.
        case upload
    }

    /// The body of a request. Its bytes are created anew for a repetition.
    struct Content: Sendable {
        let mediaType: String
        let length: Int
        /// `Content-Digest`. Nil for chunks, which their ids verify.
        let digest: String?
        let body: @Sendable () -> HTTPClientRequest.Body
    }

    let address: CloudAddress
    let traffic = TrafficCounter()
    /// Separate clients, so that no transfer makes a call wait for a connection.
    private let calls: HTTPClient
    private let downloads: HTTPClient
    private let uploads: HTTPClient
    private let commits: HTTPClient
    private let streams: HTTPClient
    private let headers: Lock<HTTPHeaders>
    private let socket: SocketName?
    private let isShutDown = Lock(false)
    /// Whether the cloud has sent an answer with a digest in this run. From then on every answer must have one.
    private let hasProof = Lock(false)
    /// Whether it has in an earlier run.
    private let proof: DigestProof

    init(
        address: CloudAddress, headers: HTTPHeaders, proof: DigestProof = DigestProof()
    ) throws(UbiquityError) {
        self.address = address
        self.proof = proof
        self.headers = Lock(headers)
        let configuration = try Self.configuration(address)
        let short = Self.noticingDeadLines(
            Self.timed(configuration, ClientLimits.silence), address, after: ClientLimits.unacknowledged)
        calls = HTTPClient(eventLoopGroupProvider: .singleton, configuration: short)
        downloads = HTTPClient(eventLoopGroupProvider: .singleton, configuration: short)
        commits = HTTPClient(
            eventLoopGroupProvider: .singleton,
            configuration: Self.noticingDeadLines(
                Self.timed(configuration, ClientLimits.commit), address, after: ClientLimits.unacknowledged))
        uploads = HTTPClient(
            eventLoopGroupProvider: .singleton,
            configuration: Self.noticingDeadLines(
                Self.timed(configuration, ClientLimits.uploadSilence), address, after: ClientLimits.uploadSilence,
                kernelBytes: ClientLimits.kernelBytes))
        streams = HTTPClient(
            eventLoopGroupProvider: .singleton, configuration: Self.timed(configuration, ClientLimits.eventSilence))
        if case .unixSocket(let path) = address { socket = SocketName(path) } else { socket = nil }
    }

    /// Sends another token from the next request on.
    func setToken(_ token: String) {
        headers.withLock { $0.replaceOrAdd(name: Self.tokenField, value: Self.tokenValue(token)) }
    }

    static let tokenField = "authorization"
    static func tokenValue(_ token: String) -> String { "Bearer \(token)" }

    deinit {
        // AsyncHTTPClient ends the process if a client is released without its shutdown.
        guard !isShutDown.withLock({ $0 }) else { return }
        Task { [calls, downloads, uploads, commits, streams] in
            await Self.shutDown(calls, downloads, uploads, commits, streams)
        }
    }

    /// Ends all requests and connections. A second call does nothing.
    func shutdown() async {
        let isFirst = isShutDown.withLock { isShutDown in
            defer { isShutDown = true }
            return !isShutDown
        }
        if isFirst { await Self.shutDown(calls, downloads, uploads, commits, streams) }
    }

    private static func shutDown(_ clients: HTTPClient...) async {
        // It fails only if it was shut down before, and then nothing is open.
        for client in clients { try? await client.shutdown() }
    }

    /// Sends a request. Returns when the answer's head has arrived.
    /// - Parameters:
    ///   - answersWithBody: whether a success has a body.
    ///   - load: the weight of the request.
    ///   - answer: how long the head may take.
    /// - Throws: `UbiquityError` if there is no answer, and the cloud's failure if it is not a success.
    func send(
        _ method: HTTPMethod, _ path: String, _ content: Content? = nil, accept: String, answersWithBody: Bool = true,
        load: Load = .call, within answer: TimeAmount
    ) async throws -> HTTPClientResponse {
        let client = client(load, accept: accept)
        let response = try await mapped {
            try await waitingItsTurn {
                do {
                    return try await client.execute(request(method, path, content, accept), timeout: answer)
                } catch where ClientFailure.isClosedConnection(error) {
                    try Task.checkCancellation()
                    return try await client.execute(request(method, path, content, accept), timeout: answer)
                }
            }
        }
        traffic.addSent(content?.length ?? 0)
        guard (200..<300).contains(response.status.code) else { throw try await failure(response) }
        guard isFromCloud(response, accept, hasBody: answersWithBody) else {
            if hasProof.withLock({ $0 }) { throw DamagedOnTheWay(reason: "the head of the cloud's answer was damaged") }
            throw UbiquityError(
                .offline, "the answer is not from the cloud itself (a page of its own)", at: address.description)
        }
        return response
    }

    /// Retries while a Unix socket's queue is full. connect(2) then fails with EAGAIN, and nothing has been sent.
    private func waitingItsTurn(
        _ work: () async throws -> HTTPClientResponse
    ) async throws -> HTTPClientResponse {
        for _ in 0..<ClientLimits.queueTurns {
            do { return try await work() } catch where ClientFailure.isFullQueue(error) {
                try await Sleepers.shared.sleep(for: ClientLimits.queuePause)
            }
        }
        return try await work()
    }

    /// Whether a success is an answer of the cloud: a captive portal answers everything with a page.
    private func isFromCloud(_ response: HTTPClientResponse, _ accept: String, hasBody: Bool) -> Bool {
        guard hasBody, response.status != .noContent else { return !hasBody && response.status == .noContent }
        guard let type = response.headers.first(name: "content-type") else { return false }
        return type.prefix { $0 != ";" }.lowercased() == accept
    }

    static let eventMediaType = "text/event-stream"

    private func client(_ load: Load, accept: String) -> HTTPClient {
        switch load {
        case .upload: return uploads
        case .commit: return commits
        case .call: break
        }
        if accept == Self.eventMediaType { return streams }
        return accept == WireFormat.chunkMediaType ? downloads : calls
    }

    /// The whole body of an answer.
    func body(of response: HTTPClientResponse, limit: Int) async throws -> [UInt8] {
        var bytes = [UInt8](), digest = BodyDigest()
        if let length = response.headers.first(name: "content-length").flatMap({ Int($0) }), length <= limit {
            bytes.reserveCapacity(length)
        }
        try await parts(of: response) { part in
            guard bytes.count + part.readableBytes <= limit else {
                throw UbiquityError(.tooLarge, "the cloud's answer is too long", at: address.description)
            }
            part.withUnsafeReadableBytes { raw in
                digest.add(raw)
                bytes.append(contentsOf: raw)
            }
        }
        try check(response, digest)
        return bytes
    }

    /// Verifies the digest of a body. An older cloud sends none. A cloud that sends digests announces that in a field
    /// of its own, so that a proxy cannot remove them unnoticed.
    /// - Throws: `DamagedOnTheWay` if the digest is wrong or missing.
    private func check(_ response: HTTPClientResponse, _ digest: BodyDigest) throws {
        guard response.status != .noContent else { return }
        let told = response.headers.first(name: MessageDigest.contentField)
        switch told.flatMap({ MessageDigest.matches($0, digest.field()) }) {
        case true: noteProof()
        case false: throw DamagedOnTheWay(reason: "the cloud's answer was damaged, its digest is wrong")
        case nil:
            guard requiresDigest(response) else { return }
            throw DamagedOnTheWay(reason: "the cloud's answer came without its digest", remedy: Self.missingDigest)
        }
    }

    private static let missingDigest = "a proxy between this device and the cloud probably removes the fields "
        + "\(MessageDigest.contentField) and \(MessageDigest.supportField): let it keep them, or use https without it; "
        + "if an older cloud has taken this one's place, sign in again"

    private func noteProof() {
        let isFirst = hasProof.withLock { hasProof in
            defer { hasProof = true }
            return !hasProof
        }
        if isFirst, !proof.isKnown { proof.remember() }
    }

    /// Whether the body of the answer must have a digest.
    func requiresDigest(_ response: HTTPClientResponse) -> Bool {
        Self.announcesDigests(response) || proof.isKnown || hasProof.withLock { $0 }
    }

    static func announcesDigests(_ response: HTTPClientResponse) -> Bool {
        response.headers.contains(name: MessageDigest.supportField)
    }

    /// Repeats a request that was damaged in transit, at once and then after growing pauses.
    /// - Parameter code: the code of the error if it is damaged each time.
    func repeating<R>(
        within limit: TimeAmount, else code: UbiquityError.Code = .offline, _ body: () async throws -> R
    ) async throws -> R {
        let deadline = NIODeadline.now() + limit
        var attempts = 0, pause = ClientLimits.firstDamagedPause
        while true {
            do { return try await body() } catch let damage as DamagedOnTheWay {
                attempts += 1
                guard attempts < ClientLimits.damagedAttempts, NIODeadline.now() < deadline else {
                    throw damage.error(code, attempts, at: address.description)
                }
            }
            try Task.checkCancellation()
            guard attempts > 1 else { continue }
            let share = Double(SystemRandom().next() >> 11) / Double(UInt64(1) << 53)
            try await Sleepers.shared.sleep(for: pause / 2 + pause / 2 * share)
            pause = min(pause * 2, ClientLimits.longestDamagedPause)
        }
    }

    /// Passes each piece of the answer's body to `take` as it arrives.
    func parts(
        of response: HTTPClientResponse, _ take: (ByteBuffer) async throws -> Void
    ) async throws {
        var iterator = response.body.makeAsyncIterator()
        while let part = try await next(&iterator) {
            traffic.addReceived(part.readableBytes)
            try await take(part)
        }
        // The body of a cancelled task just ends.
        try Task.checkCancellation()
    }

    private func next(_ iterator: inout HTTPClientResponse.Body.AsyncIterator) async throws -> ByteBuffer? {
        do {
            return try await iterator.next()
        } catch {
            throw ClientFailure.error(error, at: address)
        }
    }

    // MARK: Requests

    private func request(
        _ method: HTTPMethod, _ path: String, _ content: Content?, _ accept: String
    ) throws(UbiquityError) -> HTTPClientRequest {
        var request = HTTPClientRequest(url: try base() + path)
        request.method = method
        request.headers = headers.withLock { $0 }
        request.headers.add(name: "accept", value: accept)
        if let content {
            request.headers.add(name: "content-type", value: content.mediaType)
            request.body = content.body()
        }
        if let digest = content.map(\.digest) ?? Self.emptyDigest {
            request.headers.add(name: MessageDigest.contentField, value: digest)
        }
        let fields = request.headers
        request.headers.add(
            name: MessageDigest.requestField,
            value: MessageDigest.ofRequest(method.rawValue, path) { fields.first(name: $0) })
        return request
    }

    /// The digest of a request without a body.
    private static let emptyDigest: String? = MessageDigest.field(of: [])

    private func base() throws(UbiquityError) -> String {
        switch address {
        case .web(let url, _): url
        case .unixSocket: "http+unix://" + PercentEncoding.encode(try socket?.usable() ?? "")
        }
    }

    // MARK: Failures

    private func mapped(_ body: () async throws -> HTTPClientResponse) async throws -> HTTPClientResponse {
        do {
            return try await body()
        } catch {
            if error is HTTPParserError, hasProof.withLock({ $0 }) {
                throw DamagedOnTheWay(reason: "the head of the cloud's answer was damaged (\(error))")
            }
            let error = ClientFailure.error(error, at: address)
            // A folder that was created anew at the same path needs a new descriptor.
            if (error as? UbiquityError)?.code == .offline { socket?.forget() }
            throw error
        }
    }

    private func failure(_ response: HTTPClientResponse) async throws -> any Error {
        let format = response.headers.first(name: "content-type").flatMap(WireFormat.init(mediaType:))
        let status = Int(response.status.code)
        let bytes: [UInt8]
        do { bytes = try await body(of: response, limit: ClientLimits.failureLength) } catch let damage
            as DamagedOnTheWay
        {
            // A proxy or the cloud's parser answers a damaged head with a 4xx status and no digest.
            if Self.announcesDigests(response) || (400..<500).contains(status) { throw damage }
            return WireFailure(status: status, body: [], as: nil).thrown
        }
        if response.headers.contains(name: MessageDigest.refusalField) {
            throw DamagedOnTheWay(reason: "the request was damaged")
        }
        var failure = WireFailure(status: status, body: bytes, as: format)
        guard failure.error.place.isEmpty else { return failure.thrown }
        failure.error = UbiquityError(
            failure.error.code, failure.error.message, at: address.description, remedy: failure.error.remedy)
        return failure.thrown
    }
}
