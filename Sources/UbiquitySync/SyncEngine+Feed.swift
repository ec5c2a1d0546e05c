internal import Logging
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

/// What the feed loop knows beyond the index.
struct FeedState {
    /// The newest revision the cloud told of.
    var announced = Revision.zero
    /// Whether the feed was read to its end since the connection was made.
    var isCaughtUp = false
    /// The power may have taken contents that the cloud was told of and has not got.
    var mayHaveLost = false
    /// The index has all that this device has sent, or the feed has told of the rest.
    var knowsWhatWasSent = true
    /// Some of them wait for their places, and are given up when they have them.
    var looksForLost = false
    /// What this device has deleted at the cloud, at which revision, since the page that is on its way was asked for:
    /// that page may still have it, and here it is forgotten. Nil if none is on its way, so that it holds what is
    /// answered while one request lasts.
    var deletedMeanwhile: [ItemID: Revision]?
    /// Records that had no place at the last look, and when that was, by the machine's uptime.
    var waiting: (records: Set<ItemID>, at: Duration) = ([], .zero)
}

// The feed loop: brings what others changed.
extension SyncEngine {
    func runFeed() async {
        while !Task.isCancelled {
            // Read first: a change from here on is not missed.
            let seen = connection.changed.generation
            guard !connection.isPaused else {
                await connection.changed.wait(since: seen, atMost: SyncLimits.pollInterval, timekeeper)
                continue
            }
            do {
                try await follow()
            } catch {
                guard !Task.isCancelled else { return }
                feed.withLock { $0.isCaughtUp = false }
                let error = UbiquityError.from(error)
                let wait = connection.failed(error)
                logger.info("not connected", metadata: ["reason": "\(error)", "retry": "\(wait)"])
                progress.fire()
                await connection.changed.wait(since: seen, atMost: wait, timekeeper)
            }
        }
    }

    /// Connects, reads the feed to its end, and stays with it until the connection breaks.
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

