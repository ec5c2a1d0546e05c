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
        let pending = try index.read(pendingDeletions)
        guard let times = pending.times else {
            noteHeld(pending.count)
            return pending.confirmed
        }
        let verdict = deletions.withLock { $0.guarding.verdict(pending: times, items: pending.items, now: now) }
        switch verdict {
        case .send:
            noteHeld(0)
            return max(pending.last, pending.confirmed)
        case .hold:
            try index.write(.remote) { try $0.holdDeletions(upTo: pending.last) }
            noteHeld(try index.read { try $0.pendingDeletionCount(after: pending.confirmed) })
            return pending.confirmed
        case .wait(let until):
            noteHeld(0)
            push.withLock { $0.deletionsWaitUntil = until }
            return pending.confirmed
        }
    }

    private struct PendingDeletions {
        /// The last place in the order of changes, and the one up to which a person has confirmed.
        var last, confirmed: Int64
        var count = 0
        /// Nil if they are held: then nothing but a person's answer lets them go, and it need not be asked again.
        var times: [DeletionMoment]?
        /// What there is besides.
        var items = 0
    }

    private func pendingDeletions(_ reader: IndexReader) throws -> PendingDeletions {
        // First of all: what is deleted from here on is not counted.
        let last = try reader.lastDirtyOrder(), confirmed = try reader.confirmedDeletions()
        var pending = PendingDeletions(last: last, confirmed: confirmed)
        if try reader.hasHeldDeletions(after: confirmed) {
            pending.count = try reader.pendingDeletionCount(after: confirmed)
            return pending
        }
        let times = try reader.pendingDeletionMoments(after: confirmed).filter(isCounted)
        pending.times = times
        pending.count = times.count
        // Of few it makes no difference what is never sent; and few are asked about often.
        let areFew = deletions.withLock { $0.guarding.areFew(pending: times.count) }
        pending.items = Int(try areFew ? reader.itemCount() : reader.syncedItemCount())
        return pending
    }

    /// Whether a deletion counts towards the brake. One of a fresh item of this device takes nothing from anybody: the
    /// person has just made it, and no other device has changed it. The cloud keeps no record of downloads, so another
    /// device may have read it; there the item is in the trash.
    private func isCounted(_ deletion: DeletionMoment) -> Bool {
        !deletion.isOfFreshItem(madeOn: configuration.device, within: DeletionGuard.freshAge)
    }

    /// Those that an earlier run has held are told of from the start, also while the cloud is away. An index that
    /// cannot be read says so to all who use it, and they are counted again before anything goes.
    func recallHeldDeletions() {
        guard !configuration.allowsMassDelete else { return }
        let count = try? index.read { reader in
            let confirmed = try reader.confirmedDeletions()
            return try reader.hasHeldDeletions(after: confirmed) ? reader.pendingDeletionCount(after: confirmed) : 0
        }
        noteHeld(count ?? 0)
    }

    private func noteHeld(_ count: Int) {
        let isNew = deletions.withLock { state in
            defer { state.held = count }
            return count > 0 && state.held == 0
        }
        if isNew { logger.warning("many deletions are held", metadata: ["items": "\(count)"]) }
    }

    /// So many deletions wait for a person's word; 0 if none do.
    package var heldDeletions: Int { deletions.withLock { $0.held } }

    func noteSentDeletions(_ group: [PlannedChange]) {
        let deleted = group.filter { $0.deletion != nil }
        guard !deleted.isEmpty else { return }
        deletions.withLock { state in
            // Those that a person has confirmed do not count against what is deleted next.
            let counted = deleted.filter { $0.row.dirtyOrder > state.confirmed }.compactMap(\.deletion)
                .filter(isCounted)
            state.guarding.noteSent(counted, now: timekeeper.now())
        }
    }

    /// Lets the held deletions go up. Returns how many.
    package func confirmDeletions() throws -> Int {
        let (count, last) = try index.write(.remote) { transaction in
            let count = try transaction.pendingDeletionCount(after: transaction.confirmedDeletions())
            let last = try transaction.newDirtyOrder()
            try transaction.confirmDeletions(upTo: last)
            return (count, last)
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
