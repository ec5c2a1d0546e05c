internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

/// Applies the cloud's answers to changes without rows: decisions about versions, and items restored from the trash. It
/// holds nothing.
struct CommitAnswers: SyncRoom {
    let context: SyncContext

    /// - Parameter actions: the decisions that the answer is about.
    func apply(_ response: CommitResponse, forgetting actions: [PendingVersionAction] = []) throws {
        let dropped = try index.write(.remote) { transaction in
            var applier = CommitApplier(transaction, settler: settler(transaction), boot: configuration.boot)
            try applier.take(response)
            // Remove the decisions afterwards, so that their effect is not announced as a remote change.
            if !actions.isEmpty { try transaction.forgetVersionActions(actions) }
            return applier.dropped
        }
        discard(dropped)
        connection.succeeded()
        agenda.happened(.versionActionsWereTaken)
    }
}

extension CommitApplier {
    /// Applies the cloud's answer to changes without rows.
    mutating func take(_ response: CommitResponse) throws {
        for result in response.results { try take(result.item) }
        try settleAll()
    }
}
