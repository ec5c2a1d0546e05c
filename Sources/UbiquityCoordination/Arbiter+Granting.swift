internal import UbiquityCore

// The life of a request: it waits, its presenters are asked, it is granted.
extension Arbiter {
    /// Advances requests that may be able to continue, oldest first.
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

    /// - Returns: Requests that may be able to continue now.
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
            // A client that failed to answer before is asked too, but the request does not wait for it.
            guard clients[question.client]?.isUnresponsive == false else { continue }
            requests[id]?.openQuestions.insert(question.id)
        }
        guard requests[id]?.openQuestions.isEmpty == false else {
            grant(id, &actions)
            return []
        }
        requests[id]?.state = .asking
        requests[id]?.askedAt = now
        // An asked presenter may have started its own access already, which waits behind this request.
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

    /// Returns whether the owner holds the unit already, so that everyone has been asked: a client opens files under
    /// its claim.
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

    /// Returns the presenters of folders that the item is about to leave.
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

    /// Returns whether a presenter belongs to the acting owner and is not asked. A claim of a client names its
    /// presenter; plain calls of its processes skip all of its presenters.
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

    /// Records a presenter's answer: done, or refused with a reason. A late answer only shows that the client responds
    /// again.
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

    /// Stops waiting for a question's answer.
    mutating func settle(
        _ question: QuestionID, of id: ClaimID, _ now: Duration, _ surroundings: some Surroundings,
        _ actions: inout [ArbiterAction]
    ) {
        guard requests[id]?.openQuestions.remove(question) != nil else { return }
        guard let request = requests[id], request.state == .asking, request.openQuestions.isEmpty else { return }
        requests[id]?.state = .waiting
        // The time for the answers does not count as waiting for claims.
        requests[id]?.deadline = request.deadline + (now - (request.askedAt ?? now))
        advance([id], now, surroundings, &actions)
    }
}

extension Access {
    /// The steps that presenters of the item must take first.
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
