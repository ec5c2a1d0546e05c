internal import UbiquitySystem

/// The writing side of a handle opened for writing with O_NONBLOCK while the content was missing. It becomes a writer
/// with the first call that needs the content. touch(1), and truncate(1) to zero, never make one.
///
/// Lock order: `state` comes before the node's.
final class LateWriter: Sendable {
    enum State {
        case waiting
        case writing
        case closed
    }
    let state = Lock(State.waiting)

    var isWriting: Bool {
        state.withLock { state in
            if case .writing = state { return true }
            return false
        }
    }

    /// - Returns: whether it was a writer.
    func close() -> Bool {
        state.withLock { state in
            defer { state = .closed }
            if case .writing = state { return true }
            return false
        }
    }
}
