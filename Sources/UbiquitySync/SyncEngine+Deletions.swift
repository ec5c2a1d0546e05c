internal import Logging
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// What the engine remembers of deletions between two rounds.
struct DeletionState {
    var guarding = DeletionGuard()
    /// How many are held now.
    var held = 0
    /// The place in the order of changes up to which a person has confirmed them, in this life of the engine.
    var confirmed: Int64 = 0
}

// Holding deletions back that are too many to be meant (`DeletionGuard`).
extension SyncEngine {
    /// Deletions taken back in one transaction.
    private static let undoneAtOnce = 1000

    /// Which deletions may go now: those up to this place in the order of changes.
    func deletionLimit(now: Timestamp) throws -> Int64 {
        guard !configuration.allowsMassDelete else { return .max }
        let (last, confirmed, times, items) = try index.read { reader in
            // First of all: what is deleted from here on is not counted.
            let last = try reader.lastDirtyOrder()
            let confirmed = try reader.confirmedDeletions()
            return (last, confirmed, try reader.pendingDeletionMoments(after: confirmed), try reader.itemCount())
        }
        let (verdict, isNew) = deletions.withLock { state in
            let verdict = state.guarding.verdict(pending: times, items: Int(items), now: now)
            let before = state.held
            state.held = verdict == .hold ? times.count : 0
            return (verdict, state.held > 0 && before == 0)
        }
        if isNew { logger.warning("many deletions are held", metadata: ["items": "\(times.count)"]) }
        switch verdict {
        case .send: return max(last, confirmed)
        case .hold: return confirmed
        case .wait(let until):
            push.withLock { $0.deletionsWaitUntil = until }
            return confirmed
        }
    }

    /// So many deletions wait for a person's word; 0 if none do.
    package var heldDeletions: Int { deletions.withLock { $0.held } }

    func noteSentDeletions(_ group: [PlannedChange]) {
        let deleted = group.filter { $0.deletion != nil }
        guard !deleted.isEmpty else { return }
        deletions.withLock { state in
            // Those that a person has confirmed do not count against what is deleted next.
            let counted = deleted.filter { $0.row.dirtyOrder > state.confirmed }.compactMap(\.deletion)
            state.guarding.noteSent(counted, now: timekeeper.now())
        }
    }

    /// Lets the held deletions go up. Returns how many.
    package func confirmDeletions() throws -> Int {
        let (count, last) = try index.write(.remote) { transaction in
            let times = try transaction.pendingDeletionMoments(after: transaction.confirmedDeletions())
            let last = try transaction.newDirtyOrder()
            try transaction.confirmDeletions(upTo: last)
            return (times.count, last)
        }
        deletions.withLock { state in
            state.held = 0
            state.confirmed = last
            state.guarding = DeletionGuard()
        }
        pushSignal.fire()
        return count
    }

    /// Brings back what was deleted here and is held: as placeholders, as the cloud has them. Returns how many.
    package func undoDeletions() throws -> Int {
        var count = 0
        while true {
            let (undone, dropped) = try index.write(.remote) { transaction in
                let rows = try transaction.pendingDeletions(
                    after: transaction.confirmedDeletions(), limit: Self.undoneAtOnce)
                // All of them are away before the first comes back: each brings what waited for it.
                for row in rows { try transaction.delete(row) }
                let files = try rows.compactMap { try transaction.takeBackName(of: $0) }
                var settler = settler(transaction)
                for row in rows.reversed() where row.kind == .directory { try settler.settle(row.id) }
                for file in files { try settler.review(file) }
                for row in rows where row.kind != .directory { try settler.settle(row.id) }
                try settler.settleAll(limit: Self.undoneAtOnce)
                return (rows.count, settler.dropped)
            }
            discard(dropped)
            count += undone
            if undone == 0 { break }
        }
        deletions.withLock { $0.held = 0 }
        progress.fire()
        return count
    }
}

extension IndexTransaction {
    /// Of a file that has several names and lost the one that it was made under, another one became that: the further
    /// name is what was deleted, and where it was the file is. Both are as they were before, as far as the file has not
    /// been moved on.
    /// - Returns: the file, which follows its record from now on; nil if the deleted item is no such name.
    fileprivate func takeBackName(of deleted: ItemRow) throws -> ItemID? {
        guard deleted.kind == .hardLink, let record = try remote(id: deleted.id), let file = try named(deleted),
            file.dirty.contains(.place), !file.dirty.contains(.created), let entry = file.entry,
            entry.name == record.name, try row(key: entry.parent)?.id == record.parent
        else { return nil }
        var next = file
        next.dirty.remove(.place)
        try update(next, before: file)
        return file.id
    }
}
