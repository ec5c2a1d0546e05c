import UbiquitySystem

/// The listeners of a database.
final class SyncStreams: Sendable {
    private struct State {
        var next = 0
        var imports: [Int: AsyncStream<ImportedChanges>.Continuation] = [:]
        var statuses: [Int: AsyncStream<SyncStatus>.Continuation] = [:]
        var last: SyncStatus?
        var picture: (@Sendable () -> SyncStatus)?
    }

    private let state = Lock(State())

    init() {}

    var picture: (@Sendable () -> SyncStatus)? {
        get { state.withLock { $0.picture } }
        set { state.withLock { $0.picture = newValue } }
    }

    func imports() -> AsyncStream<ImportedChanges> {
        let (stream, source) = AsyncStream.makeStream(of: ImportedChanges.self)
        let number = state.withLock { state in
            state.next += 1
            state.imports[state.next] = source
            return state.next
        }
        source.onTermination = { [weak self] _ in self?.state.withLock { _ = $0.imports.removeValue(forKey: number) } }
        return stream
    }

    func statuses() -> AsyncStream<SyncStatus> {
        let (stream, source) = AsyncStream.makeStream(of: SyncStatus.self)
        if let status = picture?() { source.yield(status) }
        let number = state.withLock { state in
            state.next += 1
            state.statuses[state.next] = source
            return state.next
        }
        source.onTermination = { [weak self] _ in self?.state.withLock { _ = $0.statuses.removeValue(forKey: number) } }
        return stream
    }

    func send(_ changes: ImportedChanges) {
        for listener in state.withLock({ Array($0.imports.values) }) { listener.yield(changes) }
    }

    /// Tells listeners the status if it is a new one.
    func changed() {
        guard let status = picture?() else { return }
        let listeners = state.withLock { state in
            defer { state.last = status }
            return state.last == status ? [] : Array(state.statuses.values)
        }
        for listener in listeners { listener.yield(status) }
    }

    func finish() {
        let (imports, statuses) = state.withLock { (Array($0.imports.values), Array($0.statuses.values)) }
        for listener in imports { listener.finish() }
        for listener in statuses { listener.finish() }
    }
}
