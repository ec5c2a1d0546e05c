package import UbiquityCore
internal import UbiquityIndex

/// Deletions that the cloud answered by keeping the item.
///
/// The cloud keeps a folder while something is left in it, and a file while another name leads to it. If everything
/// that is left leaves by changes of this device, the deletion stays in the index and is sent again. Otherwise somebody
/// else needs the item, and it comes back here.
package struct KeptDeletions {
    /// The cloud may keep an item for a reason that this device never hears of. After so many attempts it comes back.
    static let attemptsWithoutReason = 5

    /// False only where a simulator takes this out.
    private let isOn: Bool
    /// How often the deletion of a row was sent without effect.
    private let attempts: [ItemKey: Int]
    private var answers: [(row: ItemRow, item: RemoteItem)] = []
    /// Rows whose deletion is to be sent again.
    package private(set) var kept: Set<ItemKey> = []

    package init(isOn: Bool = true, attempts: [ItemKey: Int] = [:]) {
        self.isOn = isOn
        self.attempts = attempts
    }

    /// - Returns: false if such a deletion is never sent again.
    mutating func add(_ row: ItemRow, _ item: RemoteItem) -> Bool {
        guard isOn else { return false }
        answers.append((row, item))
        return true
    }

    /// Decides about all of them, and forgets the rows of those that come back. To be called when all results of the
    /// commit are in the index.
    /// - Parameter revision: the container's revision after the commit.
    /// - Returns: items that come back.
    mutating func giveUp(_ transaction: IndexTransaction, at revision: Revision) throws -> [ItemID] {
        var open = answers, returning = [ItemID]()
        // A folder that comes back brings back the one around it.
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
        // The feed tells later what the cloud keeps it for; or what that was has left meanwhile.
        return try transaction.feedPosition().revision < revision
            || attempts[row.key, default: 0] < Self.attemptsWithoutReason
    }
}

extension IndexReader {
    /// Whether who deleted the item knew what the cloud has: its own version, and no conflict that it had not heard of.
    func isWholeStateKnown(of item: RemoteItem, to row: ItemRow) throws -> Bool {
        guard item.content?.version == row.version else { return false }
        let known = Set(try allConflicts(of: item.id).map(\.id))
        return item.conflicts.allSatisfy { known.contains($0.id) }
    }

    /// Whether this device has deleted the item, or moved it elsewhere, and has not sent that yet.
    fileprivate func isLeaving(_ id: ItemID) throws -> Bool {
        guard let row = try row(id: id) else { return false }
        return row.isDeleted || row.entry != nil && !row.dirty.isDisjoint(with: [.place, .created])
    }

    /// Whether the cloud has a further name of the item that was deleted here.
    fileprivate func hasLeavingName(of id: ItemID) throws -> Bool {
        try allLinks(to: id).contains { try $0.isDeleted && remote(id: $0.id)?.isDeleted == false }
    }
}
