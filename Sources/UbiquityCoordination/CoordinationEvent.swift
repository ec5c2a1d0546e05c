internal import UbiquityCore
internal import UbiquitySystem

/// An exchange between an access and a presenter, for observers.
package struct CoordinationEvent: Sendable, Hashable {
    package enum Kind: Sendable, Hashable {
        case asked([PresenterDescription.Ability])
        /// With the reason of a refusal.
        case answered(refusal: String?)
        case passedOver
        case reacquired
    }

    package var kind: Kind
    package var question: QuestionID
    /// The client's name.
    package var client: String
    /// The presented item.
    package var target: ClaimTarget
}

extension Coordination {
    /// Reports questions and answers from now on. `body` is called in order, with a lock held, so it must return
    /// quickly.
    package func observe(_ body: @escaping @Sendable (CoordinationEvent) -> Void) {
        state.withLock { $0.observer = body }
    }

    func tellObserver(of action: ArbiterAction, _ state: State) {
        switch action {
        case .granted, .failed: break
        case .ask(let question):
            tellObserver(.asked(question.steps), question.id, question.client, question.presenter, state)
        case .reacquire(let question, let client, let presenter):
            tellObserver(.reacquired, question, client, presenter, state)
        case .passedOver(let question, let client, let presenter):
            tellObserver(.passedOver, question, client, presenter, state)
        }
    }

    /// Reports nothing about a removed client or presenter.
    func tellObserver(
        _ kind: CoordinationEvent.Kind, _ question: QuestionID, _ client: ClientID, _ presenter: PresenterID,
        _ state: State
    ) {
        guard let observer = state.observer, let name = state.arbiter.clients[client]?.description.name,
            let target = state.arbiter.target(of: presenter)
        else { return }
        observer(CoordinationEvent(kind: kind, question: question, client: name, target: target))
    }
}
