internal import UbiquitySystem

/// The server has as many bytes of large requests in memory as it may.
struct Overloaded: Error {}

/// Bytes of large requests that are in memory: of each account, and of all together. A request waits until there is
/// space for all of it, first come, first served, and is refused after a while.
final class BodyBudget: Sendable {
    private struct Waiter {
        let number: UInt64
        let account: String
        let bytes: Int
        let continuation: CheckedContinuation<Bool, Never>
    }

    private struct State {
        var used = 0
        var usedBy: [String: Int] = [:]
        var next: UInt64 = 0
        var waiting: [Waiter] = []
        /// Those that gave up before they waited.
        var expired: Set<UInt64> = []
    }

    private let total: Int
    private let perAccount: Int
    private let patience: Duration
    private let state = Lock(State())

    init(
        total: Int = ServerLimits.bodyBytes, perAccount: Int = ServerLimits.bodyBytesPerAccount,
        patience: Duration = ServerLimits.bodyPatience
    ) {
        self.total = total
        self.perAccount = perAccount
        self.patience = patience
    }

    /// Runs `body` when there is space for so many bytes. Throws `Overloaded` or `CancellationError`.
    func run<R>(_ bytes: Int, of account: String, _ body: () async throws -> R) async throws -> R {
        guard bytes > ServerLimits.smallBody else { return try await body() }
        guard await enter(min(bytes, perAccount, total), account) else {
            try Task.checkCancellation()
            throw Overloaded()
        }
        defer { leave(min(bytes, perAccount, total), account) }
        return try await body()
    }

    var used: Int { state.withLock { $0.used } }
    var waiting: Int { state.withLock { $0.waiting.count } }

    private func enter(_ bytes: Int, _ account: String) async -> Bool {
        let number = state.withLock { state in
            state.next += 1
            return state.next
        }
        let clock = Task { [patience] in
            if (try? await Sleepers.shared.sleep(for: patience)) != nil { self.expire(number) }
        }
        let isIn = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                wait(Waiter(number: number, account: account, bytes: bytes, continuation: continuation))
            }
        } onCancel: {
            expire(number)
        }
        clock.cancel()
        state.withLock { _ = $0.expired.remove(number) }
        return isIn
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
                let usedByIt = state.usedBy[waiter.account, default: 0]
                guard usedByIt + waiter.bytes <= perAccount else {
                    blocked.insert(waiter.account)
                    continue
                }
                guard state.used + waiter.bytes <= total else { break }
                state.used += waiter.bytes
                state.usedBy[waiter.account] = usedByIt + waiter.bytes
                admitted.append(waiter)
            }
            let numbers = Set(admitted.map(\.number))
            state.waiting.removeAll { numbers.contains($0.number) }
            return admitted
        }
        for waiter in admitted { waiter.continuation.resume(returning: true) }
    }

    private func leave(_ bytes: Int, _ account: String) {
        state.withLock { state in
            state.used -= bytes
            state.usedBy[account, default: 0] -= bytes
            if state.usedBy[account] == 0 { state.usedBy[account] = nil }
        }
        admit()
    }

    private func expire(_ number: UInt64) {
        let waiter = state.withLock { state -> Waiter? in
            guard let place = state.waiting.firstIndex(where: { $0.number == number }) else {
                state.expired.insert(number)
                return nil
            }
            return state.waiting.remove(at: place)
        }
        waiter?.continuation.resume(returning: false)
    }
}
