internal import UbiquityCore
internal import UbiquitySystem

/// A plain program's claim, from open to close.
package struct ProgramPass: Sendable {
    let claim: ClaimID
    let item: ItemKey?
    /// Who got it.
    package let doer: Doer
    /// Whether nothing can be changed with it.
    package let isReader: Bool
}

/// What a plain program gets that wants to use an item.
package enum ProgramEntrance: Sendable {
    case now(ProgramPass)
    /// Somebody has to act or to finish first. A cancelled wait takes the request back.
    case later(@Sendable () async throws -> ProgramPass)
}

/// A program that changes something. Whose it is has to be known at once: it may have ended by the time at which others
/// are told.
package struct Doer: Sendable, Hashable {
    /// Who does what is being done just now, for those who are told of it by the index.
    @TaskLocal package static var current: Doer?

    package let process: Int32
    /// The clients whose doing it is; nil if that was not looked at.
    package let clients: Set<ClientID>?

    package init(process: Int32, clients: Set<ClientID>?) {
        self.process = process
        self.clients = clients
    }

    /// What both do together: it is the doing of those who have a part in either.
    package func joined(by other: Doer) -> Doer {
        if process == other.process, clients == other.clients { return self }
        return Doer(process: 0, clients: (clients ?? []).intersection(other.clients ?? []))
    }
}

extension Coordination {
    /// A plain program is about to use items. Without clients it costs a table's entry.
    /// - Parameter mayWait: False: what would have to wait throws `.wouldWait`.
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
        // Who only reads changes nothing that anybody is told of.
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

    /// The claim on something that a program has just made, and has open.
    package func hold(_ intent: ClaimIntent, process: Int32) -> ProgramPass {
        let id = state.withLock { $0.arbiter.hold(intent, by: process) }
        return ProgramPass(
            claim: id, item: intent.target.item, doer: doer(process), isReader: intent.access.isReading)
    }

    /// Looks up whose doing it is what a process does. Costs nothing while nobody presents anything.
    package func doer(_ process: Int32) -> Doer {
        guard hasPresenters, process > 0 else { return Doer(process: process, clients: nil) }
        let clients = state.withLock { $0.arbiter.clientProcesses }
        guard !clients.isEmpty else { return Doer(process: process, clients: []) }
        let lineage = surroundings.lineage(of: process)
        let own = clients.filter { $0.1 > 0 && lineage.contains($0.1) }.map(\.0)
        return Doer(process: process, clients: Set(own))
    }

    /// The same, looked up now if it has not been.
    package func known(_ doer: Doer) -> Doer { doer.clients == nil ? self.doer(doer.process) : doer }

    package func leave(_ pass: ProgramPass) {
        work { arbiter, now, surroundings in
            ((), arbiter.endAccess(pass.claim, to: pass.item, now: now, in: surroundings))
        }
    }

    /// Whether nobody takes part: then no program waits for anything.
    package var isQuiet: Bool { state.withLock { $0.arbiter.isQuiet } }
}
