internal import NIOCore
internal import UbiquitySystem

/// Cancels the work for a client that has gone: a download or an event stream that is no longer read.
///
/// One table for all connections, because a connection's own `closeFuture` would keep every request's callback as long
/// as the connection lives.
final class Departures: Sendable {
    private struct Watch: Hashable {
        let channel: ObjectIdentifier
        let number: Int
    }

    private struct State {
        var next = 0
        var actions: [ObjectIdentifier: [Int: @Sendable () -> Void]] = [:]
    }

    private let state = Lock(State())

    /// Runs `body`, and cancels it when the client goes.
    func whilePresent(_ channel: any Channel, _ body: @escaping @Sendable () async throws -> Void) async throws {
        let work = Task { try await body() }
        let watch = watch(channel) { work.cancel() }
        defer { forget(watch) }
        try await withTaskCancellationHandler {
            try await work.value
        } onCancel: {
            work.cancel()
        }
    }

    /// Called by the connection when it has ended.
    func departed(_ channel: any Channel) {
        let actions = state.withLock { state in state.actions.removeValue(forKey: ObjectIdentifier(channel)) }
        for action in (actions ?? [:]).values { action() }
    }

    private func watch(_ channel: any Channel, _ action: @escaping @Sendable () -> Void) -> Watch {
        let key = ObjectIdentifier(channel)
        let watch = state.withLock { state in
            state.next += 1
            state.actions[key, default: [:]][state.next] = action
            return Watch(channel: key, number: state.next)
        }
        // The client may have gone before it was watched.
        if !channel.isActive { action() }
        return watch
    }

    private func forget(_ watch: Watch) {
        state.withLock { state in
            state.actions[watch.channel]?[watch.number] = nil
            if state.actions[watch.channel]?.isEmpty == true { state.actions[watch.channel] = nil }
        }
    }
}
