internal import Logging
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

/// Sends decisions about versions. They are queued in the index, online or offline, and sent in their order.
///
/// It holds nothing. The uploader calls `send` between its groups. It sends its commits through `CommitSender`.
struct VersionActions: SyncRoom {
    let context: SyncContext
    let sender: CommitSender

    private var answers: CommitAnswers { CommitAnswers(context: context) }

    /// The decisions about one file that are sent together.
    private struct Decided {
        var actions: [PendingVersionAction]
        var change: ItemChange
    }

    /// Sends the queued decisions about versions.
    /// - Returns: whether there may be more.
    func send() async throws -> Bool {
        try connection.requireAllowed()
        let (decided, outdated) = try await pool.run { try self.gatherDecisions() }
        for action in outdated { try await drop([action], of: action.item) }
        guard !decided.isEmpty else { return !outdated.isEmpty }
        try await commit(decided)
        return true
    }

    /// - Returns: the decisions to send, and outdated restorations, which a later local edit has superseded. The edit
    ///   wins, and a conflict version that was to be restored is in conflict again.
    private func gatherDecisions() throws -> (decided: [Decided], outdated: [PendingVersionAction]) {
        try index.read { reader in
            let actions = try reader.versionActions(limit: Limits.maximumVersionActions)
            var byItem: [ItemID: Int] = [:], bases: [ItemID: VersionID] = [:]
            var result = [Decided](), outdated = [PendingVersionAction]()
            for action in actions {
                guard let change = try self.change(for: action, after: bases[action.item], reader) else {
                    outdated.append(action)
                    continue
                }
                if case .restore(_, let new, _) = change { bases[action.item] = new }
                guard let place = byItem[action.item] else {
                    byItem[action.item] = result.count
                    result.append(
                        Decided(
                            actions: [action],
                            change: ItemChange(
                                id: action.item, kind: try reader.remote(id: action.item)?.kind ?? .file,
                                baseRevision: try reader.remote(id: action.item)?.revision ?? .zero,
                                changedAt: action.decidedAt, action: .versions([change]))))
                    continue
                }
                result[place].actions.append(action)
                if case .versions(let earlier) = result[place].change.action {
                    result[place].change.action = .versions(earlier + [change])
                }
            }
            return (result, outdated)
        }
    }

    /// - Parameter earlier: the current version that an earlier restoration in the same commit makes.
    /// - Returns: nil for a restoration that a later local edit has superseded.
    private func change(
        for action: PendingVersionAction, after earlier: VersionID?, _ reader: IndexReader
    ) throws -> VersionAction? {
        switch action.kind {
        case .resolve: return .resolve(action.version)
        case .remove: return .remove(action.version)
        case .restore:
            guard let new = action.newVersion else { throw UbiquityError(.io, "a record of the index is damaged") }
            if let earlier { return .restore(action.version, as: new, base: earlier) }
            var base = action.base
            // The decision's maker knows the versions uploaded from here since, except for later edits. The cloud
            // decides about versions of other devices.
            if let row = try reader.row(id: action.item), let there = try reader.remote(id: action.item)?.content,
                there.version != base, there.device == configuration.device
            {
                guard action.generation == row.generation || row.version == base else { return nil }
                base = there.version
            }
            return .restore(action.version, as: new, base: base)
        }
    }

    /// Commits decisions. If the cloud refuses them, commits each file's separately.
    private func commit(_ decided: [Decided]) async throws {
        var generator = SourcedGenerator(random)
        let request = CommitRequest(
            id: RequestID(using: &generator), device: configuration.device, deviceName: configuration.deviceName,
            changes: decided.map(\.change))
        do {
            let response = try await sender.send(request)
            try await pool.run(evenIfCancelled: true) {
                try self.answers.apply(response, forgetting: decided.flatMap(\.actions))
            }
        } catch let error as OutdatedCommit {
            try await sender.raiseNumbers(after: error)
        } catch let error as MissingChunks {
            try await divide(decided, .from(error))
        } catch let error as UbiquityError where error.isAboutContent {
            try await divide(decided, error)
        }
    }

    private func divide(_ decided: [Decided], _ error: UbiquityError) async throws {
        guard decided.count > 1 else { return try await refuse(decided[0], error) }
        for one in decided { try await commit([one]) }
    }

    /// Drops decisions that the cloud refuses for good: the account is full, the cloud is another one, or it has lost a
    /// part of the version.
    private func refuse(_ decided: Decided, _ error: UbiquityError) async throws {
        logger.warning(
            "the cloud refuses a decision about a version",
            metadata: ["item": "\(decided.change.id)", "reason": "\(error)"])
        try await drop(decided.actions, of: decided.change.id)
        if let row = try await pool.run({ [index] in try index.read({ try $0.row(id: decided.change.id) }) }) {
            problems.show(error, .upload, of: row.key)
        }
    }

    /// Restores the versions to their state before the decisions.
    private func drop(_ actions: [PendingVersionAction], of item: ItemID) async throws {
        try await pool.run { [index] in
            try index.write(.remote) { transaction in
                try transaction.forgetVersionActions(actions)
                try transaction.noteVersions(of: item, .conflicts)
            }
        }
    }
}
