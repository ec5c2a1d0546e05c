internal import UbiquityCore
internal import UbiquitySystem

/// A plain program's claim, from open to close.
package struct ProgramPass: Sendable {
    let claim: ClaimID
    let item: ItemKey?
    /// Who got it.
    package let process: Int32
}

/// What a plain program gets that wants to use an item.
package enum ProgramEntrance: Sendable {
    case now(ProgramPass)
    /// Somebody has to act or to finish first. A cancelled wait takes the request back.
    case later(@Sendable () async throws -> ProgramPass)
}

/// Who does what is being done just now, for those who are told of it by the index.
package enum Doer {
    @TaskLocal package static var process: Int32?
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
        switch access {
        case .granted(let id): return .now(ProgramPass(claim: id, item: item, process: process))
        case .requested(let id, _):
            let pass = ProgramPass(claim: id, item: item, process: process)
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
        return ProgramPass(claim: id, item: intent.target.item, process: process)
    }

    package func leave(_ pass: ProgramPass) {
        work { arbiter, now, surroundings in
            ((), arbiter.endAccess(pass.claim, to: pass.item, now: now, in: surroundings))
        }
    }

    /// Whether nobody takes part: then no program waits for anything.
    package var isQuiet: Bool { state.withLock { $0.arbiter.isQuiet } }
}
