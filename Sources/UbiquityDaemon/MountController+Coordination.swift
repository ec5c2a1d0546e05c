import UbiquityControl
import UbiquityCoordination
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityVFS

// Claims and presenters of coordination clients.
extension MountController {
    /// In seconds: the longest time that a client may reserve for its answers.
    private static let longestAnswerTime = 60.0
    /// In seconds: the longest wait of a claim.
    private static let longestWait = 24.0 * 3600
    /// Characters of a client's name that are shown.
    private static let longestName = 100

    var coordination: Coordination { parts.coordination }

    // MARK: Clients and presenters

    func addClient(_ wanted: ClientRegistration) throws -> (ClientID, AsyncStream<ClientMessage>) {
        let time = wanted.answerTime.map { Duration.seconds(min(max($0, 0.1), Self.longestAnswerTime)) }
        let process = wanted.process.map { $0 > 0 ? ProcessTree.leader(of: $0) : 0 }
        let description = ClientDescription(name: Self.shown(wanted.name), process: process ?? 0)
        guard let added = coordination.add(description, answerTime: time ?? ArbiterLimits.answerTime) else {
            throw UbiquityError(.tooManyRequests, "too many coordination clients")
        }
        return (added.client, added.messages)
    }

    /// A client's name, cleaned for display on one line.
    private static func shown(_ name: String) -> String {
        let scalars = name.unicodeScalars.prefix(longestName).map { scalar -> Unicode.Scalar in
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator: "\u{FFFD}"
            default: scalar
            }
        }
        return String(String.UnicodeScalarView(scalars))
    }

    private func requireKnown(_ client: UInt64) throws {
        guard !coordination.isKnown(ClientID(client)) else { return }
        throw UbiquityError(
            .notFound, "no client has the number \(client)", at: parts.settings.mountPoint,
            remedy: "its stream has ended; register again")
    }

    func leave(_ wanted: ClientLeave) async throws -> Acknowledgement {
        try requireKnown(wanted.client)
        remove(ClientID(wanted.client))
        return Acknowledgement()
    }

    func addPresenter(_ wanted: PresenterRegistration) async throws -> PresenterReport {
        let abilities = try wanted.abilities.map { name in
            guard let ability = PresenterDescription.Ability(rawValue: name) else {
                throw UbiquityError(.invalid, "not a step of a presenter: \(name)")
            }
            return ability
        }
        try requireKnown(wanted.client)
        return try await pool.run { [self] in
            let target = try target(of: wanted.path)
            let description = PresenterDescription(target: target, abilities: Set(abilities))
            if !coordination.hasPresenters { parts.presenters.noteConflicts() }
            guard let id = coordination.add(description, for: ClientID(wanted.client)) else {
                try requireKnown(wanted.client)
                throw UbiquityError(
                    .tooManyRequests, "the client has \(ArbiterLimits.presentersPerClient) presenters, the maximum",
                    at: wanted.path, remedy: "register the folder that contains the items")
            }
            return PresenterReport(presenter: id.number)
        }
    }

    private func target(of path: String) throws -> ClaimTarget { try parts.tree.row(at: path).claimTarget }

    func removePresenter(_ wanted: PresenterRemoval) async throws -> Acknowledgement {
        try requireKnown(wanted.client)
        guard coordination.remove(PresenterID(wanted.presenter), of: ClientID(wanted.client)) else {
            throw UbiquityError(.notFound, "the client has no presenter \(wanted.presenter)")
        }
        return Acknowledgement()
    }

    func answer(_ wanted: PresenterAnswer) async throws -> Acknowledgement {
        try requireKnown(wanted.client)
        // A late answer changes nothing, except that the client counts as responsive again.
        coordination.answer(QuestionID(wanted.question), by: ClientID(wanted.client), refusal: wanted.refusal)
        return Acknowledgement()
    }

    // MARK: Claims

    func claim(_ wanted: ClaimMessage) async -> ClaimReport {
        let name = wanted.token.map { NamedClaim(client: wanted.client, token: $0) }
        if let name { comingClaims.withLock { $0[name] = false } }
        defer { if let name { comingClaims.withLock { _ = $0.removeValue(forKey: name) } } }
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
            let id = try await coordination.claim(request) { [namedClaims, comingClaims, coordination] id in
                guard let name else { return }
                namedClaims.withLock { $0[name] = id }
                // From here on, a release by name finds the claim. An earlier release is found here.
                if comingClaims.withLock({ $0[name] ?? false }) { coordination.end(id) }
            }
            if let name, comingClaims.withLock({ $0[name] ?? false }) {
                coordination.end(id)
                throw ClaimFailure.cancelled
            }
            return try await report(id, intents, wanted.items)
        } catch let failure as ClaimFailure {
            forget(wanted)
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

    func endClaim(_ wanted: ClaimEnd) async throws -> Acknowledgement {
        try requireKnown(wanted.client)
        let claim = namedClaims.withLock { named -> ClaimID? in
            if let token = wanted.token {
                return named.removeValue(forKey: NamedClaim(client: wanted.client, token: token))
            }
            guard let claim = wanted.claim.map(ClaimID.init) else { return nil }
            if let place = named.firstIndex(where: { $0.value == claim && $0.key.client == wanted.client }) {
                named.remove(at: place)
            }
            return claim
        }
        if let claim, coordination.end(claim, of: ClientID(wanted.client)) { return Acknowledgement() }
        if claim == nil, let token = wanted.token, isComing(NamedClaim(client: wanted.client, token: token)) {
            return Acknowledgement()
        }
        let name = wanted.token.map { "named '\($0)'" } ?? "\(wanted.claim ?? 0)"
        throw UbiquityError(.notFound, "the client has no claim \(name); it may have ended already")
    }

    /// - Returns: whether the claim is still being looked up; then it is released as soon as it is known.
    private func isComing(_ name: NamedClaim) -> Bool {
        comingClaims.withLock { claims in
            guard claims[name] != nil else { return false }
            claims[name] = true
            return true
        }
    }

    private func forget(_ wanted: ClaimMessage) {
        guard let token = wanted.token else { return }
        namedClaims.withLock { _ = $0.removeValue(forKey: NamedClaim(client: wanted.client, token: token)) }
    }

    /// Removes a disconnected client with its claims and presenters.
    func remove(_ client: ClientID) {
        coordination.remove(client)
        namedClaims.withLock { named in named = named.filter { $0.key.client != client.number } }
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
                    guard let option = WritingOption(named: name) else { throw Self.unknown(name) }
                    return option
                })
        }
        let resolves = options.contains("resolves-symbolic-link")
        return ClaimIntent(try parts.tree.target(at: item.path, resolvingLinks: resolves), access)
    }

    private static func unknown(_ option: String) -> UbiquityError {
        UbiquityError(.invalid, "not an option of a claim: \(option)")
    }

    // MARK: Eviction by this device

    /// Evicts an item after asking its presenters.
    @discardableResult
    func evictAsking(_ key: ItemKey) async throws -> Bool { try await parts.eviction.evict(key) }
}

