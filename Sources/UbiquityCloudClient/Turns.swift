internal import UbiquitySystem

/// Limits concurrent work. Further callers wait in order.
final class Turns: Sendable {
    private struct State {
        var free: Int
        var next: UInt64 = 0
        var waiting: [(number: UInt64, continuation: CheckedContinuation<Bool, Never>)] = []
        /// Callers cancelled before they could wait.
        var cancelled: Set<UInt64> = []
    }
    private let state: Lock<State>

    init(limit: Int) { state = Lock(State(free: limit)) }

    /// Runs `body` when it is the caller's turn.
    /// - Throws: `CancellationError` if the task is cancelled while it waits.
    func run<Value>(_ body: () async throws -> Value) async throws -> Value {
        guard await enter() else { throw CancellationError() }
        defer { leave() }
        return try await body()
    }

    private func enter() async -> Bool {
        let number = state.withLock { state in
            state.next += 1
            return state.next
        }
        let isIn = await withTaskCancellationHandler {
            await withCheckedContinuation { wait($0, number) }
        } onCancel: {
            cancel(number)
        }
        state.withLock { _ = $0.cancelled.remove(number) }
        return isIn
    }

    private func wait(_ continuation: CheckedContinuation<Bool, Never>, _ number: UInt64) {
        let answer = state.withLock { state -> Bool? in
            if state.cancelled.contains(number) { return false }
            guard state.free == 0 else {
                state.free -= 1
                return true
            }
            state.waiting.append((number, continuation))
            return nil
        }
        if let answer { continuation.resume(returning: answer) }
    }

    private func cancel(_ number: UInt64) {
        let continuation = state.withLock { state -> CheckedContinuation<Bool, Never>? in
            guard let place = state.waiting.firstIndex(where: { $0.number == number }) else {
                state.cancelled.insert(number)
                return nil
            }
            return state.waiting.remove(at: place).continuation
        }
        continuation?.resume(returning: false)
    }

    private func leave() {
        let next = state.withLock { state -> CheckedContinuation<Bool, Never>? in
            guard !state.waiting.isEmpty else {
                state.free += 1
                return nil
            }
            return state.waiting.removeFirst().continuation
        }
        next?.resume(returning: true)
    }
}
