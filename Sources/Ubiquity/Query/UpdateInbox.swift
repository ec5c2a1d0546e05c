import UbiquitySystem

/// The events that wait for one reader of a query. Waiting updates are merged, so memory is bounded by the number of
/// results.
final class UpdateInbox: Sendable {
    private struct Waiting {
        var kind: MetadataQuery.Event.Kind
        var update = MergedUpdate()
    }

    private struct State {
        var waiting: [Waiting] = []
        var end: Result<Void, any Error>?
    }

    private let state = Lock(State())
    private let order: MetadataOrder
    private let source: AsyncStream<Void>.Continuation

    private init(order: MetadataOrder, source: AsyncStream<Void>.Continuation) {
        self.order = order
        self.source = source
    }

    /// Makes an inbox and its signals. One signal stands for any number of events. Only the reader holds the signals,
    /// so their release shows that the reader is gone.
    static func make(order: MetadataOrder) -> (inbox: UpdateInbox, signals: AsyncStream<Void>) {
        let (signals, source) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        return (UpdateInbox(order: order, source: source), signals)
    }

    func put(_ kind: MetadataQuery.Event.Kind, _ update: MetadataUpdate = MetadataUpdate()) {
        state.withLock { state in
            guard state.end == nil else { return }
            if state.waiting.last?.kind != kind { state.waiting.append(Waiting(kind: kind)) }
            state.waiting[state.waiting.count - 1].update.add(update)
        }
        source.yield()
    }

    func end(_ result: Result<Void, any Error>) {
        state.withLock { if $0.end == nil { $0.end = result } }
        source.finish()
    }

    /// Calls `body` when the reader is gone before the query has ended.
    func whenLeft(_ body: @escaping @Sendable () -> Void) {
        source.onTermination = { if case .cancelled = $0 { body() } }
    }

    /// Returns the next waiting event; nil if there is none.
    func take() -> MetadataQuery.Event? {
        let first = state.withLock { $0.waiting.isEmpty ? nil : $0.waiting.removeFirst() }
        guard let first else { return nil }
        return MetadataQuery.Event(kind: first.kind, update: first.update.update(in: order))
    }

    /// How the query ended; nil while it runs.
    var outcome: Result<Void, any Error>? { state.withLock { $0.end } }
}
