internal import UbiquityCore
internal import UbiquitySystem

/// A plain program's claim, from open to close.
package struct ProgramPass: Sendable {
    let claim: ClaimID
    let item: ItemKey?
    /// The program that has the claim.
    package let doer: Doer
    /// Whether the claim allows no changes.
    package let isReader: Bool
}

/// The answer to a plain program that wants to use an item.
package enum ProgramEntrance: Sendable {
    case now(ProgramPass)
    /// Others must act or finish first. Cancelling the wait withdraws the request.
    case later(@Sendable () async throws -> ProgramPass)
}

/// A program that changes something. Its clients are looked up at once, because it may have ended before others are
/// notified.
package struct Doer: Sendable, Hashable {
    /// The program whose change is in progress, for observers of the index.
    @TaskLocal package static var current: Doer?

    package let process: Int32
    /// The clients that the program belongs to; nil if they were not looked up.
    package let clients: Set<ClientID>?

    package init(process: Int32, clients: Set<ClientID>?) {
        self.process = process
        self.clients = clients
    }

    /// Merges two programs' joint change: it belongs to clients that took part in both.
    package func joined(by other: Doer) -> Doer {
        if process == other.process, clients == other.clients { return self }
        return Doer(process: 0, clients: (clients ?? []).intersection(other.clients ?? []))
    }
}

extension Coordination {
    /// Requests access to items for a plain program. Without clients it costs one table entry.
    ///
    /// - Parameter mayWait: If false, an access that would have to wait throws `.wouldWait`.
    package func enter(
        _ intents: [ClaimIntent], process: Int32, waitingTime: Duration, mayWait: Bool
    ) throws(ClaimFailure) -> ProgramEntrance {
        let access = work { arbiter, now, surroundings -> (Arbiter.ProgramAccess, [ArbiterAction]) in
            let access = arbiter.access(
                intents, by: process, waitingTime: waitingTime, mayWait: mayWait, now: now, in: surroundings)
            if case .requested(_, let actions) = access { return (access, actions) }
            return (access, [])
        }
        let item = intents.first?.target.item
        // A reader makes no changes that others are notified of.
        let isReader = intents.allSatisfy(\.access.isReading)
        let doer = isReader ? Doer(process: process, clients: nil) : doer(process)
        switch access {
        case .granted(let id): return .now(ProgramPass(claim: id, item: item, doer: doer, isReader: isReader))
        case .requested(let id, _):
            let pass = ProgramPass(claim: id, item: item, doer: doer, isReader: isReader)
            switch state.withLock({ $0.outcomes.removeValue(forKey: id) }) {
            case .some(.none): return .now(pass)
            case .some(.some(let failure)): throw failure
            case .none:
                return .later { [self] in
                    try await wait(for: id)
                    return pass
                }
            }
        }
    }

    /// Records the claim on an item that a program has just created and has open.
    package func hold(_ intent: ClaimIntent, process: Int32) -> ProgramPass {
        let id = state.withLock { $0.arbiter.hold(intent, by: process) }
        return ProgramPass(
            claim: id, item: intent.target.item, doer: doer(process), isReader: intent.access.isReading)
    }

    /// Looks up the clients a process belongs to. Costs nothing while there are no presenters.
    package func doer(_ process: Int32) -> Doer {
        guard hasPresenters, process > 0 else { return Doer(process: process, clients: nil) }
        let clients = state.withLock { $0.arbiter.clientProcesses }
        guard !clients.isEmpty else { return Doer(process: process, clients: []) }
        let lineage = surroundings.lineage(of: process)
        let own = clients.filter { $0.1 > 0 && lineage.contains($0.1) }.map(\.0)
        return Doer(process: process, clients: Set(own))
    }

    /// Returns the doer with its clients, looked up now if they were not before.
    package func known(_ doer: Doer) -> Doer { doer.clients == nil ? self.doer(doer.process) : doer }

    package func leave(_ pass: ProgramPass) {
        work { arbiter, now, surroundings in
            ((), arbiter.endAccess(pass.claim, to: pass.item, now: now, in: surroundings))
        }
    }

    /// Whether nobody takes part, so that no program has to wait.
    package var isQuiet: Bool { state.withLock { $0.arbiter.isQuiet } }
}
