/// The readers of a document's states.
@MainActor
final class StateListeners {
    private var listeners: [Int: AsyncStream<Document.State>.Continuation] = [:]
    private var nextListener = 0

    /// A stream that begins with the present state.
    func stream(from state: Document.State) -> AsyncStream<Document.State> {
        let (stream, listener) = AsyncStream.makeStream(of: Document.State.self)
        let number = nextListener
        nextListener += 1
        listeners[number] = listener
        listener.yield(state)
        listener.onTermination = { [weak self] _ in Task { @MainActor in self?.listeners[number] = nil } }
        return stream
    }

    func report(_ state: Document.State) {
        for listener in listeners.values { listener.yield(state) }
    }
}
