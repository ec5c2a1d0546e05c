import Hummingbird
internal import HummingbirdCore
package import Logging
internal import UbiquityCore
internal import UbiquitySystem

/// A cloud over HTTP.
package final class CloudServer: Sendable {
    private let configuration: CloudServerConfiguration
    private let logger: Logger
    private let activity = Activity()
    private let counters = Counters()
    private let departures = Departures()
    private let rules: ConnectionRules
    private let addresses: AddressLimit
    private let access: CloudAccess
    /// Those of the running server.
    private let certificates = Lock<[ServerCertificate]>([])
    private let responder: RouterResponder<CloudContext>
    /// The method and path of every route, for example "GET /v1/accounts".
    let routes: [String]

    package convenience init(host: CloudHost, configuration: CloudServerConfiguration, logger: Logger) {
        var rules = ConnectionRules()
        if let limit = configuration.connectionsPerAddress { rules.connectionsPerAddress = limit }
        self.init(host: host, configuration: configuration, logger: logger, rules: rules)
    }

    init(host: CloudHost, configuration: CloudServerConfiguration, logger: Logger, rules: ConnectionRules) {
        self.configuration = configuration
        self.logger = logger
        self.rules = rules
        addresses = AddressLimit(rules)
        access = CloudAccess(
            host: host, counters: counters,
            failures: FailedSignIns(free: rules.freeSignInFailures, uptime: rules.uptime))
        let router = Router(context: CloudContext.self)
        router.add(middleware: Failures(activity: activity, counters: counters))
        router.add(middleware: DigestCheck())
        ContainerRoutes(access: access, counters: counters).add(to: router)
        ChunkRoutes(access: access, departures: departures).add(to: router)
        let events = EventRoutes(
            access: access, activity: activity, counters: counters, departures: departures)
        events.add(to: router)
        KeyValueRoutes(access: access).add(to: router)
        AccountRoutes(access: access).add(to: router)
        TokenRoutes(access: access).add(to: router)
        SignInRoutes(access: access).add(to: router)
        PurgeRoutes(access: access).add(to: router)
        UsageRoutes(access: access).add(to: router)
        StatusRoutes(access: access, counters: counters).add(to: router)
        LinkRoutes(access: access).add(to: router)
        LinkPages(
            access: access, departures: departures,
            guesses: FailedSignIns(free: rules.freeSignInFailures, uptime: rules.uptime)
        ).add(to: router)
        let sessions = WebSessions(random: SystemRandom(), uptime: rules.uptime)
        WebRoutes(access: access, sessions: sessions, events: events).add(to: router)
        routes = router.routes.map { "\($0.method) \($0.path)" }
        responder = router.buildResponder()
    }

    /// Serves until `stop`, until the task is cancelled (which is the same) or, if configured, until it has been idle.
    /// Call it once.
    ///
    /// At the end: the server accepts no more connections, event streams end at once, and requests are answered within
    /// the configured limit.
    /// - Parameter onReady: called for each endpoint with its address (`http://…`, `https://…` or the socket's path),
    ///   when all of them listen.
    /// - Throws: `.inUse` if an address is taken, `.invalid` for unreadable certificates, and errors of the operating
    ///   system.
    package func run(onReady: @escaping @Sendable (String) -> Void) async throws {
        let service = Task { try await self.serve(onReady) }
        try await withTaskCancellationHandler {
            try await service.value
        } onCancel: {
            stop()
        }
    }

    var isEnding: Bool { activity.isStopping }
    var isIdle: Bool { activity.isIdle }
    var metrics: String { counters.text }
    var connectionCount: Int { addresses.count }
    var uploads: AccountBudget { access.uploads }

    /// Ends `run`. May be called at any time and more than once.
    package func stop() { activity.stop() }

    private func serve(_ onReady: @escaping @Sendable (String) -> Void) async throws {
        let (ready, readySource) = AsyncStream.makeStream(of: Result<String, any Error>.self)
        var listeners = [Listener]()
        defer { for listener in listeners { listener.retire() } }
        defer { certificates.withLock { $0 = [] } }
        for endpoint in configuration.endpoints {
            listeners.append(try Listener(endpoint, channel: channel(endpoint), logger: logger) {
                readySource.yield($0)
            })
        }
        certificates.withLock { $0 = listeners.compactMap(\.certificate) }
        try await serve(listeners, ready, onReady)
    }

    /// Reads the certificates again. A connection in progress keeps the one that it began with. A certificate that
    /// cannot be read is logged, and the present one stays.
    package func reloadCertificates() {
        for certificate in certificates.withLock({ $0 }) {
            do {
                try certificate.reload()
                logger.notice("read the certificate again")
            } catch {
                logger.error("the present certificate stays in use", metadata: ["reason": "\(error)"])
            }
        }
    }

    /// The outcome of one part of a running server.
    private enum Event {
        case listenerEnded, overdue, other
    }

    private func serve(
        _ listeners: [Listener], _ ready: AsyncStream<Result<String, any Error>>,
        _ onReady: @escaping @Sendable (String) -> Void
    ) async throws {
        try await withThrowingTaskGroup(of: Event.self) { group in
            for listener in listeners { group.addTask { try await self.run(listener) } }
            group.addTask {
                try await self.announce(ready, count: listeners.count, onReady)
                return await self.stopWhenIdle()
            }
            group.addTask { await self.endWhenStopped(listeners) }
            group.addTask { await self.watchEnding() }
            var open = listeners.count
            // A failure leaves the loop, and leaving the closure with it cancels all other tasks.
            while open > 0, let event = try await group.next() {
                if event == .listenerEnded { open -= 1 }
                if event == .overdue { group.cancelAll() }
            }
            group.cancelAll()
        }
    }

    private func run(_ listener: Listener) async throws -> Event {
        do {
            try await listener.run()
        } catch where activity.isStopping {
            logger.debug("a listener ended with \(error)")
        }
        return .listenerEnded
    }

    private func watchEnding() async -> Event {
        await untilStopped()
        guard (try? await Sleepers.shared.sleep(for: configuration.shutdownLimit)) != nil else { return .other }
        logger.warning("cancelling requests not answered within \(configuration.shutdownLimit)")
        return .overdue
    }

    /// The time counts from the moment at which clients can connect.
    private func stopWhenIdle() async -> Event {
        guard let limit = configuration.endsAfterIdle else { return .other }
        activity.begin()
        activity.end()
        while let remaining = activity.stopIfIdle(for: limit) {
            guard (try? await Sleepers.shared.sleep(for: remaining)) != nil else { return .other }
        }
        logger.info("ending: the cloud was unused for \(limit)")
        return .other
    }

    /// Returns at once when the task is cancelled.
    private func untilStopped() async {
        let (stopped, source) = AsyncStream.makeStream(of: Void.self)
        let token = activity.onStop { source.finish() }
        defer { activity.forget(token) }
        for await _ in stopped {}
    }

    private func endWhenStopped(_ listeners: [Listener]) async -> Event {
        await untilStopped()
        await withDiscardingTaskGroup { group in
            for listener in listeners { group.addTask { await listener.end() } }
        }
        return .other
    }

    private func announce(
        _ ready: AsyncStream<Result<String, any Error>>, count: Int, _ onReady: @Sendable (String) -> Void
    ) async throws {
        var addresses = [String]()
        for await result in ready {
            addresses.append(try result.get())
            if addresses.count == count { break }
        }
        if addresses.count == count { for address in addresses { onReady(address) } }
    }

    // MARK: Answers

    private func channel(_ endpoint: CloudServerConfiguration.Endpoint) -> CloudChannel {
        let isLocal = if case .unixSocket = endpoint { true } else { false }
        let isSecure = if case .tls = endpoint { true } else { false }
        let responder = responder
        let logger = logger
        return CloudChannel(
            activity: activity, counters: counters, departures: departures, rules: rules, addresses: addresses
        ) { request, writer, channel in
            let context = CloudContext(
                source: CloudContextSource(logger: logger, channel: channel, isLocal: isLocal, isSecure: isSecure))
            var response: Response
            do {
                response = try await responder.respond(to: request, context: context)
            } catch {
                response = Failures.response(to: request, for: error, logger: logger)
            }
            if request.method == .head { response = response.createHeadResponse() }
            try await writer.write(response: response.head, body: response.body)
        }
    }
}
