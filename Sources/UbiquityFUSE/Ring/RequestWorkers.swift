internal import UbiquitySystem

/// Threads that serve requests which may block. Started on demand, and kept.
final class RequestWorkers: Sendable {
    private static let maximumThreads = 16

    private struct State {
        /// Not more than the dispatchers have entries.
        var waiting: [(RingEntry, Dispatcher)] = []
        var idle = 0
        var threads = 0
        var isEnding = false
    }
    private let state = Monitor(State())
    private let work: RingWork

    init(_ work: RingWork) { self.work = work }

    func serve(_ entry: RingEntry, for server: Dispatcher) {
        let isMore = state.withLock { state in
            state.waiting.append((entry, server))
            guard state.waiting.count > state.idle, state.threads < Self.maximumThreads else { return false }
            state.threads += 1
            return true
        }
        if isMore, !work.start("fuse-worker", { [self] in run() }) {
            // Without any thread, serve the request here.
            let here = state.withLock { state in
                state.threads -= 1
                return state.threads == 0 ? state.waiting.popLast() : nil
            }
            if let (entry, server) = here { return work.serve(entry, for: server) }
        }
        state.signal()
    }

    private func run() {
        while let (entry, server) = next() { work.serve(entry, for: server) }
    }

    /// The next request to serve; nil at the end.
    private func next() -> (RingEntry, Dispatcher)? {
        state.withLock { $0.idle += 1 }
        return state.wait { state -> (RingEntry, Dispatcher)?? in
            guard state.isEnding || !state.waiting.isEmpty else { return nil }
            state.idle -= 1
            return .some(state.isEnding ? nil : state.waiting.removeFirst())
        }
    }

    /// Ends the threads after their present requests.
    func end() {
        state.withLock { $0.isEnding = true }
        state.broadcast()
    }
}
