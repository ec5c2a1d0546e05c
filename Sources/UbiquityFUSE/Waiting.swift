internal import UbiquitySystem
internal import UbiquityVFS

extension Reply {
    /// Answers with the result of `body`, or with the errno of its error.
    consuming func answer<Value>(with body: () throws -> Value, _ send: (consuming Reply, Value) -> Void) {
        switch Result(catching: body) {
        case .success(let value): send(self, value)
        case .failure(let error): failure(error)
        }
    }

    /// The same for an operation that may have to wait: then a task waits and answers, and an interrupt cancels it.
    consuming func answerOrWait<Value: Sendable>(
        isRead: Bool = false, with body: () throws -> Answer<Value>,
        _ send: @escaping @Sendable (consuming Reply, Value) -> Void
    ) {
        switch Result(catching: body) {
        case .success(.now(let value)): send(self, value)
        case .success(.later(let work)): wait(for: work, isRead: isRead, send)
        case .failure(let error): failure(error)
        }
    }

    private consuming func wait<Value: Sendable>(
        for work: @escaping @Sendable () async throws -> Value, isRead: Bool,
        _ send: @escaping @Sendable (consuming Reply, Value) -> Void
    ) {
        let thread = caller.pid, callers = waitingCallers
        let interruption = Interruption(caller: thread)
        callers?.enter(thread)
        listen(to: interruption, isRead: isRead)
        let reply = TakenOnce(self)
        let task = Task.detached {
            let result: Result<Value, any Error>
            do { result = .success(try await work()) } catch { result = .failure(error) }
            callers?.leave(thread)
            guard let reply = reply.take() else { return }
            switch result {
            case .success(let value): send(reply, value)
            case .failure(let error): reply.failure(error)
            }
        }
        interruption.cancels(task)
    }
}

/// Carries a noncopyable value into a closure, which can take it once.
final class TakenOnce<Value: ~Copyable & Sendable>: @unchecked Sendable {
    private var value: Value?
    private let isTaken = Lock(false)

    init(_ value: consuming Value) { self.value = consume value }

    /// The value; nil from the second call on.
    func take() -> Value? {
        let isFirst = isTaken.withLock { isTaken in
            defer { isTaken = true }
            return !isTaken
        }
        return isFirst ? value.take() : nil
    }
}
