import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import NIOPosix
internal import UbiquityCore
internal import UbiquitySystem
internal import UbiquityWire

/// HTTP requests to one cloud: connections, times, headers, failures. What the requests mean is `CloudClient`'s.
final class Transport: Sendable {
    /// What a request takes, by which its connection and its times are chosen.
    enum Load: Sendable {
        /// Little, and it is answered soon.
        case call
        /// Little, and its answer may take a while.
        case commit
        /// Much, so that a slow line needs its time.
        case upload
    }

    /// What a request carries. Made anew for a repeat.
    struct Content: Sendable {
        let mediaType: String
        let length: Int
        /// `Content-Digest`; nil for chunks, which are proven by their ids.
        let digest: String?
        let body: @Sendable () -> HTTPClientRequest.Body
    }

    let address: CloudAddress
    let traffic = TrafficCounter()
    /// Apart from each other, so that no transfer keeps a call waiting for a connection.
    private let calls: HTTPClient
    private let downloads: HTTPClient
    private let uploads: HTTPClient
    private let commits: HTTPClient
    private let streams: HTTPClient
    private let headers: HTTPHeaders
    private let socket: SocketName?
    private let isShutDown = Lock(false)
    /// The cloud has proven an answer by a digest: from now on it must prove them all.
    private let hasProof = Lock(false)

    init(address: CloudAddress, headers: HTTPHeaders) throws(UbiquityError) {
        self.address = address
        self.headers = headers
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

    deinit {
        // AsyncHTTPClient ends the process if a client goes without its shutdown.
        guard !isShutDown.withLock({ $0 }) else { return }
        Task { [calls, downloads, uploads, commits, streams] in
            await Self.shutDown(calls, downloads, uploads, commits, streams)
        }
    }

    /// Ends all requests and connections. The second time does nothing.
    func shutdown() async {
        let isFirst = isShutDown.withLock { isShutDown in
            defer { isShutDown = true }
            return !isShutDown
        }
        if isFirst { await Self.shutDown(calls, downloads, uploads, commits, streams) }
    }

    private static func shutDown(_ clients: HTTPClient...) async {
        // It fails only if it was shut down before: nothing is open then.
        for client in clients { try? await client.shutdown() }
    }

    /// Sends a request; the answer's head is here when it returns.
    /// - Parameters:
    ///   - answersWithBody: whether a success says something.
    ///   - load: what it carries, or what the cloud has to do for it.
    ///   - answer: how long its head may take.
    /// - Throws: `UbiquityError` for no answer, and what the cloud says if it is not a success.
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
                .offline, "what answers is not the cloud itself (a page of its own)", at: address.description)
        }
        return response
    }

    /// Where as many wait to be taken up as a Unix socket lets wait, connect(2) says EAGAIN, and nothing has been sent.
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

    /// Whether a success is what was asked for: a captive portal answers everything with a page.
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

    /// The answer's whole body.
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

    /// Throws `DamagedOnTheWay` unless the body is what its digest says. An older cloud sends none; one that sends
    /// them says so in a field of its own, so that nothing in between can take them away unseen.
    private func check(_ response: HTTPClientResponse, _ digest: BodyDigest) throws {
        guard response.status != .noContent else { return }
        guard let told = response.headers.first(name: MessageDigest.contentField) else {
            guard Self.announcesDigests(response) || hasProof.withLock({ $0 }) else { return }
            throw DamagedOnTheWay(reason: "the cloud's answer came without its digest")
        }
        guard MessageDigest.matches(told, digest.field()) != false else {
            throw DamagedOnTheWay(reason: "the cloud's answer was damaged, its digest is wrong")
        }
        hasProof.withLock { $0 = true }
    }

    static func announcesDigests(_ response: HTTPClientResponse) -> Bool {
        response.headers.contains(name: MessageDigest.supportField)
    }

    /// Sends again what was damaged on its way, at once and then after longer and longer pauses.
    /// - Parameter code: of the error if it is damaged each time.
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

    /// Each piece of the answer's body as it arrives.
    func parts(
        of response: HTTPClientResponse, _ take: (ByteBuffer) async throws -> Void
    ) async throws {
        var iterator = response.body.makeAsyncIterator()
        while let part = try await next(&iterator) {
            traffic.addReceived(part.readableBytes)
            try await take(part)
        }
        // A cancelled task's body just ends.
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
        request.headers = headers
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
            // A folder that was made anew at the same path needs a new descriptor.
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
            // A proxy or the cloud's parser answers a damaged head with a 4xx that has no digest.
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