/// A claim by the name that its client gave it.
struct NamedClaim: Hashable {
    var client: UInt64
    var token: String
}

extension ItemTree {
    /// The item at the path, or the free name there.
    func target(at path: String, resolvingLinks: Bool) throws -> ClaimTarget {
        let names = try Self.names(of: path)
        if let row = try index.read({ try $0.row(path: names) }), !row.isDeleted {
            guard resolvingLinks, row.kind == .symlink else { return row.claimTarget }
            return try target(ofLink: row, at: names)
        }
        guard let name = names.last, let folder = try index.read({ try $0.row(path: Array(names.dropLast())) }),
            !folder.isDeleted, folder.kind == .directory
        else { throw UbiquityError(.notFound, "no such file or folder", at: path) }
        return ClaimTarget(name: name, in: folder.key)
    }

    /// The target of a link within the container; any other link is a target by itself.
    private func target(ofLink row: ItemRow, at names: [ItemName]) throws -> ClaimTarget {
        let text = String(decoding: row.linkTarget, as: UTF8.self)
        guard !text.hasPrefix("/") else { return row.claimTarget }
        var path = names.dropLast().map(\.description)
        for part in text.split(separator: "/") where part != "." {
            if part != ".." { path.append(String(part)) } else if path.popLast() == nil { return row.claimTarget }
        }
        return try target(at: path.joined(separator: "/"), resolvingLinks: false)
    }
}

extension ReadingOptions {
    init?(named name: String) {
        switch name {
        case "without-changes": self = .withoutChanges
        case "resolves-symbolic-link": self = .resolvesSymbolicLink
        case "immediately-available-metadata-only": self = .immediatelyAvailableMetadataOnly
        case "for-uploading": self = .forUploading
        default: return nil
        }
    }
}

extension WritingOption {
    var name: String {
        switch self {
        case .forDeleting: "for-deleting"
        case .forMoving: "for-moving"
        case .forMerging: "for-merging"
        case .forReplacing: "for-replacing"
        case .contentIndependentMetadataOnly: "content-independent-metadata-only"
        }
    }

    init?(named name: String) {
        let all: [WritingOption] = [
            .forDeleting, .forMoving, .forMerging, .forReplacing, .contentIndependentMetadataOnly,
        ]
        guard let found = all.first(where: { $0.name == name }) else { return nil }
        self = found
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
