internal import UbiquityCore

// Time limits, and requests that wait for each other.
extension Arbiter {
    /// Ends what has taken too long. Call it regularly while `needsTicks` is true.
    package mutating func tick(now: Duration, in surroundings: some Surroundings) -> [ArbiterAction] {
        var actions = [ArbiterAction]()
        passOver(now, surroundings, &actions)
        for id in waiting where requests[id].map({ $0.state == .waiting && now >= $0.deadline }) ?? false {
            fail(id, .timedOut, now, surroundings, &actions)
        }
        // The patience with readers may have ended, which changes the obstacles.
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

    // MARK: Deadlocks

    /// Returns whether the request waits, directly or through others, for a claim that this owner holds, or for the
    /// owner's answer.
    ///
    /// - Parameter counts: Returns whether a claim of the owner counts.
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

    /// Returns whether a new request waits for a claim of the same owner and purpose. That claim will certainly not be
    /// released while the request waits.
    func isDeadlocked(_ id: ClaimID, _ surroundings: some Surroundings) -> Bool {
        guard let request = requests[id], let purpose = request.purpose else { return false }
        var search = DependencySearch(arbiter: self)
        return search.leads(from: request, surroundings) { search, obstacle in
            guard case .request(let found) = obstacle, let other = search.arbiter.requests[found] else { return false }
            return other.state == .granted && other.owner == request.owner && other.purpose == purpose
        }
    }

    /// Breaks a suspected deadlock: among requests that have waited in a cycle for some time, the youngest fails. Their
    /// purposes do not tell whether they belong together. An owner may do several things at once, so a cycle of owners
    /// need not be a cycle of claims.
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
        // The other suspects may continue now; if not, they are suspected again.
        for id in waiting { requests[id]?.suspectedSince = nil }
        if waitsInLineAlone(broken, now, surroundings) {
            requests[broken]?.passesWaiting = true
            advance([broken], now, surroundings, &actions)
        } else {
            fail(broken, .deadlock, now, surroundings, &actions)
        }
    }

    /// Returns whether the only obstacles are requests that wait for its owner: the request seems nested in what they
    /// wait for.
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

/// Follows dependencies: from a request to the claims that block it, and from their owners to what those wait for.
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

    /// Returns the requests that the obstacle's owner waits for.
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

    /// Returns whether an answer of that owner may be awaited.
    fileprivate func isAskedAnything(_ owner: ClaimOwner) -> Bool {
        switch owner {
        // A client's child may be asked in its place.
        case .client, .program: !questions.isEmpty
        case .system: false
        }
    }

    /// Returns whether an owner may hold a claim. An owner without claims is in no cycle.
    fileprivate func mayHold(_ owner: ClaimOwner) -> Bool {
        switch owner {
        case .client(let client): clients[client]?.claims.contains { requests[$0]?.state == .granted } ?? false
        case .program: isStrict || !programs.isEmpty
        case .system: true
        }
    }
}
