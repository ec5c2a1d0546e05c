import UbiquityControl
import UbiquityCoordination
import UbiquityCore
import UbiquityIndex
import UbiquitySystem

/// Commands on claims: `claim` and its end.
struct ClaimCommands: MountCommand {
    /// In seconds: the longest wait of a claim.
    private static let longestWait = 24.0 * 3600

    let parts: MountParts
    let names = ClaimNames()

    func claim(_ wanted: ClaimMessage) async -> ClaimReport {
        let name = wanted.token.map { NamedClaim(client: wanted.client, token: $0) }
        if let name { names.beginLookup(name) }
        defer { if let name { names.endLookup(name) } }
        do {
            guard wanted.items.count <= ArbiterLimits.intents else {
                throw UbiquityError(
                    .tooManyRequests, "the claim has \(wanted.items.count) items, more than \(ArbiterLimits.intents)",
                    remedy: "claim the folder that contains them")
            }
            let intents = try await pool.run { [self] in try wanted.items.map { try intent($0) } }
            let time = wanted.seconds.map { Duration.seconds(min(max($0, 0), Self.longestWait)) }
            let request = ClaimRequest(
                owner: .client(ClientID(wanted.client)), intents: intents,
                presenter: wanted.presenter.map(PresenterID.init), purpose: wanted.purpose,
                waitingTime: time ?? ArbiterLimits.waitingTime)
            let id = try await coordination.claim(request) { [names, coordination] id in
                if let name, names.add(id, as: name) { coordination.end(id) }
            }
            if let name, names.isReleased(name) {
                coordination.end(id)
                throw ClaimFailure.cancelled
            }
            return try await report(id, intents, wanted.items)
        } catch let failure as ClaimFailure {
            if let name { names.remove(name) }
            return ClaimReport(failure: ControlFailure(failure.error(at: wanted.items.first?.path ?? "")))
        } catch {
            return ClaimReport(failure: ControlFailure(error as? UbiquityError ?? UbiquityError(.io, "\(error)")))
        }
    }

    private func report(_ id: ClaimID, _ intents: [ClaimIntent], _ items: [ClaimItem]) async throws -> ClaimReport {
        do {
            let paths = try await pool.run { [self] in
                try zip(intents, items).map { intent, item in
                    try intent.target.item.flatMap { try parts.tree.path(of: $0) } ?? item.path
                }
            }
            return ClaimReport(claim: id.number, paths: paths)
        } catch {
            coordination.end(id)
            throw error
        }
    }

    func end(_ wanted: ClaimEnd) async throws -> Acknowledgement {
        try requireKnown(wanted.client)
        let name = wanted.token.map { NamedClaim(client: wanted.client, token: $0) }
        let claim: ClaimID?
        if let name {
            claim = names.remove(name)
        } else {
            claim = wanted.claim.map(ClaimID.init)
            if let claim { names.remove(claim, of: wanted.client) }
        }
        if let claim, coordination.end(claim, of: ClientID(wanted.client)) { return Acknowledgement() }
        if claim == nil, let name, names.releaseComing(name) { return Acknowledgement() }
        let shown = wanted.token.map { "named '\($0)'" } ?? "\(wanted.claim ?? 0)"
        throw UbiquityError(.notFound, "the client has no claim \(shown); it may have ended already")
    }

    private func intent(_ item: ClaimItem) throws -> ClaimIntent {
        let options = item.options ?? []
        let access: Access
        switch item.use {
        case .read:
            access = .reading(
                try options.reduce(into: ReadingOptions()) { set, name in
                    guard let option = ReadingOptions(named: name) else { throw Self.unknown(name) }
                    set.insert(option)
                })
        case .write:
            guard options.count <= 1 else { throw UbiquityError(.invalid, "a writer has at most one option") }
            access = .writing(
                try options.first.map { name in
                    guard let option = WritingOption(rawValue: name) else { throw Self.unknown(name) }
                    return option
                })
        }
        let resolves = options.contains { ReadingOptions(named: $0) == .resolvesSymbolicLink }
        return ClaimIntent(try parts.tree.target(at: item.path, resolvingLinks: resolves), access)
    }

    private static func unknown(_ option: String) -> UbiquityError {
        UbiquityError(.invalid, "not an option of a claim: \(option)")
    }

}

extension ClaimFailure {
    /// The error for the client that asked for the claim.
    func error(at place: String) -> UbiquityError {
        switch self {
        case .deadlock:
            UbiquityError(
                .busy, "deadlock: it would wait for a program that waits for it", at: place,
                remedy: "claim related items in one request")
        case .timedOut:
            UbiquityError(.timedOut, "another program uses it", at: place, remedy: "'ubiquity status' names it")
        case .cancelled: UbiquityError(.cancelled, "the claim was cancelled", at: place)
        case .refused(_, let client, let reason): UbiquityError(.busy, "\(client) refuses: \(reason)", at: place)
        case .unknownClient: UbiquityError(.invalid, "there is no such client", at: place)
        case .tooMany: UbiquityError(.tooManyRequests, "too many claims", at: place)
        case .wouldWait: UbiquityError(.wouldBlock, "another program uses it", at: place)
        }
    }
}
