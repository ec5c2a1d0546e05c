internal import UbiquityCore

// What is in a request's way.
extension Arbiter {
    enum Obstacle {
        case request(ClaimID)
        case program(ClaimID, Int32)
    }

    // MARK: Owners

    /// Whether the two never hold each other up.
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

    /// A program is a client's if the client's process is it, or started it. (Not the other way round: the shell that
    /// a client was started from is a program like any other.)
    func program(_ program: Int32, isOf client: ClientID, _ surroundings: some Surroundings) -> Bool {
        guard let process = clients[client]?.description.process, process > 0, program > 0 else { return false }
        return surroundings.process(program, descendsFrom: process)
    }

    // MARK: Places

    /// The folders that a unit is in, nearest first.
    func folders(above unit: ClaimUnit, _ surroundings: some Surroundings) -> [ItemKey] {
        switch unit {
        case .name(let parent, _): surroundings.ancestry(of: parent).folders
        case .item(let item): surroundings.entry(of: item).map { surroundings.ancestry(of: $0.parent).folders } ?? []
        }
    }

    /// Requests, of whatever state, with a claim that excludes this one.
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

    /// What keeps the request from being granted. `all` false: the first that is found.
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

    /// Whether the request need not wait behind an earlier one that waits itself: for what the request's owner holds,
    /// and may not give back before he has this one too.
    ///
    /// Not for what he has got since by passing it: a client that reads in many threads, so that one has always begun
    /// before another ends, would be passed to without end. Whether one is nested in another its purpose tells, or that
    /// the other does not end (`breakDeadlock`).
    func mayPass(_ other: Request, _ request: Request, _ surroundings: some Surroundings) -> Bool {
        if request.passesWaiting { return depends(other, on: request.owner, surroundings) }
        return depends(other, on: request.owner, surroundings) { held in
            held.id < other.id || (request.purpose != nil && held.purpose == request.purpose)
        }
    }

    /// All that the request waits for, whoever asks: claims that are held, earlier requests, and plain writers. (Plain
    /// readers are passed in the end.)
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
        // How this device's own doings and plain programs go together, the file system and the index know.
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

    /// What a program has open that started the client was handed to the client, too (a shell's redirection): it does
    /// not hold the client up.
    private func started(_ program: Int32, _ client: ClientID, _ surroundings: some Surroundings) -> Bool {
        guard let process = clients[client]?.description.process, process > 0, program > 0 else { return false }
        return surroundings.process(process, descendsFrom: program)
    }

    /// Whether one of the questions that `other` waits for is to that owner.
    func isAsked(by other: Request, _ owner: ClaimOwner, _ surroundings: some Surroundings) -> Bool {
        other.openQuestions.contains { id in
            guard let question = questions[id]?.question else { return false }
            return areOne(.client(question.client), owner, surroundings)
        }
    }

    /// What somebody is asked to save is saved past those who only read; and a viewer is not waited for for ever.
    private func hasPatience(_ request: Request, _ now: Duration, _ surroundings: some Surroundings) -> Bool {
        if now >= request.arrivedAt + ArbiterLimits.readerPatience { return false }
        return !waiting.contains { id in
            guard let other = requests[id], other.state == .asking else { return false }
            return isAsked(by: other, request.owner, surroundings)
        }
    }

    /// Whether `other` is a plain reader that the request need not wait for any longer.
    private func isPassed(
        _ other: Request, by request: Request, _ now: Duration, _ surroundings: some Surroundings
    ) -> Bool {
        guard other.isProgram, !isStrict, other.claims.values.allSatisfy({ $0.access.isReading }) else { return false }
        return !hasPatience(request, now, surroundings)
    }

    /// Plain opens that a client's claim has to wait for.
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

    /// Of a package, or of a folder that is to go.
    private func programsInside(_ claim: UnitClaim, _ surroundings: some Surroundings) -> [ProgramHold] {
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
