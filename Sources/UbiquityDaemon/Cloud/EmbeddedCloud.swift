import Logging
import UbiquityCore
import UbiquitySystem

/// The cloud on this machine that all devices of a user share: a process of its own, started by the first device that
/// needs it.
///
/// Several devices may start it at the same time. The data folder's lock lets one server run; the others end, and all
/// devices find the one at the socket. It ends by itself when it is unused.
final class EmbeddedCloud: Sendable {
    /// Limit from its start until it listens. It only has to open a database.
    private static let startLimit = Duration.seconds(15)
    private static let pollInterval = Duration.milliseconds(10)
    /// Pause after a server that ended at once, before the next start. It doubles each time, up to 1.6 s.
    private static let firstRest = Duration.milliseconds(100)
    private static let restDoublings = 4
    /// Pause after a failed start, before it is tried again; it doubles each time.
    static let firstPause = Duration.seconds(1)
    static let longestPause = Duration.seconds(60)

    private struct State {
        var running: Task<Bool, any Error>?
        var failures = 0
        var notBefore = Duration.zero
        var reason: UbiquityError?
    }

    let data: String
    private let state = Lock(State())
    private let pool: BlockingPool
    private let timekeeper: any Timekeeper
    private let logger: Logger

    init(data: String, pool: BlockingPool, timekeeper: any Timekeeper, logger: Logger) {
        self.data = data
        self.pool = pool
        self.timekeeper = timekeeper
        self.logger = logger
    }

    var socket: String { CloudFolder.socket(data) }

    /// Starts the cloud if it is not running. Concurrent callers wait for one attempt.
    /// - Returns: whether it was started: then a failed call is worth another try.
    func ensureRunning() async throws -> Bool {
        let attempt = state.withLock { state -> Task<Bool, any Error> in
            if let running = state.running { return running }
            let task = Task { try await self.attempt() }
            state.running = task
            return task
        }
        return try await attempt.value
    }

    /// Makes the next call start the cloud whatever failed before, because a user asked for it.
    func forgetFailures() {
        state.withLock { state in
            state.failures = 0
            state.notBefore = .zero
            state.reason = nil
        }
    }

    private func attempt() async throws -> Bool {
        defer { state.withLock { $0.running = nil } }
        let socket = socket
        if try await pool.run({ LocalSocket.isListening(socket) }) { return false }
        let now = timekeeper.uptime()
        if let reason = state.withLock({ $0.notBefore > now ? $0.reason : nil }) { throw reason }
        do {
            try await start()
            state.withLock { $0.failures = 0 }
            return true
        } catch let cause as UbiquityError {
            logger.error("cannot start the embedded cloud", metadata: ["error": "\(cause)"])
            // Whatever the cause, to all callers the cloud is unreachable: programs get that error, waits continue.
            let error = UbiquityError(
                .offline, "the embedded cloud cannot be started: \(cause.message)", at: cause.place,
                remedy: cause.remedy)
            state.withLock { state in
                let pause = min(Self.longestPause, Self.firstPause * (1 << min(state.failures, 10)))
                state.failures += 1
                state.notBefore = timekeeper.uptime() + pause
                state.reason = error
            }
            throw error
        }
    }

    /// Starts the server and waits until one listens: this one or another that was faster. A server that is just ending
    /// holds the data lock for a moment. A new one may then find the data locked and end; it is started again.
    private func start() async throws {
        let end = timekeeper.uptime() + Self.startLimit
        let data = data, socket = socket
        var process: Int32?, starts = 0
        while timekeeper.uptime() < end {
            let current = process
            let state = try await pool.run { () throws -> (isListening: Bool, process: Int32) in
                if LocalSocket.isListening(socket) { return (true, current ?? 0) }
                if let current, DetachedProcess.isRunning(current) { return (false, current) }
                return (false, try Self.spawn(data: data))
            }
            if state.isListening {
                if process != nil { logger.info("started the embedded cloud", metadata: ["data": "\(data)"]) }
                return
            }
            if process != state.process { starts += 1 }
            process = state.process
            // A server that ends at once would otherwise be started hundreds of times.
            let rest = starts > 1 ? Self.firstRest * (1 << min(starts - 2, Self.restDoublings)) : Self.pollInterval
            try await timekeeper.sleep(for: rest)
        }
        if try await pool.run({ LocalSocket.isListening(socket) }) { return }
        throw UbiquityError(
            .offline, "the embedded cloud does not start\(lastWord().map { ": \($0)" } ?? "")", at: data,
            remedy: "see \(CloudFolder.log(data))")
    }

    /// The last line of its log.
    private func lastWord() -> String? {
        guard let log = try? FileDescriptor.open(CloudFolder.log(data), .readOnly), let size = try? log.status().size,
            let end = try? log.read(count: Self.lastBytes, at: max(0, size - Int64(Self.lastBytes)))
        else { return nil }
        return String(decoding: end, as: UTF8.self).split(separator: "\n").last.map(String.init)
    }

    private static let lastBytes = 1000

    private static func spawn(data: String) throws(UbiquityError) -> Int32 {
        try describing("create the cloud's folder", at: data) { () throws(Errno) in
            try FileSystem.makeDirectories(data)
        }
        let log = try LogFile.open(CloudFolder.log(data))
        let arguments = ["ubiquity", "serve", "--embedded", "--data", data]
        return try describing("start the embedded cloud") { () throws(Errno) in
            try DetachedProcess.start(ProcessHost.executable, arguments, log: log)
        }
    }
}
