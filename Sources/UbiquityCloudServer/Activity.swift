internal import UbiquitySystem

/// Counts the active requests of a server, and decides whether it ends.
///
/// A request counts from its first line to the end of its answer, an event stream as long as it is open. One lock
/// decides between an idle end and a new request: the first to take it wins. A request that comes second gets the
/// answer that the server is ending; a client may repeat it elsewhere or later.
final class Activity: Sendable {
    private struct State {
        var active = 0
        var idleSince = ContinuousClock.now
        var isStopping = false
        var nextToken = 0
        var stoppers: [Int: @Sendable () -> Void] = [:]
    }

    private let state = Lock(State())

    var isStopping: Bool { state.withLock { $0.isStopping } }
    var isIdle: Bool { state.withLock { $0.active == 0 } }

    func begin() { state.withLock { $0.active += 1 } }

    func end() {
        state.withLock { state in
            state.active -= 1
            if state.active == 0 { state.idleSince = .now }
        }
    }

    /// Announces the end of the server to all stoppers, once, however often it is called.
    func stop() {
        let stoppers = state.withLock { state -> [@Sendable () -> Void] in
            state.isStopping = true
            defer { state.stoppers = [:] }
            return Array(state.stoppers.values)
        }
        for stopper in stoppers { stopper() }
    }

    /// Stops if there was no activity for `limit`; else returns the shortest time until that.
    func stopIfIdle(for limit: Duration) -> Duration? {
        let remaining = state.withLock { state -> Duration? in
            guard state.active == 0 else { return limit }
            let idle = state.idleSince.duration(to: .now)
            guard idle >= limit else { return limit - idle }
            state.isStopping = true
            return nil
        }
        if remaining == nil { stop() }
        return remaining
    }

    /// Calls `action` when the server ends, or at once if it is ending already. Pass the result to `forget`.
    func onStop(_ action: @escaping @Sendable () -> Void) -> Int {
        let token = state.withLock { state -> Int? in
            guard !state.isStopping else { return nil }
            state.nextToken += 1
            state.stoppers[state.nextToken] = action
            return state.nextToken
        }
        guard let token else {
            action()
            return 0
        }
        return token
    }

    func forget(_ token: Int) { state.withLock { $0.stoppers[token] = nil } }
}
