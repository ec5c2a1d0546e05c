internal import UbiquityCore

/// A claim that is asked for, as its owner gives it.
package struct ClaimRequest: Sendable {
    package var owner: ClaimOwner
    package var intents: [ClaimIntent]
    /// The presenter on whose behalf it is: it is not asked about its own access.
    package var presenter: PresenterID?
    /// Claims of one purpose never hold each other up, whoever makes them.
    package var purpose: String?
    /// The longest wait for others' claims. Answers to questions have their own limit and come on top.
    package var waitingTime: Duration
    /// False: fails with `.wouldWait` if it cannot be granted without asking anyone.
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
    /// Whether the unit is a folder, so that members of a package may be meant.
    var isFolder: Bool
    /// Whether it is on all that is in the folder, too: the folder goes, or goes elsewhere.
    var reachesDown: Bool { isFolder && access.takesAway }
}

/// A claim in the arbiter's books, until it is given back.
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
    /// Whether the presenters have been asked: that is done once.
    var wasAsked = false
    /// Not yet answered.
    var openQuestions: Set<QuestionID> = []
    /// All that were asked; those that relinquished are told when it is over.
    var questions: [QuestionID] = []
    /// Until then it waits for others' claims.
    var deadline: Duration
    var askedAt: Duration?
    var suspectedSince: Duration?
    /// Whether it goes before all who wait for its owner.
    var passesWaiting = false

    var isProgram: Bool {
        if case .program = owner { true } else { false }
    }
}

/// A file that a program has open and nobody minded: what a client's claim will have to look for.
struct ProgramHold: Sendable {
    let id: ClaimID
    let process: Int32
    let access: Access
    let entry: ClaimTarget.Entry?
}
