internal import UbiquitySystem

/// The server is at one of its limits.
struct Overloaded: Error {
    let reason: String
}

/// Divides an amount among accounts: bytes of requests in memory, or concurrent uploads. A request waits, first come,
/// first served, until enough is free, and is refused after a while. An account at its limit does not block other
/// accounts.
final class AccountBudget: Sendable {
    private struct Waiter {
        let number: UInt64
        let account: String
        let amount: Int
        let continuation: CheckedContinuation<Bool, Never>
    }

    private struct State {
        var used = 0
        var usedBy: [String: Int] = [:]
        var next: UInt64 = 0
        var waiting: [Waiter] = []
        /// Requests that have a number and no decision yet.
        var entering: Set<UInt64> = []
        /// Those among them that timed out before they began to wait.
        var expired: Set<UInt64> = []

        mutating func take(_ amount: Int, _ account: String) {
            used += amount
            usedBy[account, default: 0] += amount
        }
    }

    private let total: Int
    private let perAccount: Int
    private let patience: Duration
    private let refusal: String
    private let state = Lock(State())

    /// - Parameter refusal: the reason that a refused request gets.
    init(total: Int, perAccount: Int, patience: Duration = ServerLimits.patience, refusal: String) {
        self.total = total
        self.perAccount = perAccount
        self.patience = patience
        self.refusal = refusal
    }

    /// Runs `body` when the amount is free. Throws `Overloaded` or `CancellationError`.
    func run<R>(_ amount: Int, of account: String, _ body: () async throws -> R) async throws -> R {
        let amount = min(amount, perAccount, total)
        guard await enter(amount, account) else {
            try Task.checkCancellation()
            throw Overloaded(reason: refusal)
        }
        defer { leave(amount, account) }
        return try await body()
    }

    var used: Int { state.withLock { $0.used } }
    var waiting: Int { state.withLock { $0.waiting.count } }

    private func enter(_ amount: Int, _ account: String) async -> Bool {
        // Most requests find enough free and need no timer.
        if enterAtOnce(amount, account) { return true }
        let number = state.withLock { state in
            state.next += 1
            state.entering.insert(state.next)
            return state.next
        }
        let clock = Task { [patience] in
            if (try? await Sleepers.shared.sleep(for: patience)) != nil { self.expire(number) }
        }
        let isIn = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                wait(Waiter(number: number, account: account, amount: amount, continuation: continuation))
            }
        } onCancel: {
            expire(number)
        }
        clock.cancel()
        state.withLock { state in
            state.entering.remove(number)
            state.expired.remove(number)
        }
        return isIn
    }

    private func enterAtOnce(_ amount: Int, _ account: String) -> Bool {
        state.withLock { state in
            guard state.waiting.isEmpty, state.used + amount <= total,
                state.usedBy[account, default: 0] + amount <= perAccount
            else { return false }
            state.take(amount, account)
            return true
        }
    }

    private func wait(_ waiter: Waiter) {
        let isExpired = state.withLock { state in
            if state.expired.contains(waiter.number) { return true }
            state.waiting.append(waiter)
            return false
        }
        if isExpired { return waiter.continuation.resume(returning: false) }
        admit()
    }

    /// Admits every waiter that fits. A waiter whose account is at its limit does not block other accounts.
    private func admit() {
        let admitted = state.withLock { state in
            var admitted = [Waiter](), blocked = Set<String>()
            for waiter in state.waiting where !blocked.contains(waiter.account) {
                guard state.usedBy[waiter.account, default: 0] + waiter.amount <= perAccount else {
                    blocked.insert(waiter.account)
                    continue
                }
                guard state.used + waiter.amount <= total else { break }
                state.take(waiter.amount, waiter.account)
                admitted.append(waiter)
            }
            let numbers = Set(admitted.map(\.number))
            state.waiting.removeAll { numbers.contains($0.number) }
            return admitted
        }
        for waiter in admitted { waiter.continuation.resume(returning: true) }
    }

    private func leave(_ amount: Int, _ account: String) {
        state.withLock { state in
            state.used -= amount
            state.usedBy[account, default: 0] -= amount
            if state.usedBy[account] == 0 { state.usedBy[account] = nil }
        }
        admit()
    }

    private func expire(_ number: UInt64) {
        let waiter = state.withLock { state -> Waiter? in
            guard let place = state.waiting.firstIndex(where: { $0.number == number }) else {
                if state.entering.contains(number) { state.expired.insert(number) }
                return nil
            }
            return state.waiting.remove(at: place)
        }
        waiter?.continuation.resume(returning: false)
    }
}
