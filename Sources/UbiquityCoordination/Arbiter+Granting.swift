internal import UbiquityCore

// A request's way: it waits, its presenters are asked, it is granted.
extension Arbiter {
    /// Looks at requests that may be able to go on, oldest first.
    mutating func advance(
        _ ids: [ClaimID], _ now: Duration, _ surroundings: some Surroundings, _ actions: inout [ArbiterAction]
    ) {
        var pending = ids
        while !pending.isEmpty {
            var freed = [ClaimID]()
            for id in pending { freed += step(id, now, surroundings, &actions) }
            pending = freed.sorted()
        }
    }

    /// - Returns: requests that can perhaps go on by what happened.
    private mutating func step(
        _ id: ClaimID, _ now: Duration, _ surroundings: some Surroundings, _ actions: inout [ArbiterAction]
    ) -> [ClaimID] {
        guard let request = requests[id], request.state == .waiting else { return [] }
        guard obstacles(to: request, now, surroundings).isEmpty else {
            if !request.mayWait { fail(id, .wouldWait, now, surroundings, &actions) }
            return []
        }
        let asked = request.wasAsked ? [] : drawQuestions(for: request, now, surroundings)
        guard !asked.isEmpty else {
            grant(id, &actions)
            return []
        }
        guard request.mayWait else {
            fail(id, .wouldWait, now, surroundings, &actions)
            return []
        }
        return ask(asked, for: id, now, &actions)
    }

    private mutating func grant(_ id: ClaimID, _ actions: inout [ArbiterAction]) {
        requests[id]?.state = .granted
        requests[id]?.suspectedSince = nil
        stopWaiting(id)
        actions.append(.granted(id))
    }

    private mutating func ask(
        _ asked: [Question], for id: ClaimID, _ now: Duration, _ actions: inout [ArbiterAction]
    ) -> [ClaimID] {
        var freed = [ClaimID]()
        requests[id]?.wasAsked = true
        for question in asked {
            questions[question.id] = OpenQuestion(question: question, request: id)
            requests[id]?.questions.append(question.id)
            actions.append(.ask(question))
            // One that has not answered before is told, too, but holds nobody up.
            guard clients[question.client]?.isUnresponsive == false else { continue }
            requests[id]?.openQuestions.insert(question.id)
        }
        guard requests[id]?.openQuestions.isEmpty == false else {
            grant(id, &actions)
            return []
        }
        requests[id]?.state = .asking
        requests[id]?.askedAt = now
        // What was asked may be under way already, and wait behind this request.
        for question in asked { freed += clients[question.client]?.claims ?? [] }
        return freed + waiting.filter { requests[$0]?.isProgram ?? false }
    }

    // MARK: Questions

    private mutating func drawQuestions(
        for request: Request, _ now: Duration, _ surroundings: some Surroundings
    ) -> [Question] {
        guard !presenters.isEmpty else { return [] }
        var steps: [PresenterID: (abilities: Set<PresenterDescription.Ability>, subitems: [ItemKey])] = [:]
        for claim in request.claims.values where !isCovered(claim, request, surroundings) {
            let wanted = claim.access.demands
            guard !wanted.isEmpty else { continue }
            for id in presenters(of: claim, surroundings) {
                guard let presenter = presenters[id] else { continue }
                steps[id, default: ([], [])].abilities.formUnion(presenter.description.abilities.intersection(wanted))
            }
            for (id, item) in folderPresenters(losing: claim, surroundings) {
                steps[id, default: ([], [])].abilities.insert(.accommodateSubitemDeletion)
                steps[id, default: ([], [])].subitems.append(item)
            }
        }
        return steps.sorted { $0.key < $1.key }.compactMap { id, wanted in
            guard !wanted.abilities.isEmpty, let presenter = presenters[id], let client = clients[presenter.client],
                !isOwn(id, presenter, request, surroundings)
            else { return nil }
            return Question(
                id: QuestionID(nextNumber()), client: presenter.client, presenter: id,
                steps: PresenterDescription.Ability.allCases.filter(wanted.abilities.contains),
                subitems: wanted.subitems, isPlainCall: request.isProgram, deadline: now + client.answerTime)
        }
    }

