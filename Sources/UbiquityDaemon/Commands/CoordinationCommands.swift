import UbiquityControl
import UbiquityCoordination
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityVFS

/// Commands of coordination clients: registration, presenters and answers.
struct CoordinationCommands: MountCommand {
    /// In seconds: the longest time that a client may reserve for its answers.
    private static let longestAnswerTime = 60.0
    /// Characters of a client's name that are shown.
    private static let longestName = 100

    let parts: MountParts
    let claims: ClaimCommands
    private let moves = AnnouncedMoves()

    init(parts: MountParts) {
        self.parts = parts
        claims = ClaimCommands(parts: parts)
    }

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

    /// Removes a disconnected client with its claims and presenters.
    func remove(_ client: ClientID) {
        coordination.remove(client)
        claims.names.removeAll(of: client.number)
        moves.removeAll(of: client.number)
    }

    /// Records an item that is about to leave the mount, or reports its new place to its presenters.
    func announceMove(_ wanted: MoveAnnouncement) async throws -> Acknowledgement {
        try requireKnown(wanted.client)
        guard let destination = wanted.destination else {
            let row = try await pool.run { [tree = parts.tree] in try tree.row(at: wanted.path) }
            let item = AnnouncedMoves.Item(key: row.key, entry: row.claimTarget.entry)
            try moves.begin(wanted.path, item, of: wanted.client)
            return Acknowledgement()
        }
        guard destination.hasPrefix("/") else {
            throw UbiquityError(.invalid, "the destination is not an absolute path", at: destination)
        }
        guard let item = moves.end(wanted.path, of: wanted.client) else {
            throw UbiquityError(
                .notFound, "the move was not announced", at: wanted.path,
                remedy: "announce it before the item leaves its place")
        }
        let event = PresenterEvent(.moved, item: item.key, path: destination, oldPath: wanted.path)
        let doer = Doer(process: 0, clients: [ClientID(wanted.client)])
        // The mount's own messages about the move come first.
        await parts.presenters.catchUp()
        coordination.tell([(event, [item.entry])], doneBy: doer, isRemote: false)
        return Acknowledgement()
    }
}

extension MountCommand {
    var coordination: Coordination { parts.coordination }

    func requireKnown(_ client: UInt64) throws {
        guard !coordination.isKnown(ClientID(client)) else { return }
        throw UbiquityError(
            .notFound, "no client has the number \(client)", at: parts.settings.mountPoint,
            remedy: "its stream has ended; register again")
    }
}
