internal import UbiquityCore

/// Decides who may use which item and when: claims, the order of grants, and the requests to presenters.
///
/// It is a pure state machine: each call passes the time, and returns actions for the caller to carry out.
///
/// - Readers of a unit share it; a writer has it alone. A unit is an item, or a package with everything in it. An owner
///   that deletes, moves or replaces a folder also waits for claims on items in it, and blocks them.
/// - A request is granted as a whole or not at all. So no owner holds one item of a pair while it waits for the other.
///   It is granted when no other owner's claim blocks it and no earlier request waits for the same unit. So a stream of
///   readers never starves a writer. A request may pass an earlier one in two cases. The earlier one waits, directly or
///   through others, for a claim that the passing owner has held for longer; or it has just asked that owner to act.
/// - When nothing blocks the request, presenters of the unit are asked as the access demands. The request waits a
///   limited time for each answer, and then for claims that presenters made in order to answer.
/// - Owners never block themselves: a client, its process and that process's children, and all claims of one purpose.
/// - Programs that do not coordinate do not block each other, unless the arbiter is strict.
///
/// Without claims of others, waiting requests and presenters, a claim costs a few table lookups, regardless of the
/// claims and presenters on other items.
package struct Arbiter: Sendable {
    /// Whether plain programs block each other too.
    package let isStrict: Bool

    var clients: [ClientID: Client] = [:]
    var presenters: [PresenterID: Presenter] = [:]
    var presentersByUnit: [ClaimUnit: [PresenterID]] = [:]
    var presentersByItem: [ItemKey: [PresenterID]] = [:]
    /// Presenters of folders, which are notified about everything in them.
    var folderPresenters: [ItemKey: [PresenterID]] = [:]
    /// Requests that are waiting, asking or granted.
    var requests: [ClaimID: Request] = [:]
    var requestsByUnit: [ClaimUnit: [ClaimID]] = [:]
    /// Folders claimed with everything in them, and by how many requests.
    var reachingDown: [ItemKey: Int] = [:]
    /// Requests that claim a free name.
    var nameClaims = 0
    /// Requests and presenters whose unit is a folder. At zero, the tree need not be examined.
    var folderUnits = 0
    /// Requests that are waiting or asking, oldest first.
    var waiting: [ClaimID] = []
    var questions: [QuestionID: OpenQuestion] = [:]
    /// Plain opens that affect no client, by item.
    var programs: [ItemKey: [ProgramHold]] = [:]
    private var lastNumber: UInt64 = 0

    struct Client: Sendable {
        var description: ClientDescription
        var answerTime: Duration
        var presenters: Set<PresenterID> = []
        var claims: Set<ClaimID> = []
        /// The client has missed the deadline of a question and answered none since.
        var isUnresponsive = false
    }

    struct Presenter: Sendable {
        var client: ClientID
        var description: PresenterDescription
        var unit: ClaimUnit
    }

    struct OpenQuestion: Sendable {
        var question: Question
        var request: ClaimID
    }

    package init(isStrict: Bool = false) { self.isStrict = isStrict }

    /// Whether `tick` must be called: a request waits.
    package var needsTicks: Bool { !waiting.isEmpty }

    /// Whether nobody takes part except plain programs that do not block each other.
    package var isQuiet: Bool { clients.isEmpty && requests.isEmpty && !isStrict }

    mutating func nextNumber() -> UInt64 {
        lastNumber += 1
        return lastNumber
    }

    // MARK: Requesting a claim

    /// Adds a request. The claim's number is returned at once; the actions tell its outcome, now or later.
    package mutating func request(
        _ new: ClaimRequest, now: Duration, in surroundings: some Surroundings
    ) -> (ClaimID, [ArbiterAction]) {
        let id = ClaimID(nextNumber())
        if let refusal = refusal(of: new) { return (id, [.failed(id, refusal)]) }
        var request = Request(
            id: id, owner: new.owner, presenter: new.presenter, purpose: new.purpose, mayWait: new.mayWait,
            arrivedAt: now, claims: [:], deadline: now + new.waitingTime)
        for intent in new.intents {
            let claim = unitClaim(intent, in: surroundings)
            if var known = request.claims[claim.unit] {
                known.access = known.access.joined(with: claim.access)
                request.claims[claim.unit] = known
            } else {
                request.claims[claim.unit] = claim
            }
        }
        enter(request)
        var actions = [ArbiterAction]()
        advance([id], now, surroundings, &actions)
        if requests[id]?.state == .waiting, isDeadlocked(id, surroundings) {
            fail(id, .deadlock, now, surroundings, &actions)
        }
        return (id, actions)
    }

    private func refusal(of new: ClaimRequest) -> ClaimFailure? {
        if new.intents.count > ArbiterLimits.intents || waiting.count >= ArbiterLimits.waitingClaims { return .tooMany }
        guard case .client(let id) = new.owner else { return nil }
        guard let client = clients[id] else { return .unknownClient }
        return client.claims.count >= ArbiterLimits.claimsPerClient ? .tooMany : nil
    }

    private func unitClaim(_ intent: ClaimIntent, in surroundings: some Surroundings) -> UnitClaim {
        let unit = unit(of: intent.target, in: surroundings)
        let isOfPackage = unit != intent.target.ownUnit
        // Deleting a member changes the package but does not remove it.
        let access = isOfPackage && intent.access.takesAway ? Access.writing(nil) : intent.access
        return UnitClaim(unit: unit, access: access, isFolder: intent.target.isFolder || isOfPackage)
    }

    /// Returns the unit of a target: the package that holds it, or the target itself.
    func unit(of target: ClaimTarget, in surroundings: some Surroundings) -> ClaimUnit {
        let folder = target.isFolder ? target.item : target.entry?.parent
        if let folder, let package = surroundings.ancestry(of: folder).package { return .item(package) }
        return target.ownUnit
    }

    // MARK: Releasing a claim

    /// Releases a granted claim, or cancels a waiting request.
    package mutating func end(_ id: ClaimID, now: Duration, in surroundings: some Surroundings) -> [ArbiterAction] {
        var actions = [ArbiterAction]()
        guard let request = requests[id] else { return [] }
        if request.state == .granted {
            leave(request, now, surroundings, &actions)
        } else {
            fail(id, .cancelled, now, surroundings, &actions)
        }
        return actions
    }

    mutating func fail(
        _ id: ClaimID, _ failure: ClaimFailure, _ now: Duration, _ surroundings: some Surroundings,
        _ actions: inout [ArbiterAction]
    ) {
        guard let request = requests[id] else { return }
        actions.append(.failed(id, failure))
        leave(request, now, surroundings, &actions)
    }

    // MARK: Bookkeeping

    private mutating func enter(_ request: Request) {
        requests[request.id] = request
        waiting.append(request.id)
        if case .client(let client) = request.owner { clients[client]?.claims.insert(request.id) }
        for claim in request.claims.values {
            requestsByUnit[claim.unit, default: []].append(request.id)
            if claim.isFolder { folderUnits += 1 }
            if case .name = claim.unit { nameClaims += 1 }
            if claim.reachesDown, case .item(let folder) = claim.unit { reachingDown[folder, default: 0] += 1 }
        }
    }

    /// Removes a request: its presenters may reacquire the item, and requests that waited for it continue.
    private mutating func leave(
        _ request: Request, _ now: Duration, _ surroundings: some Surroundings, _ actions: inout [ArbiterAction]
    ) {
        let concerned = mayGoOn(after: request)
        remove(request)
        for id in request.questions {
            guard let open = questions.removeValue(forKey: id), open.question.relinquishes else { continue }
            actions.append(.reacquire(id, open.question.client, open.question.presenter))
        }
        advance(concerned, now, surroundings, &actions)
    }

    private mutating func remove(_ request: Request) {
        requests[request.id] = nil
        stopWaiting(request.id)
        if case .client(let client) = request.owner { clients[client]?.claims.remove(request.id) }
        for claim in request.claims.values {
            requestsByUnit.take(request.id, at: claim.unit)
            if claim.isFolder { folderUnits -= 1 }
            if case .name = claim.unit { nameClaims -= 1 }
            guard claim.reachesDown, case .item(let folder) = claim.unit, let count = reachingDown[folder] else {
                continue
            }
            reachingDown[folder] = count > 1 ? count - 1 : nil
        }
    }

    mutating func stopWaiting(_ id: ClaimID) {
        var low = 0, high = waiting.count
        while low < high {
            let middle = (low + high) / 2
            if waiting[middle] < id { low = middle + 1 } else { high = middle }
        }
        if low < waiting.count, waiting[low] == id { waiting.remove(at: low) }
    }

    /// Up to this many waiting requests are all examined; beyond it, only those that the ended request may have
    /// blocked.
    private static let fewWaiting = 64

    private func mayGoOn(after request: Request) -> [ClaimID] {
        let reaches = request.claims.values.contains { $0.reachesDown }
        if waiting.count <= Self.fewWaiting || reaches || nameClaims > 0 { return waiting }
        var found = Set<ClaimID>()
        for unit in request.claims.keys { found.formUnion(requestsByUnit[unit] ?? []) }
        for folder in reachingDown.keys { found.formUnion(requestsByUnit[.item(folder)] ?? []) }
        return found.filter { requests[$0]?.state != .granted }.sorted()
    }
}

extension ClaimTarget {
    /// The unit of an item that is in no package.
    var ownUnit: ClaimUnit {
        if let item { return .item(item) }
        if let entry { return .name(parent: entry.parent, entry.name) }
        return .item(.root)
    }
}

extension Question {
    /// Whether the presenter gave something up that it may reacquire after the access.
    var relinquishes: Bool { steps.contains(.relinquishToReader) || steps.contains(.relinquishToWriter) }
}

extension Dictionary {
    /// Removes one element from the list at `key`, and the list if it becomes empty.
    mutating func take<Element: Equatable>(_ element: Element, at key: Key) where Value == [Element] {
        guard let place = index(forKey: key) else { return }
        if let position = values[place].lastIndex(of: element) { values[place].remove(at: position) }
        if values[place].isEmpty { remove(at: place) }
    }
}
