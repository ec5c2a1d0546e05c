// Messages of coordination clients at the local socket.

/// `ControlRoute.clients`: registers a program as a client for as long as it reads the answer, a server-sent stream of
/// `ClientNews`. Its claims and presenters end with the stream.
package struct ClientRegistration: Codable, Hashable, Sendable {
    /// For display.
    package var name: String
    /// The program's process. Opens in the mount by it and its children never wait for the client itself.
    package var process: Int32?
    /// In seconds: how long it may take to answer questions (10 if not given, at most 60).
    package var answerTime: Double?

    package init(name: String, process: Int32? = nil, answerTime: Double? = nil) {
        self.name = name
        self.process = process
        self.answerTime = answerTime
    }
}

/// `ControlRoute.leave`: removes a client and ends its stream.
package struct ClientLeave: Codable, Hashable, Sendable {
    package var client: UInt64
    package init(client: UInt64) { self.client = client }
}

/// One message to a client.
package struct ClientNews: Codable, Hashable, Sendable {
    package enum Kind: String, Codable, CaseIterable, Hashable, Sendable {
        /// The first message: `client` is its number.
        case registered
        /// Another program wants to use a presented item. The client carries out `steps` in order and then posts a
        /// `PresenterAnswer` for `question`, within `seconds`.
        case ask
        /// The access that `question` announced is over: the item can be used again.
        case reacquire
        /// `question` was not answered in time. It and later ones are not waited for, until the client answers one.
        case passedOver = "passed-over"
        /// Messages were dropped because the client was slow: read the state of the presented items again.
        case overflow
        /// Enclose changes that came together from the cloud.
        case begin
        case end
        case changed
        case added
        case moved
        case removed
        case ubiquityAttributesChanged = "ubiquity-attributes-changed"
        case versionGained = "version-gained"
        case versionLost = "version-lost"
        case versionResolved = "version-resolved"
    }

    package var kind: Kind
    package var client: UInt64?
    package var question: UInt64?
    /// The presenter concerned.
    package var presenter: UInt64?
    /// "relinquish-to-reader", "relinquish-to-writer", "save-changes", "accommodate-deletion",
    /// "accommodate-subitem-deletion", "accommodate-eviction".
    package var steps: [String]?
    package var seconds: Double?
    /// True if a plain call of a program waits for the answer. For a deletion that means: until the answer, nothing can
    /// be written to the item's folder, and so not to the item.
    package var isPlainCall: Bool?
    /// Items of a presented folder that are about to be deleted.
    package var subitems: [String]?
    /// Presenters of the changed item, and of folders that contain it.
    package var presenters: [UInt64]?
    package var folderPresenters: [UInt64]?
    /// From the mount's root, without a slash in front.
    package var path: String?
    package var oldPath: String?
    package var version: String?
    package var isConflict: Bool?
    /// For `changed`: the changed fields, of "content", "mode", "times", "attributes".
    package var fields: [String]?

    package init(_ kind: Kind) { self.kind = kind }
}

/// `ControlRoute.presenters`: registers a presenter of an item, or of a folder with all its contents.
package struct PresenterRegistration: Codable, Hashable, Sendable {
    package var client: UInt64
    package var path: String
    /// The steps (see `ClientNews.steps`) it carries out; without any it only receives notifications.
    package var abilities: [String]

    package init(client: UInt64, path: String, abilities: [String]) {
        self.client = client
        self.path = path
        self.abilities = abilities
    }
}

package struct PresenterReport: Codable, Hashable, Sendable {
    package var presenter: UInt64
    package init(presenter: UInt64) { self.presenter = presenter }
}

/// `ControlRoute.removePresenter`.
package struct PresenterRemoval: Codable, Hashable, Sendable {
    package var client: UInt64
    package var presenter: UInt64
    package init(client: UInt64, presenter: UInt64) {
        self.client = client
        self.presenter = presenter
    }
}

/// `ControlRoute.answer`: a question's steps are done, or `refusal` has the reason why they cannot be.
package struct PresenterAnswer: Codable, Hashable, Sendable {
    package var client: UInt64
    package var question: UInt64
    package var refusal: String?

    package init(client: UInt64, question: UInt64, refusal: String? = nil) {
        self.client = client
        self.question = question
        self.refusal = refusal
    }
}

