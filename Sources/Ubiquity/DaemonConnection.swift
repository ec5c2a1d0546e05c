import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// A connection to the control socket of one mount's daemon, with a method per request.
///
/// Calls throw `MountUnreachable` if the daemon does not answer, and `UbiquityError` if it answers with an error. Call
/// `close` at the end.
package final class DaemonConnection: Sendable {
    /// Time limit for connecting (seconds). A running daemon accepts at once; a dead daemon's socket refuses.
    static let connectTimeout: Int64 = 5
    /// Pause before the next attempt when the socket's accept queue is full.
    private static let queuePause: Duration = .milliseconds(20)
    /// Attempts while the accept queue is full. The pauses add up to the connect timeout; counting turns gives a
    /// starved process its full share.
    private static let queueTurns = 250
    /// Time limit for an answer that waits for nothing (seconds). A daemon that takes longer hangs.
    static let answerTimeout: Int64 = 10
    /// Seconds that a wait may exceed its own limit. Before a wait ends, watching programs get the pending news.
    private static let waitGrace = 30.0
    /// Seconds. A deadline can represent this many (about three years).
    private static let longestTimeout = 1e8
    /// Maximum bytes of a one-message answer.
    static let maximumAnswerLength = 64 * 1024 * 1024
    /// Maximum connections at one time. Each waiting claim has one.
    private static let maximumConnections = 100_000

    /// The name of this program's app, if the environment has one. The configuration may restrict it to some
    /// containers.
    private static let app = ProcessHost.variable("UBIQUITY_APP").flatMap { name in
        name.utf8.allSatisfy { (0x21...0x7E).contains($0) } && !name.isEmpty ? name : nil
    }

    private static let isSilent = "its daemon does not answer, though it runs"

    /// The container's state folder, which contains the socket.
    package let stateFolder: String
    private let client: HTTPClient
    /// Keeps the socket's address valid. The client connects through it whenever it needs a connection.
    private let address: SocketAddressPath

    /// Opens the state folder. The first call connects the socket.
    ///
    /// - Throws: `MountUnreachable` if the folder belongs to another user or cannot be opened.
    package init(stateFolder: String) throws(MountUnreachable) {
        self.stateFolder = stateFolder
        if let refusal = DaemonOwner.refusal(stateFolder: stateFolder) { throw MountUnreachable(stateFolder, refusal) }
        do {
            address = try SocketAddressPath(stateFolder + "/" + ControlRoute.socketName)
        } catch {
            throw MountUnreachable(stateFolder, "its state folder cannot be opened")
        }
        var configuration = HTTPClient.Configuration()
        configuration.timeout = .init(connect: .seconds(Self.connectTimeout))
        configuration.connectionPool.retryConnectionEstablishment = false
        // With the default limit of eight, a ninth call would wait for one of the others and fail.
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = Self.maximumConnections
        configuration.http1_1ConnectionDebugInitializer = { channel in Self.requireOwnDaemon(channel) }
        client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }

    /// Checks the daemon's user before the first byte is sent.
    private static func requireOwnDaemon(_ channel: any Channel) -> EventLoopFuture<Void> {
        guard let socket = channel as? any SocketOptionProvider else {
            return channel.eventLoop.makeFailedFuture(ForeignDaemon(reason: "the user of its daemon is not known"))
        }
        let peer: EventLoopFuture<SocketPeer> = socket.unsafeGetSocketOption(
            level: .socket, name: NIOBSDSocket.Option(rawValue: SocketPeer.option))
        return peer.flatMapThrowing { peer in
            if let refusal = DaemonOwner.refusal(of: peer) { throw ForeignDaemon(reason: refusal) }
        }
    }

    package func close() async {
        // Fails only if it was closed before.
        try? await client.shutdown()
    }

    // MARK: Calls

    /// Checks that the daemon answers, before a request that may itself take long.
    ///
    /// - Throws: `MountUnreachable` if the daemon hangs or is stopped.
    package func requireAnswer() async throws {
        let deadline = NIODeadline.now() + .seconds(Self.answerTimeout)
        // The request needs no route of its own: any answer will do.
        _ = try await connected { try await send(request("/", .OPTIONS), until: deadline) }
    }

    package func status() async throws -> MountStatus {
        try await answer(to: request(ControlRoute.status, .GET), within: Self.answerTimeout)
    }

    /// Performs an action on each path and passes each result to `each` as soon as it is known.
    ///
    /// - Parameter route: One of download, evict, pin and unpin.
    package func act(
        _ route: String, on paths: [String], each: (ItemResult) async throws -> Void
    ) async throws {
        try await lines(of: request(route, .POST, PathsRequest(paths: paths))) { line in
            try await each(ControlCodec.decode(ItemResult.self, from: line))
        }
    }

    /// Evicts items and passes each result to `each` as soon as it is known.
    package func evict(_ wanted: EvictRequest, each: (ItemResult) async throws -> Void) async throws {
        try await lines(of: request(ControlRoute.evict, .POST, wanted)) { line in
            try await each(ControlCodec.decode(ItemResult.self, from: line))
        }
    }

    package func itemStatus(of paths: [String], each: (ItemStatusLine) async throws -> Void) async throws {
        try await lines(of: request(ControlRoute.itemStatus, .POST, PathsRequest(paths: paths))) { line in
            try await each(ControlCodec.decode(ItemStatusLine.self, from: line))
        }
    }

    /// Sends one message and returns the answer.
    ///
    /// - Parameter limit: Seconds for the whole call; nil for no limit.
    package func ask<Answer: Decodable>(
        _ route: String, _ message: some Encodable, for type: Answer.Type = Answer.self, within limit: Int64? = nil
    ) async throws -> Answer {
        try await answer(to: request(route, .POST, message), within: limit)
    }

    package func setOffline(_ offline: Bool) async throws {
        let route = offline ? ControlRoute.offline : ControlRoute.online
        let _: Acknowledgement = try await answer(to: request(route, .POST))
    }

    /// Waits as requested, with a time limit of its own: a daemon stopped by a signal cannot report that the wait timed
    /// out.
    package func wait(_ wanted: WaitRequest) async throws -> WaitReport {
        guard let timeout = wanted.timeout else { return try await waitWithoutLimit(wanted) }
        return try await withThrowingTaskGroup(of: WaitReport?.self) { group in
            group.addTask { try await self.waitWithoutLimit(wanted) }
            group.addTask {
                try await Task.sleep(for: .seconds(min(timeout, Self.longestTimeout) + Self.waitGrace))
                return nil
            }
            defer { group.cancelAll() }
            guard let report = try await group.next() ?? nil else { throw MountUnreachable(stateFolder, Self.isSilent) }
            return report
        }
    }

    private func waitWithoutLimit(_ wanted: WaitRequest) async throws -> WaitReport {
        var report: WaitReport?
        try await lines(of: request(ControlRoute.wait, .POST, wanted)) { line in
            report = try ControlCodec.decode(WaitReport.self, from: line)
        }
        guard let report else { throw MountUnreachable(stateFolder, "its daemon ended during the wait") }
        if let failure = report.failure { throw failure.error }
        return report
    }

    package func stop(_ wanted: StopRequest) async throws -> StopReport {
        // A lazy stop does not wait for the mount to become idle.
        try await answer(to: request(ControlRoute.stop, .POST, wanted), within: wanted.lazy ? Self.answerTimeout : nil)
    }

    /// Passes events to `each` as they happen; the first (`.listening`) comes at once. Returns when the daemon ends;
    /// throws what `each` throws.
    package func events(each: (ControlEvent) async throws -> Void) async throws {
        try await stream(request(ControlRoute.events, .GET), each: each)
    }

    /// Passes a query's results to `each`, and for a live query its changes. Returns when the daemon ends; throws what
    /// `each` throws.
    package func query(_ wanted: QueryRequest, each: (QueryNews) async throws -> Void) async throws {
        try await stream(request(ControlRoute.queries, .POST, wanted), each: each)
    }

    /// Reads the messages of a server-sent event stream.
    private func stream<Message: Decodable>(
        _ request: HTTPClientRequest, each: (Message) async throws -> Void
    ) async throws {
        var hasBegun = false
        do {
            try await lines(of: request) { line in
                // "data: …" is a message, an empty line ends it, and ":" starts a keep-alive comment.
                let mark = Array("data: ".utf8)
                guard line.starts(with: mark) else { return }
                hasBegun = true
                try await each(ControlCodec.decode(Message.self, from: line.dropFirst(mark.count)))
            }
        } catch is MountUnreachable where hasBegun {
            // A daemon that ends closes its socket. It may or may not send the stream's final chunk before.
            return
        }
    }

    // MARK: Key-values

    package func keyValues(in store: String) async throws -> KeyValueList {
        try await answer(to: request(Self.route(store), .GET))
    }

    /// Exchanges key-values with the cloud, and returns the store's.
    package func synchronizeKeyValues(in store: String) async throws -> KeyValueList {
        try await answer(to: request(Self.route(store), .POST))
    }

    package func keyValue(_ key: String, in store: String) async throws -> KeyValueReport {
        try await answer(to: request(Self.route(store, key), .GET))
    }

    /// Returns when the set is on the disk.
    package func setKeyValue(_ key: String, in store: String, to value: PropertyValue) async throws -> KeyValueReport {
        try await answer(
            to: request(Self.route(store, key), .PUT, KeyValueWrite(value: KeyValueContent(value))))
    }

    package func removeKeyValue(_ key: String, in store: String) async throws -> KeyValueReport {
        try await answer(to: request(Self.route(store, key), .DELETE))
    }

    private static func route(_ store: String, _ key: String? = nil) -> String {
        let route = (key == nil ? ControlRoute.keyValues : ControlRoute.keyValue)
            .replacing("{store}", with: PercentEncoding.encode(store))
        return key.map { route.replacing("{key}", with: PercentEncoding.encode($0)) } ?? route
    }

    // MARK: Coordination

    /// Registers a client and passes its messages to `each`. Returns when the daemon ends; throws what `each` throws.
    func takePart(_ registration: ClientRegistration, each: (ClientNews) async throws -> Void) async throws {
        try await stream(request(ControlRoute.clients, .POST, registration), each: each)
    }

    /// Waits until a claim is granted. Cancelling the task withdraws the request.
    func claim(_ wanted: ClaimMessage) async throws -> ClaimReport {
        var report: ClaimReport?
        try await lines(of: request(ControlRoute.claims, .POST, wanted)) { line in
            report = try ControlCodec.decode(ClaimReport.self, from: line)
        }
        guard let report else { throw MountUnreachable(stateFolder, "its daemon ended during the wait") }
        if let failure = report.failure { throw failure.error }
        return report
    }

    // MARK: HTTP

    private func request(_ route: String, _ method: HTTPMethod) -> HTTPClientRequest {
        var request = HTTPClientRequest(url: "http+unix://" + Self.escaped(address.usable) + route)
        request.method = method
        // One connection per request: a wait or a stream ends with its connection, and a command makes only one or two
        // requests.
        request.headers.add(name: "connection", value: "close")
        if let app = Self.app { request.headers.add(name: ControlRoute.appHeader, value: app) }
        return request
    }

    private func request(_ route: String, _ method: HTTPMethod, _ body: some Encodable) throws -> HTTPClientRequest {
        var request = request(route, method)
        request.headers.add(name: "content-type", value: "application/json")
        request.body = .bytes(ByteBuffer(bytes: try ControlCodec.encode(body)))
        return request
    }

    /// - Parameter limit: Seconds for the whole call; nil for no limit.
    private func answer<Message: Decodable>(
        to request: HTTPClientRequest, within limit: Int64? = nil
    ) async throws -> Message {
        let deadline = limit.map { NIODeadline.now() + .seconds($0) }
        let response = try await execute(request, until: deadline ?? .distantFuture)
        let body = try await connected { try await response.body.collect(upTo: Self.maximumAnswerLength) }
        return try ControlCodec.decode(Message.self, from: body.readableBytesView)
    }

    private func lines(of request: HTTPClientRequest, each: ([UInt8]) async throws -> Void) async throws {
        let response = try await execute(request)
        var splitter = LineSplitter()
        var parts = response.body.makeAsyncIterator()
        while let part = try await connected({ try await parts.next() }) {
            for line in try splitter.lines(adding: part.readableBytesView) where !line.isEmpty { try await each(line) }
        }
    }

    /// Returns a successful response; throws the `UbiquityError` in any other.
    private func execute(
        _ request: HTTPClientRequest, until deadline: NIODeadline = .distantFuture
    ) async throws -> HTTPClientResponse {
        let response = try await connected { try await send(request, until: deadline) }
        guard response.status == .ok else {
            let body = try await connected { try await response.body.collect(upTo: Self.maximumAnswerLength) }
            guard let failure = try? ControlCodec.decode(ControlFailure.self, from: body.readableBytesView) else {
                throw UbiquityError(.invalid, "the mount's daemon answered \(response.status)", at: stateFolder)
            }
            throw failure.error
        }
        return response
    }

    /// When the accept queue is full, connect(2) fails with EAGAIN instead of waiting. Nothing has been sent then, so a
    /// retry is safe.
    private func send(_ request: HTTPClientRequest, until deadline: NIODeadline) async throws -> HTTPClientResponse {
        for _ in 0..<Self.queueTurns {
            do {
                return try await client.execute(request, deadline: deadline)
            } catch let error as IOError where Errno(rawValue: error.errnoCode) == .EAGAIN {
                try await Task.sleep(for: Self.queuePause)
            }
        }
        throw HTTPClientError.connectTimeout
    }

    /// Runs `work` on the connection and converts its failures to the errors callers expect.
    private func connected<Value>(_ work: () async throws -> Value) async throws -> Value {
        do {
            return try await work()
        } catch let error as CancellationError {
            throw error
        } catch let error as HTTPClientError where error == .cancelled {
            throw CancellationError()
        } catch let error as HTTPClientError where error == .deadlineExceeded || error == .connectTimeout {
            throw MountUnreachable(stateFolder, Self.isSilent)
        } catch let error as ForeignDaemon {
            throw MountUnreachable(stateFolder, error.reason)
        } catch {
            // The client's own connection errors are long and have only two meanings: the daemon broke off, or it has
            // ended.
            let socket = stateFolder + "/" + ControlRoute.socketName
            if LocalSocket.isListening(socket) {
                throw MountUnreachable(stateFolder, "its daemon closed the connection: \(error)")
            }
            let refusal = DaemonOwner.refusal(stateFolder: stateFolder)
            throw MountUnreachable(stateFolder, refusal ?? "its daemon has ended; mount it again")
        }
    }

    /// Percent-encodes the socket's path for the host part of a URL, where AsyncHTTPClient expects it.
    static func escaped(_ path: String) -> String {
        var result = ""
        for byte in path.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."):
                result.unicodeScalars.append(Unicode.Scalar(byte))
            default:
                result += "%" + Hex.encode([byte])
            }
        }
        return result
    }
}
