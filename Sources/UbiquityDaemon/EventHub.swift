import UbiquityControl
import UbiquitySystem

/// Passes events to all listeners at the local socket.
final class EventHub: Sendable {
    /// Events buffered for a slow listener. Beyond that the oldest are dropped, and it gets an `overflow` event.
    static let maximumWaiting = 4096
    /// Listeners at one time.
    static let maximumListeners = 256

    enum Signal: Sendable {
        case event(ControlEvent)
        case heartbeat
    }

    private struct Listener {
        var source: AsyncStream<Signal>.Continuation
        var hasLost = false
    }

    private struct State {
        var listeners: [Int: Listener] = [:]
        var nextNumber = 0
        var isClosed = false
        var beforeFirst: (@Sendable () -> Void)?
    }

    private let state = Lock(State())

    /// Whether there are listeners; without them no events need to be made.
    var hasListeners: Bool { state.withLock { !$0.listeners.isEmpty } }

    /// Sets a function to call when the first listener arrives. It must not wait.
    func beforeFirst(_ body: @escaping @Sendable () -> Void) { state.withLock { $0.beforeFirst = body } }

    /// A new listener's stream; nil if there are too many, or the mount is ending.
    func listen() -> (number: Int, signals: AsyncStream<Signal>)? {
        let (signals, source) = AsyncStream.makeStream(
            of: Signal.self, bufferingPolicy: .bufferingNewest(Self.maximumWaiting))
        return state.withLock { state in
            guard !state.isClosed, state.listeners.count < Self.maximumListeners else { return nil }
            if state.listeners.isEmpty { state.beforeFirst?() }
            state.nextNumber += 1
            state.listeners[state.nextNumber] = Listener(source: source)
            return (state.nextNumber, signals)
        }
    }

    func forget(_ number: Int) {
        let listener = state.withLock { $0.listeners.removeValue(forKey: number) }
        listener?.source.finish()
    }

    func send(_ event: ControlEvent) { pass(.event(event)) }

    /// Writes to every listener's connection, so that one that has gone is noticed.
    func beat() { pass(.heartbeat) }

    private func pass(_ signal: Signal) {
        state.withLock { state in
            for number in state.listeners.keys {
                if case .dropped = state.listeners[number]?.source.yield(signal) {
                    state.listeners[number]?.hasLost = true
                }
            }
        }
    }

    /// Whether events were dropped for a listener since the last call.
    func takeLoss(of number: Int) -> Bool {
        state.withLock { state in
            defer { state.listeners[number]?.hasLost = false }
            return state.listeners[number]?.hasLost ?? false
        }
    }

    /// Records that events were dropped for all listeners.
    func noteLoss() {
        state.withLock { state in
            for number in state.listeners.keys { state.listeners[number]?.hasLost = true }
        }
    }

    /// Ends all streams.
    func close() {
        let listeners = state.withLock { state in
            state.isClosed = true
            defer { state.listeners = [:] }
            return Array(state.listeners.values)
        }
        for listener in listeners { listener.source.finish() }
    }
}