/// `ControlRoute.moves`: an item leaves the mount. It is sent twice: without `destination` while the item is still in
/// its old place, and with it when the move is done. Presenters of the item then get its new place.
package struct MoveAnnouncement: Codable, Hashable, Sendable {
    package var client: UInt64
    /// The item's path in the mount before the move.
    package var path: String
    /// The absolute path after the move.
    package var destination: String?

    package init(client: UInt64, path: String, destination: String? = nil) {
        self.client = client
        self.path = path
        self.destination = destination
    }
}

/// One item of a claim.
package struct ClaimItem: Codable, Hashable, Sendable {
    package enum Use: String, Codable, CaseIterable, Hashable, Sendable {
        case read
        case write
    }

    /// An item, or a free name in an existing folder.
    package var path: String
    package var use: Use
    /// Some of `ReadingOptions.names`, or one of `WritingOption`.
    package var options: [String]?

    package init(path: String, use: Use, options: [String]? = nil) {
        self.path = path
        self.use = use
        self.options = options
    }
}

/// `ControlRoute.claims`: waits until the whole claim is granted, and answers with one `ClaimReport`. Closing the
/// connection before that withdraws the request.
package struct ClaimMessage: Codable, Hashable, Sendable {
    package var client: UInt64
    package var items: [ClaimItem]
    /// The client's presenter on whose behalf the claim is made: it is not asked.
    package var presenter: UInt64?
    /// Claims of one purpose never wait for each other.
    package var purpose: String?
    /// In seconds: how long the claim waits for others (120 if not given).
    package var seconds: Double?
    /// A name chosen by the client. By it the request can be withdrawn, or the claim ended, before the answer has
    /// arrived.
    package var token: String?

    package init(
        client: UInt64, items: [ClaimItem], presenter: UInt64? = nil, purpose: String? = nil, seconds: Double? = nil,
        token: String? = nil
    ) {
        self.client = client
        self.items = items
        self.presenter = presenter
        self.purpose = purpose
        self.seconds = seconds
        self.token = token
    }
}

package struct ClaimReport: Codable, Hashable, Sendable {
    /// End it with a `ClaimEnd`; nil if it was not granted.
    package var claim: UInt64?
    /// The items' present paths, in the order of the request.
    package var paths: [String]?
    package var failure: ControlFailure?

    package init(claim: UInt64, paths: [String]) {
        self.claim = claim
        self.paths = paths
    }
    package init(failure: ControlFailure) { self.failure = failure }
}

/// `ControlRoute.endClaim`: names the claim by its number or the request's token.
package struct ClaimEnd: Codable, Hashable, Sendable {
    package var client: UInt64
    package var claim: UInt64?
    package var token: String?

    package init(client: UInt64, claim: UInt64) {
        self.client = client
        self.claim = claim
    }
    package init(client: UInt64, token: String) {
        self.client = client
        self.token = token
    }
}

/// `ControlRoute.coordination`: clients, granted claims and waiting claims.
package struct CoordinationStatus: Codable, Hashable, Sendable {
    package struct Client: Codable, Hashable, Sendable {
        package var client: UInt64
        package var name: String
        package var process: Int32
        package var presenters: Int
        /// Whether it has left a question unanswered.
        package var isUnresponsive: Bool
        package init(client: UInt64, name: String, process: Int32, presenters: Int, isUnresponsive: Bool) {
            self.client = client
            self.name = name
            self.process = process
            self.presenters = presenters
            self.isUnresponsive = isUnresponsive
        }
    }

    package struct Claim: Codable, Hashable, Sendable {
        package var claim: UInt64
        /// A client's name, "process 1234" or "ubiquity".
        package var owner: String
        /// "granted", "waiting" (for other claims), "asking" (presenters).
        package var state: String
        /// The first items, each with "read" or "write" and the purpose, e.g. "write for-deleting notes.txt".
        package var items: [String]
        /// In seconds, since the request.
        package var age: Double
        /// What it waits for: owners of claims, clients that must answer.
        package var waitsFor: [String]
        package init(
            claim: UInt64, owner: String, state: String, items: [String], age: Double, waitsFor: [String]
        ) {
            self.claim = claim
            self.owner = owner
            self.state = state
            self.items = items
            self.age = age
            self.waitsFor = waitsFor
        }
    }

    package var clients: [Client]
    package var claims: [Claim]
    /// Files that programs have open and that concern no client.
    package var plainOpens: Int
    package var isStrict: Bool

    package init(clients: [Client], claims: [Claim], plainOpens: Int, isStrict: Bool) {
        self.clients = clients
        self.claims = claims
        self.plainOpens = plainOpens
        self.isStrict = isStrict
    }
}
