internal import UbiquityCore

// Finds the obstacles to a request.
extension Arbiter {
    enum Obstacle {
        case request(ClaimID)
        case program(ClaimID, Int32)
    }

    // MARK: Owners

    /// Returns whether the two owners never block each other.
    func areOne(
        _ left: ClaimOwner, _ leftPurpose: String?, _ right: ClaimOwner, _ rightPurpose: String?,
        _ surroundings: some Surroundings
    ) -> Bool {
        if let leftPurpose, leftPurpose == rightPurpose { return true }
        return areOne(left, right, surroundings)
    }

    func areOne(_ left: ClaimOwner, _ right: ClaimOwner, _ surroundings: some Surroundings) -> Bool {
        if left == right { return true }
        switch (left, right) {
        case (.system, _), (_, .system): return false
        case (.program(let program), .client(let client)), (.client(let client), .program(let program)):
            return self.program(program, isOf: client, surroundings)
        case (.program(let one), .program(let other)): return areRelated(one, other, surroundings)
        case (.client(let one), .client(let other)):
            guard let one = clients[one], let other = clients[other] else { return false }
            return areRelated(one.description.process, other.description.process, surroundings)
        }
    }

    private func areRelated(_ one: Int32, _ other: Int32, _ surroundings: some Surroundings) -> Bool {
        guard one > 0, other > 0 else { return false }
        return surroundings.process(one, descendsFrom: other) || surroundings.process(other, descendsFrom: one)
    }

    /// Returns whether a program belongs to a client: it is the client's process or was started by it. The reverse does
    /// not count: the shell that started the client is a program like any other.
    func program(_ program: Int32, isOf client: ClientID, _ surroundings: some Surroundings) -> Bool {
        guard let process = clients[client]?.description.process, process > 0, program > 0 else { return false }
        return surroundings.process(program, descendsFrom: process)
    }

    // MARK: Places

    /// Returns the folders that contain a unit, nearest first.
    func folders(above unit: ClaimUnit, _ surroundings: some Surroundings) -> [ItemKey] {
        switch unit {
        case .name(let parent, _): surroundings.ancestry(of: parent).folders
        case .item(let item): surroundings.entry(of: item).map { surroundings.ancestry(of: $0.parent).folders } ?? []
        }
    }

    /// Returns requests, in any state, with a claim that excludes this one.
    func rivals(of claim: UnitClaim, _ surroundings: some Surroundings) -> [ClaimID] {
        var found = rivals(of: claim, at: claim.unit, onlyReachingDown: false)
        if nameClaims > 0, case .item(let item) = claim.unit, let entry = surroundings.entry(of: item) {
            found += rivals(of: claim, at: .name(parent: entry.parent, entry.name), onlyReachingDown: false)
        }
        if !reachingDown.isEmpty {
            for folder in folders(above: claim.unit, surroundings) where reachingDown[folder] != nil {
                found += rivals(of: claim, at: .item(folder), onlyReachingDown: true)
            }
        }
        guard claim.reachesDown, case .item(let folder) = claim.unit else { return found }
        for unit in requestsByUnit.keys where unit != claim.unit {
            guard folders(above: unit, surroundings).contains(folder) else { continue }
            found += rivals(of: claim, at: unit, onlyReachingDown: false)
        }
        return found
    }

    private func rivals(of claim: UnitClaim, at unit: ClaimUnit, onlyReachingDown: Bool) -> [ClaimID] {
        guard let ids = requestsByUnit[unit] else { return [] }
        return ids.filter { id in
            guard let other = requests[id]?.claims[unit], !onlyReachingDown || other.reachesDown else { return false }
            return other.access.excludes(claim.access)
        }
    }

    // MARK: Obstacles

    /// Returns what prevents the request from being granted; only the first obstacle unless `all` is true.
    func obstacles(
        to request: Request, _ now: Duration, _ surroundings: some Surroundings, all: Bool = false
    ) -> [Obstacle] {
        var found = [Obstacle]()
        for claim in request.claims.values {
            for id in rivals(of: claim, surroundings) {
                guard let other = requests[id], isInTheWay(other, of: request, now, surroundings) else { continue }
                found.append(.request(id))
                if !all { return found }
            }
            found += programs(inTheWayOf: claim, of: request, now, surroundings)
            if !all, !found.isEmpty { return found }
        }
        return found
    }

    private func isInTheWay(
        _ other: Request, of request: Request, _ now: Duration, _ surroundings: some Surroundings
    ) -> Bool {
        guard !mayIgnore(other, request, surroundings) else { return false }
        switch other.state {
        case .granted: return !isPassed(other, by: request, now, surroundings)
        case .asking where isAsked(by: other, request.owner, surroundings): return false
        case .waiting, .asking:
            return other.id < request.id && !mayPass(other, request, surroundings)
        }
    }

