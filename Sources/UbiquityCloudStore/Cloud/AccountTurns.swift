internal import UbiquitySystem

/// Limits concurrent work, in all and per account. Waiting accounts take turns, however many requests each has.
final class AccountTurns: Sendable {
    private typealias Waiting = (number: UInt64, continuation: CheckedContinuation<Bool, Never>)

    private struct State {
        var free: Int
        var inside: [Int64: Int] = [:]
        var waiting: [Int64: [Waiting]] = [:]
        /// Waiting accounts; the first one below its limit is next.
        var order: [Int64] = []
        var lastNumber: UInt64 = 0
        /// Waiters that were cancelled before they began to wait.
        var cancelled: Set<UInt64> = []
    }

    private let limit: Int
    private let state: Lock<State>

    /// - Parameter limit: per account.
    init(total: Int, perAccount limit: Int) {
        self.limit = limit
        state = Lock(State(free: total))
    }

    /// Throws `CancellationError` if the task is cancelled while it waits.
    func run<Value>(for account: Int64, _ body: () async throws -> Value) async throws -> Value {
        if !enterAtOnce(account) {
            guard await enter(account) else { throw CancellationError() }
        }
        defer { leave(account) }
        return try await body()
    }

    private func enterAtOnce(_ account: Int64) -> Bool {
        state.withLock { state in
            guard state.waiting[account] == nil else { return false }
            return take(account, &state)
        }
    }

    private func take(_ account: Int64, _ state: inout State) -> Bool {
        guard state.free > 0, state.inside[account, default: 0] < limit else { return false }
        state.free -= 1
        state.inside[account, default: 0] += 1
        return true
    }

    private func enter(_ account: Int64) async -> Bool {
        let number = state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
        let isIn = await withTaskCancellationHandler {
            await withCheckedContinuation { wait($0, number, account) }
        } onCancel: {
            cancel(number, account)
        }
        state.withLock { _ = $0.cancelled.remove(number) }
        return isIn
    }

    private func wait(_ continuation: CheckedContinuation<Bool, Never>, _ number: UInt64, _ account: Int64) {
        let answer = state.withLock { state -> Bool? in
            if state.cancelled.contains(number) { return false }
            if state.waiting[account] == nil {
                if take(account, &state) { return true }
                state.order.append(account)
            }
            state.waiting[account, default: []].append((number, continuation))
            return nil
        }
        if let answer { continuation.resume(returning: answer) }
    }

    private func cancel(_ number: UInt64, _ account: Int64) {
        let continuation = state.withLock { state -> CheckedContinuation<Bool, Never>? in
            guard let place = state.waiting[account]?.firstIndex(where: { $0.number == number }) else {
                state.cancelled.insert(number)
                return nil
            }
            let found = state.waiting[account]?.remove(at: place).continuation
            if state.waiting[account]?.isEmpty == true {
                state.waiting[account] = nil
                state.order.removeAll { $0 == account }
            }
            return found
        }
        continuation?.resume(returning: false)
    }

    private func leave(_ account: Int64) {
        let next = state.withLock { state -> CheckedContinuation<Bool, Never>? in
            state.free += 1
            let inside = state.inside[account, default: 1] - 1
            state.inside[account] = inside == 0 ? nil : inside
            return admit(&state)
        }
        next?.resume(returning: true)
    }

    private func admit(_ state: inout State) -> CheckedContinuation<Bool, Never>? {
        for (place, account) in state.order.enumerated() where take(account, &state) {
            state.order.remove(at: place)
            guard var queue = state.waiting[account], !queue.isEmpty else { continue }
            let next = queue.removeFirst()
            state.waiting[account] = queue.isEmpty ? nil : queue
            if !queue.isEmpty { state.order.append(account) }
            return next.continuation
        }
        return nil
    }
}
