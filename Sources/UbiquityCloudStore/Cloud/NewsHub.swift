internal import UbiquityCore
internal import UbiquitySystem

/// Announces a container's new revisions to open streams.
///
/// A stream keeps only the newest revision: it is a hint, and a slow reader costs nothing.
final class NewsHub: Sendable {
    private struct State {
        var next: UInt64 = 0
        var streams: [Int64: [UInt64: AsyncThrowingStream<Revision, any Error>.Continuation]] = [:]
        var isClosed = false
    }

    private let state = Lock(State())

    /// A stream that begins with `revision`.
    func stream(of container: Int64, from revision: Revision) -> AsyncThrowingStream<Revision, any Error> {
        let (stream, source) = AsyncThrowingStream.makeStream(
            of: Revision.self, bufferingPolicy: .bufferingNewest(1))
        let id = state.withLock { state -> UInt64? in
            guard !state.isClosed else { return nil }
            state.next += 1
            state.streams[container, default: [:]][state.next] = source
            return state.next
        }
        guard let id else {
            source.finish()
            return stream
        }
        source.yield(revision)
        source.onTermination = { [weak self] _ in self?.forget(container, id) }
        return stream
    }

    private func forget(_ container: Int64, _ id: UInt64) {
        state.withLock { state in
            state.streams[container]?[id] = nil
            if state.streams[container]?.isEmpty == true { state.streams[container] = nil }
        }
    }

    func tell(_ revision: Revision, of container: Int64) {
        for source in state.withLock({ Array(($0.streams[container] ?? [:]).values) }) { source.yield(revision) }
    }

    /// Ends the streams of a container: the listeners connect again and read its state.
    func end(of container: Int64) {
        for source in state.withLock({ Array(($0.streams.removeValue(forKey: container) ?? [:]).values) }) {
            source.finish()
        }
    }

    func close() {
        let sources = state.withLock { state in
            state.isClosed = true
            defer { state.streams = [:] }
            return state.streams.values.flatMap(\.values)
        }
        for source in sources { source.finish() }
    }
}
