import Hummingbird
import HummingbirdCore
import Logging
import NIOCore
import UbiquityCloudServer
import UbiquityControl
import UbiquityCoordination
import UbiquityCore
import UbiquitySystem

/// The local socket: HTTP for this user's programs, on a Unix socket in the state folder, mode 0600.
final class ControlServer: Sendable {
    /// Limit for requests in progress when the mount ends.
    private static let endLimit: Duration = .seconds(2)
    /// Interval of heartbeats in a silent event stream.
    private static let heartbeat: Duration = .seconds(5)
    /// The same for streams of coordination clients.
    private static let clientHeartbeat: Duration = .seconds(1)

    private let path: String
    private let host: ControlHost
    private let logger: Logger
    private let serving = Lock<Task<Void, any Error>?>(nil)

    /// - Parameter path: of the socket. The caller holds the state folder's lock, so an existing socket is stale.
    init(path: String, host: ControlHost, logger: Logger) {
        self.path = path
        self.host = host
        self.logger = logger
    }

    /// Starts the server; returns when it listens.
    func start() async throws {
        try describing("clear the control socket", at: path) { () throws(Errno) in
            do throws(Errno) { try FileSystem.unlink(path) } catch .ENOENT { return }
        }
        let address = try SocketAddressPath(path)
        let (ready, signal) = AsyncStream.makeStream(of: Void.self)
        var quiet = logger
        // The HTTP server logs the end of a connection as an error. Failures of a request are in its answer.
        quiet.logLevel = .critical
        let arrivals = Arrivals()
        let application = Application(
            responder: host,
            server: HTTPServerBuilder { KeptChannel(OwnUserChannel(HTTP1Channel(responder: $0)), arrivals) },
            configuration: ApplicationConfiguration(address: .unixDomainSocket(path: address.usable)),
            onServerRunning: { _ in signal.yield() }, logger: quiet)
        let task = Task { [host] in
            defer { signal.finish() }
            // A client that has gone keeps others waiting until a write reveals it.
            let clientBeat = Task {
                while true {
                    try await Sleepers.shared.sleep(for: Self.clientHeartbeat)
                    host.commands.parts.coordination.beat()
                }
            }
            defer { clientBeat.cancel() }
            let beat = Task {
                while true {
                    try await Sleepers.shared.sleep(for: Self.heartbeat)
                    host.commands.events.beat()
                    host.commands.queries.beat()
                }
            }
            defer { beat.cancel() }
            defer { arrivals.end() }
            try await application.run()
            withExtendedLifetime(address) {}
        }
        serving.withLock { $0 = task }
        for await _ in ready {
            try describing("protect the control socket", at: path) { () throws(Errno) in
                try FileSystem.setPermissions(path, 0o600)
            }
            return
        }
        // The stream ended without a signal: the server could not start. Its task has the reason.
        try await task.value
        throw UbiquityError(.io, "the control socket was closed", at: path)
    }

    /// Ends event streams and waits at once, completes answers in progress, then closes.
    func stop() async {
        host.commands.events.close()
        host.commands.queries.close()
        host.commands.parts.coordination.close()
        await host.activity.waitUntilIdle(atMost: Self.endLimit)
        let task = serving.withLock { $0 }
        task?.cancel()
        // The task ends by cancellation; its result does not matter.
        _ = await task?.result
        // If the socket cannot be removed, the next server treats it as stale.
        try? FileSystem.unlink(path)
    }
}

/// Answers requests with the commands of the container that the mount serves now.
final class ControlHost: HTTPResponder, Sendable {
    typealias Context = BasicRequestContext

    private struct State {
        var routes: ControlRoutes
        var responder: RouterResponder<BasicRequestContext>

        init(_ routes: ControlRoutes) {
            self.routes = routes
            responder = routes.router().buildResponder()
        }
    }
    private let state: Lock<State>

    init(_ commands: MountCommands) { state = Lock(State(ControlRoutes(commands: commands))) }

    var commands: MountCommands { state.withLock { $0.routes.commands } }
    /// The requests in progress to the present container.
    var activity: ControlActivity { state.withLock { $0.routes.responder.activity } }

    /// From now on requests reach the commands of another container.
    func exchange(_ commands: MountCommands) {
        let next = State(ControlRoutes(commands: commands))
        state.withLock { $0 = next }
    }

    func respond(to request: Request, context: BasicRequestContext) async throws -> Response {
        try await state.withLock { $0.responder }.respond(to: request, context: context)
    }
}

/// Counts the requests in progress.
final class ControlActivity: Sendable {
    private let count = Lock(0)
    private static let pollInterval = Duration.milliseconds(2)

    func begin() { count.withLock { $0 += 1 } }
    func end() { count.withLock { $0 -= 1 } }

    func waitUntilIdle(atMost limit: Duration) async {
        let end = ContinuousClock.now + limit
        while count.withLock({ $0 > 0 }), ContinuousClock.now < end {
            // Only a cancelled task fails to sleep, and that one need not wait.
            do { try await Sleepers.shared.sleep(for: Self.pollInterval) } catch { return }
        }
    }
}
