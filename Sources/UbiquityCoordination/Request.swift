internal import UbiquityCore

/// A request for a claim, as its owner makes it.
package struct ClaimRequest: Sendable {
    package var owner: ClaimOwner
    package var intents: [ClaimIntent]
    /// The presenter that acts: it is not asked about its own access.
    package var presenter: PresenterID?
    /// Claims with the same purpose never block each other, whoever makes them.
    package var purpose: String?
    /// The maximum wait for other claims. Answers to questions have their own limit, in addition.
    package var waitingTime: Duration
    /// False: fails with `.wouldWait` if it cannot be granted without asking a presenter.
    package var mayWait: Bool

    package init(
        owner: ClaimOwner, intents: [ClaimIntent], presenter: PresenterID? = nil, purpose: String? = nil,
        waitingTime: Duration = ArbiterLimits.waitingTime, mayWait: Bool = true
    ) {
        self.owner = owner
        self.intents = intents
        self.presenter = presenter
        self.purpose = purpose
        self.waitingTime = waitingTime
        self.mayWait = mayWait
    }
}

/// One unit of a claim.
struct UnitClaim: Sendable {
    var unit: ClaimUnit
    var access: Access
    /// Whether the unit is a folder, so that the claim may concern members of a package.
    var isFolder: Bool
    /// Whether the claim covers everything in the folder too, because the folder is removed or moved.
    var reachesDown: Bool { isFolder && access.takesAway }
}

/// A claim known to the arbiter, until its release.
struct Request: Sendable {
    enum State: Sendable {
        case waiting
        case asking
        case granted
    }

    let id: ClaimID
    let owner: ClaimOwner
    let presenter: PresenterID?
    let purpose: String?
    let mayWait: Bool
    let arrivedAt: Duration
    var claims: [ClaimUnit: UnitClaim]
    var state = State.waiting
    /// Whether the presenters were asked: that happens once.
    var wasAsked = false
    /// Questions not yet answered.
    var openQuestions: Set<QuestionID> = []
    /// All questions asked. Presenters that relinquished the item are notified at the end.
    var questions: [QuestionID] = []
    /// The end of the wait for other claims.
    var deadline: Duration
    var askedAt: Duration?
    var suspectedSince: Duration?
    /// Whether the request passes all requests that wait for its owner.
    var passesWaiting = false

    var isProgram: Bool {
        if case .program = owner { true } else { false }
    }
}

/// A file that a program has open without affecting a client. A later claim of a client must consider it.
struct ProgramHold: Sendable {
    let id: ClaimID
    let process: Int32
    let access: Access
    let entry: ClaimTarget.Entry?
}
