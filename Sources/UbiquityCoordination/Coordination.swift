package import UbiquityCore
internal import UbiquitySystem

/// Runs the arbiter: claims wait here, and the arbiter's actions reach the clients.
///
/// Lock order: `state` comes before the locks that `surroundings` takes (the index). Code inside the index's writer, or
/// holding a lock of the file system, must not call this class.
package final class Coordination: Sendable {
    /// How often time limits are checked while something waits: the limits are seconds.
    private static let tickInterval: Duration = .milliseconds(250)

    struct State {
        var arbiter: Arbiter
        /// Tasks that wait for a claim, and outcomes of claims that no task waits for yet.
        var waiters: [ClaimID: CheckedContinuation<ClaimFailure?, Never>] = [:]
        var outcomes: [ClaimID: ClaimFailure?] = [:]
        var outboxes: [ClientID: AsyncStream<ClientMessage>.Continuation] = [:]
        var losses: Set<ClientID> = []
        var isTicking = false
        var observer: (@Sendable (CoordinationEvent) -> Void)?
    }

    let state: Lock<State>
    let surroundings: any Surroundings & Sendable
    let timekeeper: any Timekeeper
    /// The number of presenters, readable without waiting for `state`.
    let presenterCount = Lock(0)

    package init(isStrict: Bool, surroundings: any Surroundings & Sendable, timekeeper: any Timekeeper) {
        state = Lock(State(arbiter: Arbiter(isStrict: isStrict)))
        self.surroundings = surroundings
        self.timekeeper = timekeeper
    }

    // MARK: Claims

    /// Waits for a claim; release it with `end`. Cancelling the task withdraws the request.
    ///
    /// - Parameter isAsked: Called with the claim's number as soon as it exists.
    package func claim(
        _ request: ClaimRequest, known isAsked: @Sendable (ClaimID) -> Void = { _ in }
    ) async throws -> ClaimID {
        let id = work { arbiter, now, surroundings in
            arbiter.request(request, now: now, in: surroundings)
        }
        isAsked(id)
        try await wait(for: id)
        return id
    }

    package func end(_ id: ClaimID) {
        work { arbiter, now, surroundings in ((), arbiter.end(id, now: now, in: surroundings)) }
    }

    /// Waits until the request is granted.
    func wait(for id: ClaimID) async throws {
        let failure = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let known = state.withLock { state -> ClaimFailure?? in
                    if let outcome = state.outcomes.removeValue(forKey: id) { return .some(outcome) }
                    state.waiters[id] = continuation
                    return nil
                }
                if let known { continuation.resume(returning: known) }
            }
        } onCancel: {
            end(id)
        }
        if let failure { throw failure }
        // The claim was granted at the moment of the cancellation, and nobody will use it.
        guard !Task.isCancelled else {
            end(id)
            throw ClaimFailure.cancelled
        }
    }

    // MARK: The arbiter's actions

    /// Calls the arbiter and carries out its actions.
    @discardableResult
    func work<Result>(
        _ body: (inout Arbiter, Duration, any Surroundings & Sendable) -> (Result, [ArbiterAction])
    ) -> Result {
        var woken: [(CheckedContinuation<ClaimFailure?, Never>, ClaimFailure?)] = []
        let now = timekeeper.uptime()
        let (result, mustTick) = state.withLock { state -> (Result, Bool) in
            let (result, actions) = body(&state.arbiter, now, surroundings)
            for action in actions { carryOut(action, &state, &woken) }
            let mustTick = state.arbiter.needsTicks && !state.isTicking
            if mustTick { state.isTicking = true }
            return (result, mustTick)
        }
        for (continuation, failure) in woken { continuation.resume(returning: failure) }
        if mustTick { startTicking() }
        return result
    }

    private func carryOut(
        _ action: ArbiterAction, _ state: inout State,
        _ woken: inout [(CheckedContinuation<ClaimFailure?, Never>, ClaimFailure?)]
    ) {
        tellObserver(of: action, state)
        switch action {
        case .granted(let id): note(nil, of: id, &state, &woken)
        case .failed(let id, let failure): note(failure, of: id, &state, &woken)
        case .ask(let question): send(.ask(question), to: question.client, &state)
        case .reacquire(let question, let client, let presenter):
            send(.reacquire(question, presenter), to: client, &state)
        case .passedOver(let question, let client, let presenter):
            send(.passedOver(question, presenter), to: client, &state)
        }
    }

    private func note(
        _ failure: ClaimFailure?, of id: ClaimID, _ state: inout State,
        _ woken: inout [(CheckedContinuation<ClaimFailure?, Never>, ClaimFailure?)]
    ) {
        if let waiter = state.waiters.removeValue(forKey: id) {
            woken.append((waiter, failure))
        } else {
            state.outcomes[id] = .some(failure)
        }
    }

    private func startTicking() {
        Task { [self] in
            while (try? await timekeeper.sleep(for: Self.tickInterval)) != nil {
                dropDeadClients()
                work { arbiter, now, surroundings in ((), arbiter.tick(now: now, in: surroundings)) }
                let goesOn = state.withLock { state in
                    state.isTicking = state.arbiter.needsTicks
                    return state.isTicking
                }
                if !goesOn { return }
            }
        }
    }

    /// Removes clients whose processes have died, so that waiting requests need not wait for the lost connection.
    private func dropDeadClients() {
        let clients = state.withLock { $0.arbiter.clientProcesses }
        for (client, process) in clients where !surroundings.isAlive(process) { remove(client) }
    }

    // MARK: State

    package func snapshot(limit: Int) -> ArbiterSnapshot {
        let now = timekeeper.uptime()
        return state.withLock { $0.arbiter.snapshot(limit: limit, now: now, in: surroundings) }
    }

    /// Returns whether a presenter shows the item, or the package that holds it. Automatic eviction skips such items.
    package func isPresented(_ target: ClaimTarget) -> Bool {
        guard hasPresenters else { return false }
        return state.withLock { $0.arbiter.isPresented(target, in: surroundings) }
    }

    /// Returns whether a client has claimed the item, or a folder or package above it, for writing: its content is
    /// unfinished.
    package func isBeingWritten(_ target: ClaimTarget) -> Bool {
        state.withLock { $0.arbiter.isBeingWritten(target, in: surroundings) }
    }

    /// Returns the clients and programs that write to the item, or to the package that holds it.
    package func writers(of target: ClaimTarget) -> [Arbiter.Writer] {
        state.withLock { $0.arbiter.writers(of: target, in: surroundings) }
    }

    package var hasPresenters: Bool { presenterCount.withLock { $0 > 0 } }
}
