internal import UbiquityCore

/// The claims and waiting requests at one moment, for people and for tests.
package struct ArbiterSnapshot: Sendable, Hashable {
    package struct Entry: Sendable, Hashable {
        package enum State: String, Sendable, Hashable {
            case waiting
            case asking
            case granted
        }

        package var id: ClaimID
        package var owner: ClaimOwner
        package var state: State
        package var purpose: String?
        package var units: [Unit]
        /// The time since the request arrived.
        package var age: Duration
        /// Clients whose answers the request waits for.
        package var awaitedClients: [ClientID]
        /// Claims that block the request.
        package var awaitedClaims: [ClaimID]
    }

    package struct Unit: Sendable, Hashable {
        package var unit: ClaimUnit
        package var access: Access
    }

    package struct ClientEntry: Sendable, Hashable {
        package var id: ClientID
        package var description: ClientDescription
        package var presenters: Int
        package var isUnresponsive: Bool
    }

    package var clients: [ClientEntry]
    package var claims: [Entry]
    /// Files that plain programs have open without affecting a client.
    package var plainOpens: Int

    /// Maximum items listed per claim.
    package static let maximumUnits = 20
}

extension Arbiter {
    /// - Parameter limit: Maximum claims listed; waiting ones come first.
    package func snapshot(limit: Int, now: Duration, in surroundings: some Surroundings) -> ArbiterSnapshot {
        let order = requests.values.sorted { left, right in
            let leftWaits = left.state != .granted, rightWaits = right.state != .granted
            return leftWaits == rightWaits ? left.id < right.id : leftWaits
        }
        return ArbiterSnapshot(
            clients: clients.sorted { $0.key < $1.key }.map { id, client in
                ArbiterSnapshot.ClientEntry(
                    id: id, description: client.description, presenters: client.presenters.count,
                    isUnresponsive: client.isUnresponsive)
            },
            claims: order.prefix(limit).map { entry($0, now, surroundings) },
            plainOpens: programs.values.reduce(0) { $0 + $1.count })
    }

    private func entry(
        _ request: Request, _ now: Duration, _ surroundings: some Surroundings
    ) -> ArbiterSnapshot.Entry {
        let isWaiting = request.state == .waiting
        let inTheWay = isWaiting ? obstacles(to: request, now, surroundings, all: true) : []
        return ArbiterSnapshot.Entry(
            id: request.id, owner: request.owner, state: request.state.shown, purpose: request.purpose,
            units: request.claims.values.prefix(ArbiterSnapshot.maximumUnits).map {
                ArbiterSnapshot.Unit(unit: $0.unit, access: $0.access)
            },
            age: now - request.arrivedAt,
            awaitedClients: request.openQuestions.compactMap { questions[$0]?.question.client }.sorted(),
            awaitedClaims: inTheWay.map { obstacle in
                switch obstacle {
                case .request(let id), .program(let id, _): id
                }
            }.sorted())
    }

    /// For tests: returns a violated invariant; nil if there is none.
    package func violation(in surroundings: some Surroundings) -> String? {
        let granted = requests.values.filter { $0.state == .granted }.sorted { $0.id < $1.id }
        for one in granted {
            for other in granted where other.id > one.id {
                if mayIgnore(one, other, surroundings) || mayIgnore(other, one, surroundings) { continue }
                if let unit = overlap(one, other, surroundings) { return "\(one.id) and \(other.id) both hold \(unit)" }
            }
        }
        let expected = requests.values.filter { $0.state != .granted }.map(\.id).sorted()
        if expected != waiting { return "the list of waiting requests is wrong" }
        if requests.isEmpty, !requestsByUnit.isEmpty || !reachingDown.isEmpty || nameClaims != 0 || !questions.isEmpty {
            return "ended requests left entries behind"
        }
        if requests.isEmpty, presenters.isEmpty, folderUnits != 0 { return "the count of folder units is wrong" }
        return nil
    }

    private func overlap(_ one: Request, _ other: Request, _ surroundings: some Surroundings) -> ClaimUnit? {
        for claim in one.claims.values {
            for against in other.claims.values where claim.access.excludes(against.access) {
                // A plain reader is passed after some time.
                if one.isProgram && claim.access.isReading || other.isProgram && against.access.isReading { continue }
                if claim.unit == against.unit || reaches(claim, against.unit, surroundings)
                    || reaches(against, claim.unit, surroundings)
                {
                    return claim.unit
                }
            }
        }
        return nil
    }

    private func reaches(_ claim: UnitClaim, _ unit: ClaimUnit, _ surroundings: some Surroundings) -> Bool {
        guard claim.reachesDown, case .item(let folder) = claim.unit else { return false }
        return folders(above: unit, surroundings).contains(folder)
    }
}

extension Request.State {
    fileprivate var shown: ArbiterSnapshot.Entry.State {
        switch self {
        case .waiting: .waiting
        case .asking: .asking
        case .granted: .granted
        }
    }
}
