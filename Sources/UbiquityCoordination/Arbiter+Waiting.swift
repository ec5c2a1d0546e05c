internal import UbiquityCore

// Time, and requests that wait for each other.
extension Arbiter {
    /// To be called now and then while `needsTicks`: ends what has taken too long.
    package mutating func tick(now: Duration, in surroundings: some Surroundings) -> [ArbiterAction] {
        var actions = [ArbiterAction]()
        passOver(now, surroundings, &actions)
        for id in waiting where requests[id].map({ $0.state == .waiting && now >= $0.deadline }) ?? false {
            fail(id, .timedOut, now, surroundings, &actions)
        }
        // Patience with readers ends, and who is in whose way may have changed.
        advance(waiting, now, surroundings, &actions)
        breakDeadlock(now, surroundings, &actions)
        return actions
    }

    private mutating func passOver(
        _ now: Duration, _ surroundings: some Surroundings, _ actions: inout [ArbiterAction]
    ) {
        let late = questions.values.filter { open in
            now >= open.question.deadline && requests[open.request]?.openQuestions.contains(open.question.id) ?? false
        }
        for open in late.sorted(by: { $0.question.id < $1.question.id }) {
            clients[open.question.client]?.isUnresponsive = true
            actions.append(.passedOver(open.question.id, open.question.client, open.question.presenter))
            settle(open.question.id, of: open.request, now, surroundings, &actions)
        }
    }

    // MARK: Circles

    /// Whether the request waits, perhaps over others, for a claim that this owner holds, or for his answer.
    /// - Parameter counts: whether a claim of his does.
    func depends(
        _ request: Request, on owner: ClaimOwner, _ surroundings: some Surroundings,
        counts: (Request) -> Bool = { _ in true }
    ) -> Bool {
        guard mayHold(owner) || isAskedAnything(owner) else { return false }
        var search = DependencySearch(arbiter: self)
        return search.leads(from: request, surroundings) { search, obstacle in
            switch obstacle {
            case .program(_, let process): search.arbiter.areOne(.program(process), owner, surroundings)
            case .request(let id):
                search.arbiter.requests[id].map { other in
                    switch other.state {
                    case .granted: search.arbiter.areOne(other.owner, owner, surroundings) && counts(other)
                    case .asking: search.arbiter.isAsked(by: other, owner, surroundings)
                    case .waiting: false
                    }
                } ?? false
            }
        }
    }

    /// Whether a request that has just come waits for what the same owner holds for the same purpose: that claim will
    /// certainly not be given back while the request waits.
    func isDeadlocked(_ id: ClaimID, _ surroundings: some Surroundings) -> Bool {
        guard let request = requests[id], let purpose = request.purpose else { return false }
        var search = DependencySearch(arbiter: self)
        return search.leads(from: request, surroundings) { search, obstacle in
            guard case .request(let found) = obstacle, let other = search.arbiter.requests[found] else { return false }
            return other.state == .granted && other.owner == request.owner && other.purpose == purpose
        }
    }

    /// Requests whose purposes do not tell whether they belong together, and that wait in a circle for some time: the
    /// youngest is given up. (An owner may do several things at once, and then a circle of owners is none of claims.)
    private mutating func breakDeadlock(
        _ now: Duration, _ surroundings: some Surroundings, _ actions: inout [ArbiterAction]
    ) {
        var broken: ClaimID?
        for id in waiting {
            guard let request = requests[id], request.state == .waiting, mayHold(request.owner),
                depends(request, on: request.owner, surroundings)
            else {
                requests[id]?.suspectedSince = nil
                continue
            }
            let since = request.suspectedSince ?? now
            requests[id]?.suspectedSince = since
            if now - since >= ArbiterLimits.suspicionTime { broken = id }
        }
        guard let broken else { return }
        // What else was suspected may go on by this, and is suspected anew if not.
        for id in waiting { requests[id]?.suspectedSince = nil }
        if waitsInLineAlone(broken, now, surroundings) {
            requests[broken]?.passesWaiting = true
            advance([broken], now, surroundings, &actions)
        } else {
            fail(broken, .deadlock, now, surroundings, &actions)
        }
    }

    /// Whether nothing is in its way but those who wait for its owner: it seems to be nested in what they wait for.
    private func waitsInLineAlone(_ id: ClaimID, _ now: Duration, _ surroundings: some Surroundings) -> Bool {
        guard let request = requests[id], !request.passesWaiting else { return false }
        return obstacles(to: request, now, surroundings, all: true).allSatisfy { obstacle in
            guard case .request(let found) = obstacle, let other = requests[found], other.state != .granted else {
                return false
            }
            return depends(other, on: request.owner, surroundings)
        }
    }
}

/// Follows who waits for whom: from a request to the claims in its way, and from their owners to what those wait for.
private struct DependencySearch {
    let arbiter: Arbiter
    private var seen: Set<ClaimID> = []

    init(arbiter: Arbiter) { self.arbiter = arbiter }

    mutating func leads(
        from start: Request, _ surroundings: some Surroundings,
        to isGoal: (DependencySearch, Arbiter.Obstacle) -> Bool
    ) -> Bool {
        var pending = [start]
        seen = [start.id]
        while let request = pending.popLast() {
            for obstacle in arbiter.everyRival(of: request, surroundings) {
                if isGoal(self, obstacle) { return true }
                pending += next(after: obstacle, surroundings)
            }
        }
        return false
    }

    /// What the one in the way waits for itself.
    private mutating func next(after obstacle: Arbiter.Obstacle, _ surroundings: some Surroundings) -> [Request] {
        let ids: [ClaimID]
        switch obstacle {
        case .program(_, let process): ids = arbiter.waitingClaims(of: .program(process), surroundings)
        case .request(let id):
            guard let other = arbiter.requests[id] else { return [] }
            ids = other.state == .granted ? arbiter.waitingClaims(of: other.owner, surroundings) : [id]
        }
        return ids.compactMap { id in seen.insert(id).inserted ? arbiter.requests[id] : nil }
    }
}

extension Arbiter {
    fileprivate func waitingClaims(of owner: ClaimOwner, _ surroundings: some Surroundings) -> [ClaimID] {
        switch owner {
        case .client(let client): clients[client]?.claims.filter { requests[$0]?.state == .waiting } ?? []
        case .program:
            waiting.filter { id in
                requests[id].map { $0.isProgram && areOne($0.owner, owner, surroundings) } ?? false
            }
        case .system: waiting.filter { requests[$0]?.owner == .system }
        }
    }

    /// Whether an answer of that owner may be waited for.
    fileprivate func isAskedAnything(_ owner: ClaimOwner) -> Bool {
        switch owner {
        // A client's child may be asked in its stead.
        case .client, .program: !questions.isEmpty
        case .system: false
        }
    }

    /// Whether an owner may hold something: who holds nothing is in no circle.
    fileprivate func mayHold(_ owner: ClaimOwner) -> Bool {
        switch owner {
        case .client(let client): clients[client]?.claims.contains { requests[$0]?.state == .granted } ?? false
        case .program: isStrict || !programs.isEmpty
        case .system: true
        }
    }
}
