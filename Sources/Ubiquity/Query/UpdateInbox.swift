import UbiquitySystem

/// What a query tells one of those who iterate over its updates, until it is taken. Updates that wait are merged, so
/// what is kept is bounded by the number of results.
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

    /// An inbox, and its signals: one stands for any number of events. Whoever reads has the signals alone, so that it
    /// shows when he is gone.
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

    /// Has `body` called when nobody reads the signals any more, before the end.
    func whenLeft(_ body: @escaping @Sendable () -> Void) {
        source.onTermination = { if case .cancelled = $0 { body() } }
    }

    /// The next event that waits; nil if there is none.
    func take() -> MetadataQuery.Event? {
        let first = state.withLock { $0.waiting.isEmpty ? nil : $0.waiting.removeFirst() }
        guard let first else { return nil }
        return MetadataQuery.Event(kind: first.kind, update: first.update.update(in: order))
    }

    /// How it ended; nil if it has not.
    var outcome: Result<Void, any Error>? { state.withLock { $0.end } }
}
