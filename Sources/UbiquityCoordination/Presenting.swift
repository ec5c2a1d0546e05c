package import UbiquityCore

/// A client's description of itself at its registration.
package struct ClientDescription: Sendable, Hashable {
    /// The name shown to people, e.g. "notes".
    package var name: String
    /// The client's process. Files that it and its children open through the mount count as the client's.
    package var process: Int32

    package init(name: String, process: Int32) {
        self.name = name
        self.process = process
    }
}

/// A presenter's item, and the requests it handles.
package struct PresenterDescription: Sendable, Hashable {
    /// The requests to presenters, in the order in which one presenter gets several of them.
    package enum Ability: String, Sendable, Hashable, CaseIterable {
        case relinquishToReader = "relinquish-to-reader"
        case relinquishToWriter = "relinquish-to-writer"
        case saveChanges = "save-changes"
        case accommodateDeletion = "accommodate-deletion"
        case accommodateSubitemDeletion = "accommodate-subitem-deletion"
        case accommodateEviction = "accommodate-eviction"
    }

    package var target: ClaimTarget
    package var abilities: Set<Ability>

    package init(target: ClaimTarget, abilities: Set<Ability>) {
        self.target = target
        self.abilities = abilities
    }
}

/// A request to a presenter. The presenter carries out the steps in order and answers once.
package struct Question: Sendable, Hashable {
    package var id: QuestionID
    package var client: ClientID
    package var presenter: PresenterID
    package var steps: [PresenterDescription.Ability]
    /// For a presenter of a folder: the items in it that will be removed. Empty if the question is about the presented
    /// item.
    package var subitems: [ItemKey]
    /// Whether a program's plain call waits for the answer. The kernel locks the item's folder until that call ends.
    package var isPlainCall = false
    /// The time after which the claim continues without an answer (uptime).
    package var deadline: Duration
}

/// The result of an arbiter call. The caller carries out the actions in this order.
package enum ArbiterAction: Sendable, Hashable {
    case granted(ClaimID)
    case failed(ClaimID, ClaimFailure)
    case ask(Question)
    /// The access that the presenter relinquished the item for has ended or was cancelled.
    case reacquire(QuestionID, ClientID, PresenterID)
    /// The presenter missed its deadline. Until its client answers again, requests do not wait for it.
    case passedOver(QuestionID, ClientID, PresenterID)
}

/// The reason why a claim was not granted.
package enum ClaimFailure: Sendable, Hashable, Error {
    /// The request would have waited for an owner that waits for it.
    case deadlock
    case timedOut
    case cancelled
    /// A presenter failed, e.g. to save, or refused the eviction of an item.
    case refused(PresenterID, client: String, reason: String)
    /// The client does not exist, or has been removed.
    case unknownClient
    case tooMany
    /// The caller did not want to wait, and the claim was not available at once.
    case wouldWait
}
