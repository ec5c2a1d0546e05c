internal import Logging
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

// The feed loop: reads the changes of other devices.
extension SyncEngine {
    func runFeed() async {
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
                progress.fire()
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
                    feedSignal.fire()
                    backoff.reset()
                }
            } catch let error as UbiquityError where error.code != .cancelled && error.code != .signedOut {
                logger.info("no stream of news", metadata: ["reason": "\(error)"])
            }
            try await timekeeper.sleep(for: backoff.next(random))
            try connection.requireAllowed()
            guard try await service.open().incarnation == incarnation else {
                throw UbiquityError(.offline, "the cloud is another one")
            }
            feedSignal.fire()
        }
    }

    private func readAsNewsCome() async throws {
        while !Task.isCancelled {
            try connection.requireAllowed()
            try await readFeed()
            connection.succeeded()
            feed.update { $0.isCaughtUp = true }
            if feed.current.mayHaveLost || feed.looksForLost {
                try await pool.run { try self.giveUpLostContents() }
            }
            try await placeWhatWaits()
            pushSignal.fire()
            downloadSignal.fire()
            progress.fire()
            await feedSignal.wait(atMost: SyncLimits.pollInterval, timekeeper)
        }
        throw CancellationError()
    }

    /// Places records that waited for a name from one look to the next, although an excluded item has the name. Had the
    /// ignore rules changed too, that item would have been uploaded by now.
    private func placeWhatWaits() async throws {
        let now = timekeeper.uptime(), last = feed.current.waiting
        guard now - last.at >= SyncLimits.pollInterval else { return }
        try await pool.run { try self.place(waitingSince: last.records, now) }
    }

    private func place(waitingSince last: Set<ItemID>, _ now: Duration) throws {
        let waiting = try index.read { try $0.records(.waiting, limit: SyncLimits.settleBatch) }
        feed.update { $0.waiting = (Set(waiting), now) }
        let overdue = waiting.filter(last.contains)
        guard !overdue.isEmpty else { return }
        let dropped = try index.write(.remote) { transaction in
            var settler = settler(transaction)
            settler.movesIgnoredAside = true
            for id in overdue { try settler.settle(id) }
            return settler.dropped
        }
        discard(dropped)
    }

    /// Records the identity of the cloud. Another cloud, or one restored from an older backup, does not know the state
    /// of this device. Then nothing counts as deleted, and all local items are uploaded.
    func meet(_ description: ContainerDescription) async throws {
        let isAnother = try await pool.run { [index, logger] in
            let position = try index.read { try $0.feedPosition() }
            guard position.incarnation != description.incarnation else { return false }
            if position.incarnation != nil { logger.warning("the cloud is another one: uploading all local items") }
            try index.write(.remote) { transaction in
                if position.incarnation != nil { try transaction.startOver() }
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
    func readFeed() async throws {
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
                let isTaken = try await pool.run { try self.apply(page, at: position) }
                hasMore = page.hasMore || !isTaken
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

    /// - Returns: false if the snapshot has to be read instead. The index records that.
    @discardableResult
    private func apply(_ page: ChangePage, at position: FeedPosition) throws -> Bool {
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
            try noteAnswers(items, transaction)
            var settler = settler(transaction)
            let isLast = !page.hasMore && !position.isInSnapshot
            try settler.receive(page: items, index, isLast: isLast)
            try transaction.setFeedBehind(!isLast)
            try settler.settleAll(limit: SyncLimits.settleBatch)
            for item in own { try meetOwnVersion(item, transaction) }
            for item in items { try noteLost(item, transaction) }
            var next = position
            next.revision = page.revision
            next.mark = page.mark
            try transaction.setFeedPosition(next)
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
    private func noteAnswers(_ items: [RemoteItem], _ transaction: IndexTransaction) throws {
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
    private func meetOwnVersion(_ item: RemoteItem, _ transaction: IndexTransaction) throws {
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
    private func noteLost(_ item: RemoteItem, _ transaction: IndexTransaction) throws {
        guard let content = item.content, content.device == configuration.device, !content.isAvailable,
            !item.isDeleted
        else { return }
        if let row = try transaction.row(id: item.id), !row.dirty.isEmpty || row.contentState == .complete { return }
        try transaction.noteLostContents(wait: true)
        feed.update { $0.looksForLost = true }
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
            _ = try await pool.run { [next] in try self.apply(page, at: next) }
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
