internal import Logging
internal import UbiquityCore
internal import UbiquityIndex

// Commits that the cloud refuses.
extension SyncEngine {
    static func isAboutContent(_ error: UbiquityError) -> Bool {
        switch error.code {
        case .invalid, .tooLarge, .quotaExceeded, .notFound, .notPermitted, .accessDenied: true
        // What the cloud has of the item.
        case .damaged: true
        default: false
        }
    }

    /// The cloud refuses something in the group: what that is about waits, all else goes.
    func divide(_ group: [PlannedChange], _ outgoing: Outgoing, _ error: UbiquityError) async throws {
        guard outgoing.owners.isEmpty else { return noteRefusal(of: group.map(\.row.key), error) }
        if error.code == .quotaExceeded {
            let (fitting, refused) = try await partByRoom(group)
            for change in refused { problems.note(error, .upload, of: change.row.key) }
            guard refused.isEmpty else {
                if !fitting.isEmpty { try await commit(fitting, outgoing) }
                return
            }
        }
        guard group.count > 1 else {
            logger.warning("the cloud refuses a change", metadata: ["reason": "\(error)"])
            return problems.note(error, .upload, of: group[0].row.key)
        }
        let middle = group.count / 2
        try await commit(Array(group[..<middle]), outgoing)
        try await commit(Array(group[middle...]), outgoing)
    }
}
