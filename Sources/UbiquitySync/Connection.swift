package import UbiquityCore
internal import UbiquitySystem

/// The state of this device's connection to the cloud.
package struct ConnectionStatus: Sendable, Hashable {
    package enum Phase: String, Sendable, Hashable {
        case connecting
        case online
        /// The last attempt failed. The engine retries by itself.
        case offline
        /// Offline on request (`ubiquity offline`).
        case paused
        case signedOut
    }

    package var phase: Phase
    /// Why the phase is not `online`.
    package var reason: String
    package var lastContact: Timestamp?
    package var usedBytes: Int64?
    package var quotaBytes: Int64?
}

/// The connection's state, shared by the loops of the engine.
package final class Connection: Sendable {
    private struct State {
        var status = ConnectionStatus(phase: .connecting, reason: "not yet tried")
        var backoff = Backoff()
        var isPaused = false
        /// Whether the user has signed out. Then the phase stays.
        var isSignedOut = false
        /// When the cloud last answered, in uptime of the machine.
        var heardAt: Duration?
        /// Why this program may only read from the cloud.
        var writeRefusal: UbiquityError?
        /// Whether the usage of the account may have changed since it was last asked for.
        var isUsageOutdated = false
    }

    private let state = Lock(State())
    private let random: any RandomSource
    private let timekeeper: any Timekeeper
    /// Fires when the phase changes or an immediate attempt is wanted. Several loops wait for it.
    let changed = Broadcast()

    init(timekeeper: any Timekeeper, random: any RandomSource) {
        self.timekeeper = timekeeper
        self.random = random
    }

    package var status: ConnectionStatus { state.withLock { $0.status } }
    package var isPaused: Bool { state.withLock { $0.isPaused } }
    /// Whether a request may succeed: the cloud has answered within the network limit, or the device is connecting.
    var mayBeThere: Bool {
        let now = timekeeper.uptime()
        return state.withLock { state in
            switch state.status.phase {
            case .online, .connecting: true
            case .paused, .signedOut: false
            case .offline: state.heardAt.map { now - $0 < SyncLimits.networkLimit } ?? false
            }
        }
    }

    package var isOnline: Bool { state.withLock { $0.status.phase == .online } }

    /// - Throws: `.offline` if the mount is offline on request.
    func requireAllowed() throws {
        if isPaused { throw Self.pause }
    }

    /// Records whether this program may write to the cloud.
    func allowWrites(refusal: UbiquityError?) { state.withLock { $0.writeRefusal = refusal } }

    /// Why this program may only read from the cloud; nil if it may write.
    package var writeRefusal: UbiquityError? { state.withLock { $0.writeRefusal } }

    /// Throws `.offline` if this program may only read from the cloud: the changes wait for a newer program.
    func requireWritable() throws {
        guard let refusal = writeRefusal else { return }
        throw UbiquityError(.offline, "changes are not uploaded: \(refusal.message)", remedy: refusal.remedy)
    }

    static let pause = UbiquityError(
        .offline, "this mount is offline on request", remedy: "ubiquity online MOUNTPOINT")

    /// Why no request is sent to the cloud now, or nil if requests are sent.
    package var absence: UbiquityError? {
        let status = status
        switch status.phase {
        case .online, .connecting: return nil
        case .paused: return Self.pause
        case .offline:
            return UbiquityError(
                .offline, "the content is not here, and the cloud is unreachable: \(status.reason)",
                remedy: "it is downloaded as soon as the cloud is reachable")
        case .signedOut:
            return UbiquityError(
                .signedOut, "the content is not here, and this device is signed out: \(status.reason)",
                remedy: "the cloud has it; sign in: ubiquity login")
        }
    }

    /// The user has signed out, or nobody is signed in: no request is sent any more.
    func signOut(_ reason: String) {
        state.withLock {
            $0.isSignedOut = true
            $0.status.phase = .signedOut
            $0.status.reason = reason
        }
        changed.fire()
    }

    func setPaused(_ paused: Bool) {
        state.withLock {
            guard !$0.isSignedOut else { return }
            $0.isPaused = paused
            $0.backoff.reset()
            $0.status.phase = paused ? .paused : .connecting
            $0.status.reason = paused ? "offline on request" : "connecting"
        }
        changed.fire()
    }

    /// Records a successful operation at the cloud.
    func succeeded() {
        answered()
        state.withLock { state in
            state.isUsageOutdated = true
            if !state.isPaused { state.backoff.reset() }
        }
    }

    /// Records that the cloud answers. Whether its operations succeed is not known yet: if they fail, the backoff
    /// continues to grow.
    func answered(usage: (used: Int64, quota: Int64)? = nil) {
        let now = timekeeper.now(), uptime = timekeeper.uptime()
        state.withLock {
            $0.heardAt = uptime
            guard !$0.isPaused, !$0.isSignedOut else { return }
            $0.status.phase = .online
            $0.status.reason = ""
            $0.status.lastContact = now
            if let usage { ($0.status.usedBytes, $0.status.quotaBytes) = (usage.used, usage.quota) }
        }
    }

    /// Whether to ask for the usage of the account, because it may have changed. Reading it resets it.
    package var isUsageOutdated: Bool {
        state.withLock { state in
            guard state.status.phase == .online, state.isUsageOutdated else { return false }
            state.isUsageOutdated = false
            return true
        }
    }

    package func noteUsage(used: Int64, quota: Int64) {
        state.withLock { ($0.status.usedBytes, $0.status.quotaBytes) = (used, quota) }
    }

    /// Records a failure of the connection.
    /// - Returns: how long to wait before the next attempt.
    func failed(_ error: UbiquityError) -> Duration {
        state.withLock {
            if !$0.isPaused, !$0.isSignedOut {
                $0.status.phase = error.code == .signedOut ? .signedOut : .offline
                $0.status.reason = error.description
            }
            return $0.backoff.next(random)
        }
    }
}
