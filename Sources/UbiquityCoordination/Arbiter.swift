internal import UbiquityCore

/// Decides who may use which item when: claims, the order in which they are granted, and what presenters are asked.
///
/// A pure state machine: time comes with each call, and what is to be done comes back as actions.
///
/// - Readers of a unit share it, writers have it alone. A unit is an item, or a package with all that is in it. Who
///   deletes, moves or replaces a folder waits also for claims on what is in it, and holds those up.
/// - A request is granted whole or not at all, so nobody holds one item while he waits for the other of a pair. It is
///   granted when no other owner's claim is in its way and no earlier request waits for the same: a stream of readers
///   starves no writer. An earlier request is passed if it waits itself (directly or over others) for what the one who
///   passes has held for longer, or if it has just asked him to act.
/// - When nothing is in the way, presenters of the unit are asked what the access demands. The request waits for their
///   answers, each for a limited time, and then for what they claimed in order to answer.
/// - Owners never block themselves: a client, its process and what that started, and all claims of one purpose.
/// - Programs that know nothing of coordination do not hold each other up, unless it is strict.
///
/// Without claims of others, without waiting requests and without presenters a claim costs a few table look-ups,
/// however many claims and presenters there are on other items.
package struct Arbiter: Sendable {
    /// Whether plain programs hold each other up, too.
    package let isStrict: Bool

    var clients: [ClientID: Client] = [:]
    var presenters: [PresenterID: Presenter] = [:]
    var presentersByUnit: [ClaimUnit: [PresenterID]] = [:]
    var presentersByItem: [ItemKey: [PresenterID]] = [:]
    /// Those of folders, which hear of all that is in them.
    var folderPresenters: [ItemKey: [PresenterID]] = [:]
    /// Waiting, asking and granted.
    var requests: [ClaimID: Request] = [:]
    var requestsByUnit: [ClaimUnit: [ClaimID]] = [:]
    /// Folders that some request claims with all that is in them, and how many do.
    var reachingDown: [ItemKey: Int] = [:]
    /// Requests that claim a free name.
    var nameClaims = 0
    /// Requests and presenters whose unit is a folder: without them nobody need look where an item is.
    var folderUnits = 0
    /// Waiting or asking, oldest first.
    var waiting: [ClaimID] = []
    var questions: [QuestionID: OpenQuestion] = [:]
    /// Plain opens that nobody minded, by item.
    var programs: [ItemKey: [ProgramHold]] = [:]
    private var lastNumber: UInt64 = 0

    struct Client: Sendable {
        var description: ClientDescription
        var answerTime: Duration
        var presenters: Set<PresenterID> = []
        var claims: Set<ClaimID> = []
        /// It has let a question's time pass, and has answered none since.
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

    /// Whether time has to be told by `tick`: something waits.
    package var needsTicks: Bool { !waiting.isEmpty }

    /// Whether anybody takes part but plain programs that do not hold each other up.
    package var isQuiet: Bool { clients.isEmpty && requests.isEmpty && !isStrict }

    mutating func nextNumber() -> UInt64 {
        lastNumber += 1
        return lastNumber
    }

    // MARK: Asking for a claim

    /// Takes a request in. The claim's number comes back at once; the actions say what becomes of it, now or later.
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
        // Deleting a member changes the package, it does not take it away.
        let access = isOfPackage && intent.access.takesAway ? Access.writing(nil) : intent.access
        return UnitClaim(unit: unit, access: access, isFolder: intent.target.isFolder || isOfPackage)
    }

    /// What the target is claimed with: the package it is in, or itself.
    func unit(of target: ClaimTarget, in surroundings: some Surroundings) -> ClaimUnit {
        let folder = target.isFolder ? target.item : target.entry?.parent
        if let folder, let package = surroundings.ancestry(of: folder).package { return .item(package) }
        return target.ownUnit
    }

    // MARK: Giving it back

    /// Gives a claim back that was granted, or takes a request back that waits.
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

    // MARK: Books

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

    /// The request is over: its presenters get back what they gave, and those that waited for it go on.
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

    /// With so few waiting all are looked at; with more, those that the ended one can have been in the way of.
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
    /// Whether something was given up that is given back when the access is over.
    var relinquishes: Bool { steps.contains(.relinquishToReader) || steps.contains(.relinquishToWriter) }
}

extension Dictionary {
    /// Takes one element out of the list at `key`, and the list if it was the last.
    mutating func take<Element: Equatable>(_ element: Element, at key: Key) where Value == [Element] {
        guard let place = index(forKey: key) else { return }
        if let position = values[place].lastIndex(of: element) { values[place].remove(at: position) }
        if values[place].isEmpty { remove(at: place) }
    }
}
