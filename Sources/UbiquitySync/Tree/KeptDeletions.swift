package import UbiquityCore
internal import UbiquityIndex

/// Deletions that the cloud answered by keeping the item.
///
/// The cloud keeps a folder while it contains items, and a file while it has another hard link. If pending changes of
/// this device remove all of these, the deletion remains in the index and is sent again. Otherwise somebody else needs
/// the item, and it is restored here.
package struct KeptDeletions {
    /// The cloud may keep an item for a reason that this device never learns. After this many attempts the item is
    /// restored.
    static let attemptsWithoutReason = 5

    /// False only in a simulator.
    private let isOn: Bool
    /// How often each row's deletion was sent without effect.
    private let attempts: [ItemKey: Int]
    private var answers: [(row: ItemRow, item: RemoteItem)] = []
    /// Rows whose deletion must be sent again.
    package private(set) var kept: Set<ItemKey> = []

    package init(isOn: Bool = true, attempts: [ItemKey: Int] = [:]) {
        self.isOn = isOn
        self.attempts = attempts
    }

    /// - Returns: false if such deletions are never sent again.
    mutating func add(_ row: ItemRow, _ item: RemoteItem) -> Bool {
        guard isOn else { return false }
        answers.append((row, item))
        return true
    }

    /// Decides about all of them, and removes the rows of the items to restore. Call it when all results of the commit
    /// are in the index.
    /// - Parameter revision: the container's revision after the commit.
    /// - Returns: the items to restore.
    mutating func giveUp(_ transaction: IndexTransaction, at revision: Revision) throws -> [ItemID] {
        var open = answers, returning = [ItemID]()
        // A restored folder also restores its containing folder.
        while true {
            let left = try open.filter { try staysDeleted($0.row, $0.item, transaction, at: revision) }
            for (row, item) in open where !left.contains(where: { $0.row.key == row.key }) {
                let current = try transaction.row(key: row.key)
                if let current, current.isDeleted { try transaction.delete(current) }
                returning.append(item.id)
            }
            guard left.count < open.count, !left.isEmpty else {
                kept = Set(left.map(\.row.key))
                return returning.reversed()
            }
            open = left
        }
    }

    private func staysDeleted(
        _ row: ItemRow, _ item: RemoteItem, _ transaction: IndexTransaction, at revision: Revision
    ) throws -> Bool {
        guard row.kind == .directory else {
            return try transaction.isWholeStateKnown(of: item, to: row) && transaction.hasLeavingName(of: row.id)
        }
        let limit = Limits.maximumChangesPerCommit + 1
        let children = try transaction.remoteChildren(of: row.id, limit: limit)
        guard children.isEmpty else { return try children.allSatisfy { try transaction.isLeaving($0) } }
        // The feed will report the reason, or the reason has disappeared meanwhile.
        return try transaction.feedPosition().revision < revision
            || attempts[row.key, default: 0] < Self.attemptsWithoutReason
    }
}

extension IndexQueries {
    /// Whether the deleting program knew the cloud's state: the same version, and no conflict unknown to this device.
    func isWholeStateKnown(of item: RemoteItem, to row: ItemRow) throws -> Bool {
        guard item.content?.version == row.version else { return false }
        let known = Set(try allConflicts(of: item.id).map(\.id))
        return item.conflicts.allSatisfy { known.contains($0.id) }
    }

    /// Whether this device has deleted or moved the item and has not sent that yet.
    fileprivate func isLeaving(_ id: ItemID) throws -> Bool {
        guard let row = try row(id: id) else { return false }
        return row.isDeleted || row.entry != nil && !row.dirty.isDisjoint(with: [.place, .created])
    }

    /// Whether the cloud has another hard link to the item that was deleted here.
    fileprivate func hasLeavingName(of id: ItemID) throws -> Bool {
        try allLinks(to: id).contains { try $0.isDeleted && remote(id: $0.id)?.isDeleted == false }
    }
}
