internal import Logging
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

/// The push loop: sends local changes in order, metadata before large contents.
///
/// It holds nothing but the rooms that it drives. The engine calls `run`. `Gatherer` selects a group, `CommitSender`
/// sends it, `CommitApplier` applies the answer, and `CommitOutcomes` records it. `ContentUploader` works beside it.
/// `PackageSync` decides about a package that two devices have changed.
final class ChangeSender: SyncRoom {
    let context: SyncContext
    private let sender: CommitSender
    private let gatherer: Gatherer
    private let contents: PendingContents
    private let uploader: ContentUploader
    private let quota: AccountQuota
    let packages: PackageSync
    private let outcomes: CommitOutcomes
    private let unknownItems: UnknownItems

    init(
        _ context: SyncContext, _ sender: CommitSender, _ gatherer: Gatherer, _ contents: PendingContents,
        _ quota: AccountQuota, _ packages: PackageSync, _ outcomes: CommitOutcomes
    ) {
        self.context = context
        self.sender = sender
        self.gatherer = gatherer
        self.contents = contents
        uploader = ContentUploader(context, sender, contents, quota)
        self.quota = quota
        self.packages = packages
        self.outcomes = outcomes
        unknownItems = UnknownItems(context)
    }

    private var versionActions: VersionActions { VersionActions(context: context, sender: sender) }

    /// Runs until the task is cancelled.
    func run() async {
        await withDiscardingTaskGroup { uploads in
            while !Task.isCancelled {
                await agenda.wait(for: .push, atMost: agenda.timeToNextUpload(holdEnd: index.timeUntilHoldEnds()))
                // Also offline: a loop that wakes at once takes a core from the program that makes the changes.
                try? await timekeeper.sleep(for: SyncLimits.quiet)
                // Read the feed first: it reports changes that the cloud took but whose answers were lost. Without it,
                // this device might use a name that the cloud has given to another item.
                guard !Task.isCancelled, !connection.isPaused, connection.isOnline, feed.isCaughtUp
                else { continue }
                do {
                    var nextLook = timekeeper.uptime() + SyncLimits.othersRest
                    while !Task.isCancelled, feed.isCaughtUp, let sent = try await sendNext() {
                        if SyncLimits.stream.contains(sent) { try await timekeeper.sleep(for: SyncLimits.streamRest) }
                        // A program that creates many files must not delay large contents.
                        let start = timekeeper.uptime()
                        guard start > nextLook else { continue }
                        try await startOthers(&uploads)
                        // This searches the whole backlog, so limit it to a small part of the time.
                        let now = timekeeper.uptime()
                        nextLook = now + max(SyncLimits.othersRest, (now - start) * SyncLimits.othersShare)
                    }
                    try await startOthers(&uploads)
                } catch {
                    await pause(after: error)
                }
            }
        }
    }

    /// Starts work beside the groups of small changes: version actions and large uploads.
    private func startOthers(_ uploads: inout DiscardingTaskGroup) async throws {
        while !Task.isCancelled, try await versionActions.send() {}
        for row in try await pool.run({ try self.uploader.largeContents() }) {
            uploads.addTask { await self.uploader.upload(row) }
        }
    }

    private func pause(after error: any Error) async {
        let error = UbiquityError.from(error)
        guard error.code != .cancelled else { return }
        logger.info("cannot send changes", metadata: ["reason": "\(error)"])
        if error.isAboutConnection {
            // The feed loop detects when the cloud is reachable again and wakes this one.
            feed.update { $0.isCaughtUp = false }
            let seen = connection.changed.generation
            let wait = max(connection.failed(error), outcomes.nextPause())
            await connection.changed.wait(since: seen, atMost: wait, timekeeper)
            agenda.happened(.feedIsNeeded)
        } else {
            try? await timekeeper.sleep(for: Backoff.longest / 10)
        }
        agenda.happened(.commitPauseEnded)
    }

    /// Sends one group.
    /// - Returns: the number of changes, or nil if nothing could be sent.
    private func sendNext() async throws -> Int? {
        try connection.requireAllowed()
        await quota.refresh()
        guard let outgoing = try await gatherer.gather() else { return nil }
        if !outgoing.ahead.isEmpty {
            do { try await sendAhead(outgoing) } catch let error as UbiquityError
                where error.code == .noSpace || error.isAboutContent
            {
                outcomes.recordRefusal(of: Array(outgoing.ahead.keys), error)
            }
        }
        if !outgoing.group.isEmpty { try await commit(outgoing.group, outgoing) }
        return outgoing.group.count
    }

    /// Uploads chunks ahead of a package's commit.
    private func sendAhead(_ outgoing: Outgoing) async throws {
        try await uploader.upload(outgoing.chunks, outgoing.chunks.reduce(0) { $0 + $1.bytes.count })
        contents.keep(outgoing.ahead)
    }

    // MARK: Committing

    /// Commits a group. If the cloud refuses it, the group is halved until the offending change is alone.
    private func commit(_ group: [PlannedChange], _ outgoing: Outgoing) async throws {
        var generator = SourcedGenerator(random)
        let request = CommitRequest(
            id: RequestID(using: &generator), device: configuration.device, deviceName: configuration.deviceName,
            changes: group.map(\.change), chunks: Self.chunks(of: group, in: outgoing.chunks),
            packages: outgoing.packages)
        do {
            let response = try await sender.send(request)
            try await pool.run(evenIfCancelled: true) { try self.accept(group, response) }
            packages.backlog.recordDecided(outgoing.owners)
        } catch let error as MissingChunks {
            outcomes.forgetPrepared(group, lacking: Set(error.ids))
        } catch let conflict as PackageConflict {
            try await packages.decide(conflict, group, outgoing)
        } catch let error as OutdatedCommit {
            // The group is planned anew at once from the current state.
            try await sender.raiseNumbers(after: error)
        } catch let full as CloudIsFull {
            try await divide(group, outgoing, full.reason)
        } catch let error as UbiquityError where error.isAboutContent {
            try await divide(group, outgoing, error)
        }
    }

    private static func chunks(of group: [PlannedChange], in chunks: [Chunk]) -> [Chunk] {
        var named = Set<ChunkID>()
        for change in group {
            guard case .put(let fields) = change.change.action else { continue }
            for reference in fields.content?.manifest ?? [] { named.insert(reference.id) }
        }
        return chunks.filter { named.contains($0.id) }
    }

    private func accept(_ group: [PlannedChange], _ response: CommitResponse) throws {
        let (group, response) = try unknownItems.withoutUnknown(group, response)
        let keeper = KeptDeletions(
            isOn: configuration.completesDeletions, attempts: agenda.deletionAttempts)
        let (dropped, kept) = try index.write(.remote) { transaction in
            var applier = CommitApplier(
                transaction, settler: settler(transaction), boot: configuration.boot, keeper: keeper)
            try applier.apply(group, response)
            return (applier.dropped, applier.keptDeletions)
        }
        discard(dropped)
        agenda.pauseDeletions(kept, of: group.map(\.row.key))
        outcomes.recordSent(group)
    }

    // MARK: Refusals

    /// Divides a refused group: the offending change waits, and all others are sent.
    private func divide(_ group: [PlannedChange], _ outgoing: Outgoing, _ error: UbiquityError) async throws {
        guard outgoing.owners.isEmpty else {
            if error.code == .invalid { for change in group { try await renew(change.row) } }
            return outcomes.recordRefusal(of: group.map(\.row.key), error)
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
