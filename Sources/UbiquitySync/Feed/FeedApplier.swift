internal import Logging
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

/// Applies a page of the feed or of the snapshot to the index, in one transaction. It holds nothing. The feed's reader
/// calls it.
struct FeedApplier: SyncRoom {
    let context: SyncContext

    /// - Returns: false if the snapshot has to be read instead. The index records that.
    func apply(_ page: ChangePage, at position: FeedPosition) throws -> Bool {
        let bringsMark = page.mark != 0 && page.mark != position.mark
        guard !page.items.isEmpty || page.revision != position.revision || bringsMark else {
            guard try index.read({ try $0.isFeedBehind() }), !page.hasMore, !position.isInSnapshot else { return true }
            try index.write(.remote) { try $0.setFeedBehind(false) }
            return true
        }
        let dropped = try index.write(.remote) { transaction -> [ContentID]? in
            if try needsSnapshot(before: page, at: position, transaction) {
                var next = position
                next.isInSnapshot = true
                try transaction.setFeedPosition(next)
                return nil
            }
            let deleted = feed.current.deletedMeanwhile ?? [:]
            let items = page.items.filter { deleted[$0.id, default: .zero] <= $0.revision }
            let own = try items.filter { try isNewOwnVersion($0, transaction) }
            try recordAnswers(items, transaction)
            var settler = settler(transaction)
            let isLast = !page.hasMore && !position.isInSnapshot
            try settler.receive(page: items, index, isLast: isLast)
            try transaction.setFeedBehind(!isLast)
            try settler.settleAll(limit: SyncLimits.settleBatch)
            for item in own { try acceptOwnVersion(item, transaction) }
            for item in items { try recordLost(item, transaction) }
            var next = position
            next.revision = page.revision
            next.mark = page.mark
            try transaction.setFeedPosition(next)
            if let links = page.links { try transaction.setLinkCounts(LinkCounts.encode(links)) }
            report(settler.ignored)
            return settler.dropped
        }
        discard(dropped ?? [])
        logger.debug("read the feed", metadata: ["items": "\(page.items.count)", "revision": "\(page.revision)"])
        return dropped != nil
    }

    /// Logs records that break the rules. The page's limit bounds their number.
    private func report(_ ignored: [(item: ItemID, reason: String)]) {
        for (item, reason) in ignored {
            logger.error("ignored a record of the cloud", metadata: ["item": "\(item)", "reason": "\(reason)"])
        }
    }

    /// Records that other devices changed contents after this device sent changes of the same items. Call it before the
    /// items are applied.
    private func recordAnswers(_ items: [RemoteItem], _ transaction: IndexTransaction) throws {
        guard !throttle.isEmpty else { return }
        for item in items where item.content.map({ $0.device != configuration.device }) ?? false {
            guard let known = try transaction.remote(id: item.id), known.revision < item.revision,
                known.content?.version != item.content?.version, let row = try transaction.row(id: item.id)
            else { continue }
            throttle.noteAnswer(to: row.key)
        }
    }

    /// Whether the snapshot must be read first. The feed's first page has no deletions, since a new device needs none.
    /// A device that committed items before it read that page does need them, and the snapshot shows what is missing.
    /// The page alone does not: an absent item may have changed since and be on a later page.
    private func needsSnapshot(
        before page: ChangePage, at position: FeedPosition, _ transaction: IndexTransaction
    ) throws -> Bool {
        guard position.revision == .zero, !position.isInSnapshot else { return false }
        let listed = Set(page.items.map(\.id))
        return try transaction.remotes(through: page.revision).contains { !listed.contains($0.id) }
    }

    /// Whether the feed reports for the first time a version that this device made. A version reported before a loss of
    /// power and then known to be lost keeps its state, see `continueOwnVersion`.
    private func isNewOwnVersion(_ item: RemoteItem, _ transaction: IndexTransaction) throws -> Bool {
        guard let content = item.content, content.device == configuration.device, content.isAvailable, !item.isDeleted
        else { return false }
        let known = try transaction.remote(id: item.id)?.content
        return known?.version != content.version || known?.isAvailable == false
    }

    /// Handles a version that carries this device's id and is new here. If this device never sent it, another copy of
    /// this index made it: the original of a restored backup, or a clone of the machine. It counts as another device's
    /// version.
    private func acceptOwnVersion(_ item: RemoteItem, _ transaction: IndexTransaction) throws {
        guard let version = item.content?.version, try transaction.isSent(version) else { return }
        try continueOwnVersion(item, transaction)
        try transaction.forgetSent(version)
    }

    /// Makes the uploaded version the base of the local content. This device made the version but lost the answer to
    /// its commit. Local changes derive from it and do not conflict with it. After a loss of power in the middle of a
    /// run this is unknown.
    private func continueOwnVersion(_ item: RemoteItem, _ transaction: IndexTransaction) throws {
        guard let content = item.content,
            let row = try transaction.row(id: item.id), row.dirty.contains(.content), row.version != content.version,
            feed.current.knowsWhatWasSent,
            // Skip a delayed page: the answer to a later commit may have overtaken it.
            try transaction.remote(id: item.id)?.revision == item.revision
        else { return }
        var next = row
        next.version = content.version
        if row.nextVersion != content.version { next.nextVersion = nil }
        try transaction.update(next, before: row)
    }

    /// Handles a content that this device announced and does not have. It was lost with the power while the
    /// announcement was in flight.
    private func recordLost(_ item: RemoteItem, _ transaction: IndexTransaction) throws {
        guard let content = item.content, content.device == configuration.device, !content.isAvailable,
            !item.isDeleted
        else { return }
        if let row = try transaction.row(id: item.id), !row.dirty.isEmpty || row.contentState == .complete { return }
        try transaction.noteLostContents(wait: true)
        feed.update { $0.looksForLost = true }
    }
}