    /// Whether the owner holds the unit already, so that everyone has been asked: a client opens under its claim.
    private func isCovered(_ claim: UnitClaim, _ request: Request, _ surroundings: some Surroundings) -> Bool {
        requestsByUnit[claim.unit]?.contains { id in
            guard let other = requests[id], other.state == .granted,
                other.claims[claim.unit]?.access.covers(claim.access) ?? false
            else { return false }
            return areOne(other.owner, other.purpose, request.owner, request.purpose, surroundings)
        } ?? false
    }

    private func presenters(of claim: UnitClaim, _ surroundings: some Surroundings) -> [PresenterID] {
        var found = presentersByUnit[claim.unit] ?? []
        guard claim.reachesDown, case .item(let folder) = claim.unit else { return found }
        for (unit, ids) in presentersByUnit where unit != claim.unit {
            if folders(above: unit, surroundings).contains(folder) { found += ids }
        }
        return found
    }

    /// Presenters of the folders that an item is to go from.
    private func folderPresenters(
        losing claim: UnitClaim, _ surroundings: some Surroundings
    ) -> [(PresenterID, ItemKey)] {
        guard claim.access == .writing(.forDeleting) || claim.access == .writing(.forReplacing),
            case .item(let item) = claim.unit, !folderPresenters.isEmpty
        else { return [] }
        return folders(above: claim.unit, surroundings).flatMap { folder in
            (folderPresenters[folder] ?? []).compactMap { id in
                let abilities = presenters[id]?.description.abilities ?? []
                return abilities.contains(.accommodateSubitemDeletion) ? (id, item) : nil
            }
        }
    }

    /// A client is not asked about what it does itself: with a claim that names a presenter, not that one; by plain
    /// calls of its processes, none of its presenters.
    private func isOwn(
        _ id: PresenterID, _ presenter: Presenter, _ request: Request, _ surroundings: some Surroundings
    ) -> Bool {
        switch request.owner {
        case .client: id == request.presenter
        case .program(let process): program(process, isOf: presenter.client, surroundings)
        case .system: false
        }
    }

    // MARK: Answers

    /// A presenter has done what it was asked, or says why not. An answer that comes too late only shows that it is
    /// there again.
    package mutating func answer(
        _ id: QuestionID, by client: ClientID, refusal: String? = nil, now: Duration, in surroundings: some Surroundings
    ) -> [ArbiterAction] {
        clients[client]?.isUnresponsive = false
        guard let open = questions[id], open.question.client == client else { return [] }
        var actions = [ArbiterAction]()
        let isAwaited = requests[open.request]?.openQuestions.contains(id) ?? false
        if let refusal, isAwaited {
            let name = clients[client]?.description.name ?? ""
            let failure = ClaimFailure.refused(open.question.presenter, client: name, reason: refusal)
            fail(open.request, failure, now, surroundings, &actions)
        } else {
            settle(id, of: open.request, now, surroundings, &actions)
        }
        return actions
    }

    /// The question is no longer waited for.
    mutating func settle(
        _ question: QuestionID, of id: ClaimID, _ now: Duration, _ surroundings: some Surroundings,
        _ actions: inout [ArbiterAction]
    ) {
        guard requests[id]?.openQuestions.remove(question) != nil else { return }
        guard let request = requests[id], request.state == .asking, request.openQuestions.isEmpty else { return }
        requests[id]?.state = .waiting
        // The time it took to ask does not count as waiting for claims.
        requests[id]?.deadline = request.deadline + (now - (request.askedAt ?? now))
        advance([id], now, surroundings, &actions)
    }
}

extension Access {
    /// What presenters of the item have to do first.
    var demands: Set<PresenterDescription.Ability> {
        switch self {
        case .reading(let options) where options.contains(.immediatelyAvailableMetadataOnly): []
        case .reading(let options) where options.contains(.withoutChanges): [.relinquishToReader]
        case .reading: [.relinquishToReader, .saveChanges]
        case .writing(.forMerging): [.relinquishToWriter, .saveChanges]
        case .writing(.forDeleting), .writing(.forReplacing): [.relinquishToWriter, .accommodateDeletion]
        case .writing: [.relinquishToWriter]
        case .evicting: [.accommodateEviction]
        }
    }
}