    /// Returns whether the request may pass an earlier one that itself waits. It may if that one waits for a claim of
    /// the request's owner, who may not release it before getting this one too.
    ///
    /// A claim that the owner obtained later by passing does not count. Otherwise a client that reads in many threads,
    /// always starting one before another ends, would pass without end. Nested requests are recognized by their
    /// purpose, or because the wait does not end (`breakDeadlock`).
    func mayPass(_ other: Request, _ request: Request, _ surroundings: some Surroundings) -> Bool {
        if request.passesWaiting { return depends(other, on: request.owner, surroundings) }
        return depends(other, on: request.owner, surroundings) { held in
            held.id < other.id || (request.purpose != nil && held.purpose == request.purpose)
        }
    }

    /// Returns everything the request waits for, whoever owns it: granted claims, earlier requests, and plain writers.
    /// Plain readers are passed eventually.
    func everyRival(of request: Request, _ surroundings: some Surroundings) -> [Obstacle] {
        request.claims.values.flatMap { claim -> [Obstacle] in
            let requests = rivals(of: claim, surroundings).filter { id in
                guard let other = self.requests[id], !mayIgnore(other, request, surroundings) else { return false }
                return other.state == .granted || other.id < request.id
            }
            let programs = plainHolds(excluding: claim, of: request, surroundings).filter { !$0.access.isReading }
            return requests.map { .request($0) } + programs.map { .program($0.id, $0.process) }
        }
    }

    func mayIgnore(_ other: Request, _ request: Request, _ surroundings: some Surroundings) -> Bool {
        if other.id == request.id || (!isStrict && other.isProgram && request.isProgram) { return true }
        // The file system and the index order this device's own operations and plain programs.
        if (other.isProgram && request.owner == .system) || (other.owner == .system && request.isProgram) {
            return true
        }
        if case .program(let program) = other.owner, case .client(let client) = request.owner,
            started(program, client, surroundings)
        {
            return true
        }
        return areOne(other.owner, other.purpose, request.owner, request.purpose, surroundings)
    }

    /// Returns whether the program started the client. Files the program has open may be inherited by the client (a
    /// shell's redirection), so they do not block it.
    private func started(_ program: Int32, _ client: ClientID, _ surroundings: some Surroundings) -> Bool {
        guard let process = clients[client]?.description.process, process > 0, program > 0 else { return false }
        return surroundings.process(process, descendsFrom: program)
    }

    /// Returns whether `other` waits for an answer of that owner.
    func isAsked(by other: Request, _ owner: ClaimOwner, _ surroundings: some Surroundings) -> Bool {
        other.openQuestions.contains { id in
            guard let question = questions[id]?.question else { return false }
            return areOne(.client(question.client), owner, surroundings)
        }
    }

    /// Returns whether to wait for plain readers. A presenter that was asked to save passes them, and a viewer is never
    /// waited for indefinitely.
    private func hasPatience(_ request: Request, _ now: Duration, _ surroundings: some Surroundings) -> Bool {
        if now >= request.arrivedAt + ArbiterLimits.readerPatience { return false }
        return !waiting.contains { id in
            guard let other = requests[id], other.state == .asking else { return false }
            return isAsked(by: other, request.owner, surroundings)
        }
    }

    /// Returns whether `other` is a plain reader that the request need not wait for any longer.
    private func isPassed(
        _ other: Request, by request: Request, _ now: Duration, _ surroundings: some Surroundings
    ) -> Bool {
        guard other.isProgram, !isStrict, other.claims.values.allSatisfy({ $0.access.isReading }) else { return false }
        return !hasPatience(request, now, surroundings)
    }

    /// Returns plain opens that a client's claim must wait for.
    private func programs(
        inTheWayOf claim: UnitClaim, of request: Request, _ now: Duration, _ surroundings: some Surroundings
    ) -> [Obstacle] {
        var holds = plainHolds(excluding: claim, of: request, surroundings)
        if !holds.isEmpty, !hasPatience(request, now, surroundings) { holds.removeAll { $0.access.isReading } }
        return holds.map { .program($0.id, $0.process) }
    }

    private func plainHolds(
        excluding claim: UnitClaim, of request: Request, _ surroundings: some Surroundings
    ) -> [ProgramHold] {
        guard case .client(let client) = request.owner, !programs.isEmpty else { return [] }
        var holds = [ProgramHold]()
        if case .item(let item) = claim.unit { holds += programs[item] ?? [] }
        if claim.isFolder { holds += programsInside(claim, surroundings) }
        return holds.filter {
            $0.access.excludes(claim.access) && !program($0.process, isOf: client, surroundings)
                && !started($0.process, client, surroundings)
        }
    }

    /// Returns plain opens inside a package, or inside a folder that will be removed or moved.
    func programsInside(_ claim: UnitClaim, _ surroundings: some Surroundings) -> [ProgramHold] {
        guard case .item(let folder) = claim.unit else { return [] }
        var found = [ProgramHold]()
        for (item, holds) in programs where item != folder {
            guard let entry = surroundings.entry(of: item) ?? holds.first?.entry else { continue }
            let ancestry = surroundings.ancestry(of: entry.parent)
            if ancestry.package == folder || (claim.reachesDown && ancestry.folders.contains(folder)) { found += holds }
        }
        return found
    }
}
