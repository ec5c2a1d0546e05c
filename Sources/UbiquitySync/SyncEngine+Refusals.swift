internal import Logging
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

// Commits that the cloud refuses.
extension SyncEngine {
    static func isAboutContent(_ error: UbiquityError) -> Bool {
        switch error.code {
        case .invalid, .tooLarge, .quotaExceeded, .notFound, .notPermitted, .accessDenied: true
        // The cloud's state of the item is damaged.
        case .damaged: true
        default: false
        }
    }

    /// Divides a refused group: the offending change waits, and all others are sent.
    func divide(_ group: [PlannedChange], _ outgoing: Outgoing, _ error: UbiquityError) async throws {
        guard outgoing.owners.isEmpty else {
            if error.code == .invalid { for change in group { try await renew(change.row) } }
            return noteRefusal(of: group.map(\.row.key), error)
        }
        if error.code == .quotaExceeded {
            let (fitting, refused) = try await quota.divide(group)
            for change in refused { problems.note(error, .upload, of: change.row.key) }
            guard refused.isEmpty else {
                if !fitting.isEmpty { try await commit(fitting, outgoing) }
                return
            }
        }
        guard group.count > 1 else {
            let row = group[0].row
            logger.warning(
                "the cloud refuses a change",
                metadata: [
                    "item": "\(row.id)", "name": "\(row.entry?.name.description ?? "")", "reason": "\(error)",
                ])
            if error.code == .invalid { try await renew(row) }
            return problems.note(error, .upload, of: row.key)
        }
        let middle = Self.middle(of: group)
        try await commit(Array(group[..<middle]), outgoing)
        try await commit(Array(group[middle...]), outgoing)
    }

    /// Gives a refused new item another id. The cloud may have deleted an item of another kind that had the id.
    private func renew(_ row: ItemRow) async throws {
        let now = timekeeper.now()
        try await pool.run { [index] in
            try index.write(.remote) { transaction in
                guard let current = try transaction.row(key: row.key), current.id == row.id, !current.isDeleted,
                    current.dirty.contains(.created), try transaction.remote(id: row.id) == nil
                else { return }
                try KindConflict(transaction: transaction, now: now).separate(current)
            }
        }
    }

    /// Where to divide a group of at least two changes: as near to the middle as possible, between changes that do not
    /// depend on each other. An example of a dependence: one frees the name that the other takes.
    private static func middle(of group: [PlannedChange]) -> Int {
        let middle = group.count / 2
        let places = group.indices.dropFirst().filter { group[$0].unit != group[$0 - 1].unit }
        return places.min { abs($0 - middle) < abs($1 - middle) } ?? middle
    }
}
