internal import Logging
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Puts mass deletions on hold until a person decides, by the rules of `DeletionGuard`.
///
/// It holds the deletions sent lately and the number of those on hold. The gatherer asks it which deletions may be
/// sent, and the uploader reports those that were. Commands confirm or undo them. It knows the context only.
final class DeletionHold: SyncRoom {
    let context: SyncContext

    private struct State {
        var guarding = DeletionGuard()
        /// The number of deletions on hold.
        var onHold = 0
        /// The last position in the order of changes whose deletions a person has confirmed in this run of the engine.
        var confirmed: Int64 = 0
    }

    private let deletions = Lock(State())

    init(_ context: SyncContext) { self.context = context }

    /// Deletions undone in one transaction.
    private static let undoneAtOnce = 1000

    /// The position in the order of changes up to which deletions may be sent now.
    func limit(now: Timestamp) throws -> Int64 {
        guard !configuration.allowsMassDelete else { return .max }
        let pending = try index.read(pendingDeletions)
        guard let times = pending.times else {
            setCount(pending.count)
            return pending.confirmed
        }
        let verdict = deletions.withLock { $0.guarding.verdict(pending: times, items: pending.items, now: now) }
        switch verdict {
        case .send:
            setCount(0)
            return max(pending.last, pending.confirmed)
        case .hold:
            try index.write(.remote) { try $0.holdDeletions(upTo: pending.last) }
            setCount(try index.read { try $0.pendingDeletionCount(after: pending.confirmed) })
            return pending.confirmed
        case .wait(let until):
            setCount(0)
            agenda.waitForDeletions(until: until)
            return pending.confirmed
        }
    }

    private struct PendingDeletions {
        /// The last position in the order of changes, and the last one that a person has confirmed.
        var last, confirmed: Int64
        var count = 0
        /// Nil if they are on hold. Then only a person's answer releases them, and the guard is not asked again.
        var times: [DeletionMoment]?
        /// The number of other items.
        var items = 0
    }

    private func pendingDeletions(_ reader: IndexReader) throws -> PendingDeletions {
        // Read first: deletions made from here on are not counted.
        let last = try reader.lastDirtyOrder(), confirmed = try reader.confirmedDeletions()
        var pending = PendingDeletions(last: last, confirmed: confirmed)
        if try reader.hasHeldDeletions(after: confirmed) {
            pending.count = try reader.pendingDeletionCount(after: confirmed)
            return pending
        }
        let times = try reader.pendingDeletionMoments(after: confirmed).filter(isCounted)
        pending.times = times
        pending.count = times.count
        // For few deletions the count of all items is near enough, and cheaper: this case is frequent.
        let areFew = deletions.withLock { $0.guarding.areFew(pending: times.count) }
        pending.items = Int(try areFew ? reader.itemCount() : reader.syncedItemCount())
        return pending
    }

    /// Whether a deletion counts for the guard. A deletion of a fresh item of this device does not: its maker has just
    /// created it, and no other device has changed it. The cloud records no downloads, so another device may have read
    /// it. There the item is in the trash.
    private func isCounted(_ deletion: DeletionMoment) -> Bool {
        !deletion.isOfFreshItem(madeOn: configuration.device, within: DeletionGuard.freshAge)
    }

    /// Shows deletions that an earlier run has put on hold from the start, also while the cloud is unreachable. An
    /// unreadable index reports its own errors, and deletions are counted again before any is sent.
    func recall() {
        guard !configuration.allowsMassDelete else { return }
        let count = try? index.read { reader in
            let confirmed = try reader.confirmedDeletions()
            return try reader.hasHeldDeletions(after: confirmed) ? reader.pendingDeletionCount(after: confirmed) : 0
        }
        setCount(count ?? 0)
    }

    private func setCount(_ count: Int) {
        let isNew = deletions.withLock { state in
            defer { state.onHold = count }
            return count > 0 && state.onHold == 0
        }
        if isNew { logger.warning("many deletions are on hold", metadata: ["items": "\(count)"]) }
    }

    /// The number of deletions that wait for a person's decision.
    var count: Int { deletions.withLock { $0.onHold } }

    func recordSent(_ group: [PlannedChange]) {
        let deleted = group.filter { $0.deletion != nil }
        guard !deleted.isEmpty else { return }
        deletions.withLock { state in
            // Confirmed deletions do not count against later ones.
            let counted = deleted.filter { $0.row.dirtyOrder > state.confirmed }.compactMap(\.deletion)
                .filter(isCounted)
            state.guarding.noteSent(counted, now: timekeeper.now())
        }
    }

    /// Releases the deletions on hold for upload.
    /// - Returns: how many.
    func confirm() throws -> Int {
        let (count, last) = try index.write(.remote) { transaction in
            let count = try transaction.pendingDeletionCount(after: transaction.confirmedDeletions())
            let last = try transaction.newDirtyOrder()
            try transaction.confirmDeletions(upTo: last)
            return (count, last)
        }
        deletions.withLock { state in
            state.onHold = 0
            state.confirmed = last
            state.guarding = DeletionGuard()
        }
        agenda.happened(.deletionsWereConfirmed)
        return count
    }

    /// Restores the deletions on hold as placeholders with the cloud's state.
    /// - Returns: how many.
    func undo() throws -> Int {
        var count = 0
        while true {
            let (undone, dropped) = try index.write(.remote) { transaction in
                let rows = try transaction.pendingDeletions(
                    after: transaction.confirmedDeletions(), limit: Self.undoneAtOnce)
                // Remove all rows before the first item is restored: each restored folder places the records that
                // waited for it.
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
        deletions.withLock { $0.onHold = 0 }
        agenda.happened(.deletionsWereUndone)
        return count
    }
}

extension IndexTransaction {
    /// Undoes the deletion of a hard link that took a file's own name. When a file with several names loses the name of
    /// its creation, another link's name becomes its own. The link is then the deleted row, and the file is at the
    /// link's place. Both return to their earlier places, unless the file was moved since.
    /// - Returns: the file, which follows its record from now on. Nil if the deleted item is no such link.
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
