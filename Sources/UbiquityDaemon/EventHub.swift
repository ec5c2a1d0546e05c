import UbiquityControl
import UbiquitySystem

/// Passes events on to all who listen at the local socket.
final class EventHub: Sendable {
    /// Events kept for a listener that is slow; older ones are left out then, and it is told so.
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

    /// Whether anyone listens: without listeners events need not be made.
    var hasListeners: Bool { state.withLock { !$0.listeners.isEmpty } }

    /// Has `body` called when somebody begins to listen where nobody did. It must not wait for anything.
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

    /// Gives every listener's connection something to carry, so that one that has gone is noticed.
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

    /// Whether events have been left out for a listener since it was last asked.
    func takeLoss(of number: Int) -> Bool {
        state.withLock { state in
            defer { state.listeners[number]?.hasLost = false }
            return state.listeners[number]?.hasLost ?? false
        }
    }

    /// Events were left out for all listeners.
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