    /// Hears of news as they come. Where nothing but the stream gets through (a proxy refuses or keeps it), the feed is
    /// asked now and then instead, and whether this is the same cloud.
    private func listen(to incarnation: UInt64) async throws {
        var backoff = Backoff()
        while true {
            do {
                for try await revision in try await service.news() {
                    feed.withLock { $0.announced = max($0.announced, revision) }
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
            feed.withLock { $0.isCaughtUp = true }
            if feed.withLock({ $0.mayHaveLost || $0.looksForLost }) {
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

    /// What has waited for a name from one look to the next gets it, though something that an ignore file keeps local
    /// has it: that would have gone up by now, had the rules changed too.
    private func placeWhatWaits() async throws {
        let now = timekeeper.uptime(), last = feed.withLock { $0.waiting }
        guard now - last.at >= SyncLimits.pollInterval else { return }
        try await pool.run { try self.place(waitingSince: last.records, now) }
    }

    private func place(waitingSince last: Set<ItemID>, _ now: Duration) throws {
        let waiting = try index.read { try $0.records(.waiting, limit: SyncLimits.settleBatch) }
        feed.withLock { $0.waiting = (Set(waiting), now) }
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

    /// Takes note of which cloud this is. Another one than before, or one whose older copy was put back, does not know
    /// what this device knows: nothing may be taken for deleted, and everything that is here goes up.
    func meet(_ description: ContainerDescription) async throws {
        let isAnother = try await pool.run { [index, logger] in
            let position = try index.read { try $0.feedPosition() }
            guard position.incarnation != description.incarnation else { return false }
            if position.incarnation != nil { logger.warning("the cloud is another one; all goes up again") }
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
        // What was announced till now was the other one's.
        if isAnother { feed.withLock { $0.announced = description.revision } }
    }

    /// Reads the feed to its end.
    func readFeed() async throws {
        var hasMore = true, snapshots = 0
        while hasMore {
            let position = try await pool.run { [index] in try index.read { try $0.feedPosition() } }
            // One that was cut off begins anew: deletions since may have been forgotten.
            guard !position.isInSnapshot else {
                try await readSnapshot(position)
                continue
            }
            do {
                let limit = position.revision == .zero ? SyncLimits.listingPage : SyncLimits.followingPage
                setNotesDeletions(true)
                defer { setNotesDeletions(false) }
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
                        remedy: "the cloud's database is damaged")
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

    /// A page of the feed; the smallest one if that of so many items is longer than an answer may be.
    private func page(_ limit: Int, _ ask: (_ limit: Int) async throws -> ChangePage) async throws -> ChangePage {
        do { return try await ask(limit) } catch let error as UbiquityError where error.code == .tooLarge {
            return try await ask(1)
        }
    }

    /// From before a page is asked for until it is taken in: what the cloud answers for meanwhile is newer than that.
    private func setNotesDeletions(_ isOn: Bool) { feed.withLock { $0.deletedMeanwhile = isOn ? [:] : nil } }

    /// To be called before the index forgets what the cloud has deleted for this device.
    func noteDeletions(_ response: CommitResponse) {
        feed.withLock { state in
            for case let item? in response.results.map(\.item) where item.isDeleted {
                state.deletedMeanwhile?[item.id] = item.revision
            }
        }
    }

    /// Has clients let go of what others have deleted or moved. One that does not in its time cannot keep the rest from
    /// coming.
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
            logger.info("clients are not waited for", metadata: ["reason": "\(error)"])
            return nil
        }
    }

    /// - Returns: false if the snapshot has to be read instead, as the index knows then.
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
            let deleted = feed.withLock { $0.deletedMeanwhile ?? [:] }
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

    /// Logs records that break the rules. Their number follows from the page's limit.
    private func report(_ ignored: [(item: ItemID, reason: String)]) {
        for (item, reason) in ignored {
            logger.error("ignored a record of the cloud", metadata: ["item": "\(item)", "reason": "\(reason)"])
        }
    }

    /// Contents that others have made of what this device has sent changes of. To be called before they are taken in.
    private func noteAnswers(_ items: [RemoteItem], _ transaction: IndexTransaction) throws {
        guard !throttle.isEmpty else { return }
        for item in items where item.content.map({ $0.device != configuration.device }) ?? false {
            guard let known = try transaction.remote(id: item.id), known.revision < item.revision,
                known.content?.version != item.content?.version, let row = try transaction.row(id: item.id)
            else { continue }
            throttle.noteAnswer(to: row.key)
        }
    }

    /// The feed's first page has no deletions, since a new device need not know them. One that had an item committed
    /// before it read that page must: it begins with the snapshot, which tells what is missing. (The page alone does
    /// not: an item that it lacks may have been changed since, and stand on a later one.)
    private func needsSnapshot(
        before page: ChangePage, at position: FeedPosition, _ transaction: IndexTransaction
    ) throws -> Bool {
        guard position.revision == .zero, !position.isInSnapshot else { return false }
        let listed = Set(page.items.map(\.id))
        return try transaction.remotes(through: page.revision).contains { !listed.contains($0.id) }
    }

    /// Whether the feed tells for the first time of a version that this device made. (What it told of before a loss of
    /// power was known to be lost stays what it was: see `continueOwnVersion`.)
    private func isNewOwnVersion(_ item: RemoteItem, _ transaction: IndexTransaction) throws -> Bool {
        guard let content = item.content, content.device == configuration.device, content.isAvailable, !item.isDeleted
        else { return false }
        let known = try transaction.remote(id: item.id)?.content
        return known?.version != content.version || known?.isAvailable == false
    }

    /// A version of this device that it has not heard of. One that it never sent was made by another copy of
    /// this index: the one that a backup was made of, or a clone of the machine. It counts like any other device's.
    private func meetOwnVersion(_ item: RemoteItem, _ transaction: IndexTransaction) throws {
        guard let version = item.content?.version, try transaction.isSent(version) else { return }
        try continueOwnVersion(item, transaction)
        try transaction.forgetSent(version)
    }

    /// A version that this device made, and whose commit it never heard the answer of: what was changed here since, or
    /// will be before the answer to its repetition, was made from it, and is no conflict with it. (After a loss of
    /// power in the middle of a run that is not known.)
    private func continueOwnVersion(_ item: RemoteItem, _ transaction: IndexTransaction) throws {
        guard let content = item.content,
            let row = try transaction.row(id: item.id), row.dirty.contains(.content), row.version != content.version,
            feed.withLock({ $0.knowsWhatWasSent }),
            // Not a page that was long on its way: the answer to a later commit may have come before it.
            try transaction.remote(id: item.id)?.revision == item.revision
        else { return }
        var next = row
        next.version = content.version
        if row.nextVersion != content.version { next.nextVersion = nil }
        try transaction.update(next, before: row)
    }

    /// This device announced a content and does not have it: it was lost with the power while the announcement was on
    /// its way.
    private func noteLost(_ item: RemoteItem, _ transaction: IndexTransaction) throws {
        guard let content = item.content, content.device == configuration.device, !content.isAvailable,
            !item.isDeleted
        else { return }
        if let row = try transaction.row(id: item.id), !row.dirty.isEmpty || row.contentState == .complete { return }
        try transaction.noteLostContents(wait: true)
        feed.withLock { $0.looksForLost = true }
    }

    /// This device was away longer than deletions are remembered: everything there is is read, and what it knew and
    /// does not find was deleted.
    private func readSnapshot(_ position: FeedPosition) async throws {
        logger.info("the change feed no longer reaches back: reading the snapshot")
        var next = FeedPosition(
            revision: .zero, incarnation: position.incarnation, snapshotEpoch: position.snapshotEpoch + 1,
            isInSnapshot: true)
        try await pool.run { [index, next] in try index.write(.remote) { try $0.setFeedPosition(next) } }
        var hasMore = true, isWhole = true
        while hasMore {
            setNotesDeletions(true)
            defer { setNotesDeletions(false) }
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
        // Of what the cloud cannot read it did not say that it is deleted.
        if isWhole { try await dropMissing(asOf: next.revision) } else {
            logger.warning("the cloud has damaged records: run ubiquity doctor on a device that has all files")
        }
        try await pool.run { [index, next] in try index.write(.remote) { try $0.setFeedPosition(next) } }
    }

    /// What the snapshot did not have was deleted at some revision up to its own: an answer from before is no news.
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
