package import UbiquityCore

/// What a client tells of itself when it registers.
package struct ClientDescription: Sendable, Hashable {
    /// For people, e.g. "notes".
    package var name: String
    /// Its process: what this one and its children open through the mount counts as the client's.
    package var process: Int32

    package init(name: String, process: Int32) {
        self.name = name
        self.process = process
    }
}

/// A presenter's item, and what it takes part in.
package struct PresenterDescription: Sendable, Hashable {
    /// Things that presenters are asked, in the order in which one is asked several of them.
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

/// What a presenter is asked. It does the steps in their order and answers once.
package struct Question: Sendable, Hashable {
    package var id: QuestionID
    package var client: ClientID
    package var presenter: PresenterID
    package var steps: [PresenterDescription.Ability]
    /// For a presenter of a folder: the items in it that are to go. Else empty, and it is about the presented item.
    package var subitems: [ItemKey]
    /// Whether a program's plain call waits for the answer. The kernel keeps the folder that the item is in from
    /// everybody until that call is over.
    package var isPlainCall = false
    /// When the claim goes on without an answer (uptime).
    package var deadline: Duration
}

/// What comes of a call of the arbiter. Whoever called carries it out, in this order.
package enum ArbiterAction: Sendable, Hashable {
    case granted(ClaimID)
    case failed(ClaimID, ClaimFailure)
    case ask(Question)
    /// The access that it relinquished for is over, or was given up.
    case reacquire(QuestionID, ClientID, PresenterID)
    /// It did not answer in its time and was passed over; until it answers something it is not waited for.
    case passedOver(QuestionID, ClientID, PresenterID)
}

/// Why a claim was not granted.
package enum ClaimFailure: Sendable, Hashable, Error {
    /// It would have waited for what waits for it.
    case deadlock
    case timedOut
    case cancelled
    /// A presenter could not do its part, e.g. save, or refused to let an item be evicted.
    case refused(PresenterID, client: String, reason: String)
    /// There is no such client, or it has gone.
    case unknownClient
    case tooMany
    /// Only what can be had at once was wanted.
    case wouldWait
}
