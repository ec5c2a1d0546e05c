internal import Logging
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
package import UbiquityWire

/// Reads the change feed: connects to the cloud, follows its announcements, and places the records of other devices in
/// the index.
///
/// It holds the records that waited for a place at its last look. The engine calls `run`, and the doctor calls `meet`
/// and `readFeed`. It knows the context, `FeedApplier`, which applies one page, and `LostContents`.
package final class FeedReader: SyncRoom {
    package let context: SyncContext
    private let applier: FeedApplier
    private let lostContents: LostContents
    /// Records without a place at the last look, and the time of that look, in uptime of the machine.
    private let waiting = Lock<(records: Set<ItemID>, at: Duration)>(([], .zero))

    init(_ context: SyncContext) {
        self.context = context
        applier = FeedApplier(context: context)
        lostContents = LostContents(context: context)
    }

    /// Runs until the task is cancelled.
    func run() async {
        while !Task.isCancelled {
            // Read the generation first, so that no later change is missed.
            let seen = connection.changed.generation
            guard !connection.isPaused else {
                await connection.changed.wait(since: seen, atMost: SyncLimits.pollInterval, timekeeper)
                continue
            }
            do {
                try await follow()
            } catch {
                guard !Task.isCancelled else { return }
                feed.update { $0.isCaughtUp = false }
                let error = UbiquityError.from(error)
                let wait = connection.failed(error)
                logger.info("not connected", metadata: ["reason": "\(error)", "retry": "\(wait)"])
                agenda.happened(.connectionFailed)
                await connection.changed.wait(since: seen, atMost: wait, timekeeper)
            }
        }
    }

    /// Connects, reads the feed to its end, and follows it until the connection breaks.
    private func follow() async throws {
        let position = try await pool.run { [index] in try index.read { try $0.feedPosition() } }
        let description = try await service.open(knowing: position.incarnation == nil ? nil : position.point)
        try await meet(description)
        connection.answered(usage: (description.usage.usedBytes, description.usage.quotaBytes))
        logger.info("connected", metadata: ["revision": "\(description.revision)"])
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await self.listen(to: description.incarnation) }
            group.addTask { try await self.readAsNewsCome() }
            defer { group.cancelAll() }
            try await group.next()
        }
    }

    /// Listens to the stream of announcements. If a proxy refuses or buffers the stream, it polls the feed instead and
    /// checks that the cloud is the same one.
    private func listen(to incarnation: UInt64) async throws {
        var backoff = Backoff()
        while true {
            do {
                for try await revision in try await service.news() {
                    feed.update { $0.announced = max($0.announced, revision) }
                    agenda.happened(.feedHasNews)
                    backoff.reset()
                }
            } catch let error as UbiquityError where error.code != .cancelled && error.code != .signedOut {
                logger.info("the stream of news ended", metadata: ["reason": "\(error)"])
            }
            try await timekeeper.sleep(for: backoff.next(random))
            try connection.requireAllowed()
            guard try await service.open().incarnation == incarnation else {
                throw UbiquityError(.offline, "the cloud's data was replaced")
            }
            agenda.happened(.feedHasNews)
        }
    }

    private func readAsNewsCome() async throws {
        while !Task.isCancelled {
            try connection.requireAllowed()
            try await readFeed()
            connection.succeeded()
            feed.update { $0.isCaughtUp = true }
            if feed.current.mayHaveLost || feed.looksForLost {
                try await pool.run { try self.lostContents.giveUp() }
            }
            try await placeWaiting()
            agenda.happened(.feedWasRead)
            await agenda.wait(for: .feed, atMost: SyncLimits.pollInterval)
        }
        throw CancellationError()
    }

    /// Places records that waited for a name from one look to the next, although an item that only this device has uses
    /// it: an excluded item, or a placeholder of another cloud. Had the ignore rules changed, the excluded item would
    /// have been uploaded by now. Had this cloud the placeholder's item, the feed would have reported it.
    private func placeWaiting() async throws {
        let now = timekeeper.uptime(), last = waiting.withLock { $0 }
        guard now - last.at >= SyncLimits.pollInterval else { return }
        try await pool.run { try self.place(waitingSince: last.records, now) }
    }

    private func place(waitingSince last: Set<ItemID>, _ now: Duration) throws {
        let records = try index.read { try $0.records(.waiting, limit: SyncLimits.settleBatch) }
        waiting.withLock { $0 = (Set(records), now) }
        let overdue = records.filter(last.contains)
        guard !overdue.isEmpty else { return }
        let dropped = try index.write(.remote) { transaction in
            var settler = settler(transaction)
            settler.movesLocalAside = true
            for id in overdue { try settler.settle(id) }
            return settler.dropped
        }
        discard(dropped)
    }

    /// Records the identity of the cloud. Another cloud, or one restored from an older backup, does not know the state
    /// of this device. Then nothing counts as deleted, and all local items are uploaded.
    ///
    /// Throws `.newerFormat` if this program must not read from the cloud. If it may only read, nothing is uploaded.
    package func meet(_ description: ContainerDescription) async throws {
        let features = description.features
        switch features.access(knowing: FormatFeatures.known) {
        case .full: connection.allowWrites(refusal: nil)
        case .readOnly(let unknown): connection.allowWrites(refusal: features.refusal(of: "the cloud", unknown))
        case .none(let unknown): throw features.refusal(of: "the cloud", unknown)
        }
        let isAnother = try await pool.run { [index, logger] in
            let position = try index.read { try $0.feedPosition() }
            guard position.incarnation != description.incarnation else { return false }
            if position.incarnation != nil {
                logger.warning("the cloud's data was replaced: uploading all local items")
            }
            try index.write(.remote) { transaction in
                if position.incarnation != nil { try transaction.startOver() }
                try transaction.setLinkCounts([])
                try transaction.setCaughtUp(false)
                try transaction.setFeedPosition(
                    FeedPosition(
                        revision: .zero, incarnation: description.incarnation,
                        snapshotEpoch: position.snapshotEpoch))
            }
            return true
        }
        // Earlier announcements came from the other cloud.
        if isAnother { feed.update { $0.announced = description.revision } }
    }

    /// Reads the feed to its end.
    package func readFeed() async throws {
        var hasMore = true, snapshots = 0
        while hasMore {
            let position = try await pool.run { [index] in try index.read { try $0.feedPosition() } }
            // An interrupted snapshot begins anew: deletions since then may have been forgotten.
            guard !position.isInSnapshot else {
                try await readSnapshot(position)
                continue
            }
            do {
                let limit = position.revision == .zero ? SyncLimits.listingPage : SyncLimits.followingPage
                feed.beginPage()
                defer { feed.endPage() }
                let page = try await self.page(limit) { limit in
                    try await self.service.changes(after: position.point, limit: limit)
                }
                try page.requireProgress(from: position.revision)
                let done = await prepare(for: page.items)
                defer { done?() }
                let isApplied = try await pool.run { try self.applier.apply(page, at: position) }
                hasMore = page.hasMore || !isApplied
            } catch let error as UbiquityError where error.code == .feedCompacted {
                guard snapshots < SyncLimits.snapshotsInARow else {
                    throw UbiquityError(
                        .damaged, "the cloud's change feed does not reach back to the cloud's own snapshot",
                        remedy: "the cloud's database is damaged: restore it from a backup")
                }
                snapshots += 1
                try await readSnapshot(position)
                hasMore = true
            }
        }
        try await pool.run { [index] in
            guard try !index.read({ try $0.hasBeenCaughtUp() }) else { return }
            try index.write(.remote) { try $0.setCaughtUp(true) }
        }
    }

    /// Requests a page of the feed. If the answer is too large, requests a page of one item.
    private func page(_ limit: Int, _ ask: (_ limit: Int) async throws -> ChangePage) async throws -> ChangePage {
        do { return try await ask(limit) } catch let error as UbiquityError where error.code == .tooLarge {
            return try await ask(1)
        }
    }

    /// Asks clients to release items that others have deleted or moved. A client that does not answer in time does not
    /// block the feed.
    private func prepare(for items: [RemoteItem]) async -> (@Sendable () -> Void)? {
        guard !items.isEmpty, let openItems, openItems.mayBeUsed(.root) else { return nil }
        do {
            let news = try await pool.run { [index, device = configuration.device] in
                try index.read { reader in try items.filter { try reader.isNews($0, for: device) } }
            }
            let coming = news.map { item in
                item.isDeleted
                    ? ComingChange.deletion(item.id) : .place(item.id, Place(parent: item.parent, name: item.name))
            }
            return coming.isEmpty ? nil : try await openItems.prepare(for: coming)
        } catch {
            logger.info("applying changes without waiting for clients", metadata: ["reason": "\(error)"])
            return nil
        }
    }

    /// Reads the snapshot, because this device was away longer than the cloud remembers deletions. A known item that
    /// the snapshot lacks was deleted.
    private func readSnapshot(_ position: FeedPosition) async throws {
        logger.info("the change feed no longer reaches back to this device's position: reading the snapshot")
        var next = FeedPosition(
            revision: .zero, incarnation: position.incarnation, snapshotEpoch: position.snapshotEpoch + 1,
            isInSnapshot: true)
        try await pool.run { [index, next] in try index.write(.remote) { try $0.setFeedPosition(next) } }
        var hasMore = true, isWhole = true
        while hasMore {
            feed.beginPage()
            defer { feed.endPage() }
            let after = next.point
            let page = try await self.page(SyncLimits.listingPage) { limit in
                try await self.service.snapshot(after: after, limit: limit)
            }
            try page.requireProgress(from: next.revision)
            _ = try await pool.run { [next] in try self.applier.apply(page, at: next) }
            next.revision = page.revision
            next.mark = page.mark
            hasMore = page.hasMore
            isWhole = isWhole && !page.isIncomplete
        }
        next.isInSnapshot = false
        // An item that the cloud cannot read is not deleted.
        if isWhole { try await dropMissing(asOf: next.revision) } else {
            logger.warning("the cloud has damaged records: run ubiquity doctor on a device that has all files")
        }
        try await pool.run { [index, next] in try index.write(.remote) { try $0.setFeedPosition(next) } }
    }

    /// Removes items that the snapshot lacks. They were deleted at some revision up to the snapshot's, so older answers
    /// about them are ignored.
    private func dropMissing(asOf revision: Revision) async throws {
        while true {
            let coming = try await pool.run { [index] in try index.read { try $0.deletedBySnapshot(at: revision) } }
            guard !coming.isEmpty else { return }
            let done = await prepare(for: coming)
            defer { done?() }
            try await pool.run { [self] in
                let dropped = try index.write(.remote) { transaction in
                    var settler = settler(transaction)
                    let deleted = try transaction.deletedBySnapshot(at: revision)
                    try settler.receive(page: deleted, index, isLast: false)
                    try settler.settleAll(limit: SyncLimits.settleBatch)
                    return settler.dropped
                }
                discard(dropped)
            }
        }
    }
}
