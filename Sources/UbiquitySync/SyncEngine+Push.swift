internal import Logging
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

// The push loop: sends what was changed here, in order, metadata before large contents.
extension SyncEngine {
    func runPush() async {
        await withDiscardingTaskGroup { uploads in
            while !Task.isCancelled {
                await pushSignal.wait(atMost: timeToNextRetry(), timekeeper)
                // Also offline: a loop that wakes at once takes a core from the program that makes the changes.
                try? await timekeeper.sleep(for: SyncLimits.quiet)
                // What the cloud has taken of the changes sent before, and could not say, is known from the feed:
                // without it a name might be taken that the cloud believes to be another item's.
                guard !Task.isCancelled, !connection.isPaused, connection.isOnline, feed.withLock({ $0.isCaughtUp })
                else { continue }
                do {
                    var nextLook = timekeeper.uptime() + SyncLimits.othersRest
                    while !Task.isCancelled, feed.withLock({ $0.isCaughtUp }), let sent = try await pushOnce() {
                        if SyncLimits.stream.contains(sent) { try await timekeeper.sleep(for: SyncLimits.streamRest) }
                        // A program that makes file after file must not keep what is large from going up.
                        let start = timekeeper.uptime()
                        guard start > nextLook else { continue }
                        try await startOthers(&uploads)
                        // The look goes through all that waits: of a large backlog it takes a small part of the time.
                        let now = timekeeper.uptime()
                        nextLook = now + max(SyncLimits.othersRest, (now - start) * SyncLimits.othersShare)
                    }
                    try await startOthers(&uploads)
                } catch {
                    await noteFailure(error)
                }
            }
        }
    }

    /// What goes up beside the groups of small changes.
    private func startOthers(_ uploads: inout DiscardingTaskGroup) async throws {
        while !Task.isCancelled, try await pushVersionActions() {}
        for row in try await pool.run({ try self.largeContents() }) {
            uploads.addTask { await self.upload(row) }
        }
    }

    /// How long the loop may sleep: till the first item that rests or failed is due, at most the poll interval.
    private func timeToNextRetry() -> Duration {
        let now = timekeeper.now()
        let rests = push.withLock { state in
            // What is farther away was set before the clock was set back.
            let latest = now.advanced(bySeconds: SyncLimits.longestThrottle / .seconds(1))
            state.rescanAt = state.rescanAt.filter { $0.value > now && $0.value <= latest }
            if let until = state.deletionsWaitUntil, until <= now { state.deletionsWaitUntil = nil }
            if let until = state.finishedAt, until <= now { state.finishedAt = nil }
            let kept = state.keptDeletions.values.map(\.until).filter { $0 > now && $0 <= latest }.min()
            let rescan = state.rescanAt.values.min()
            return [kept, rescan, state.deletionsWaitUntil, state.finishedAt].compactMap { $0 }.min()
        }
        var wait = min(index.timeUntilHoldEnds() ?? SyncLimits.pollInterval, SyncLimits.pollInterval)
        if let due = [problems.nextRetry(.upload, after: now), rests].compactMap({ $0 }).min() {
            wait = min(.nanoseconds(due.nanoseconds - now.nanoseconds), wait)
        }
        return wait
    }

    private func noteFailure(_ error: any Error) async {
        let error = UbiquityError.from(error)
        guard error.code != .cancelled else { return }
        logger.info("cannot send changes", metadata: ["reason": "\(error)"])
        if error.isAboutConnection {
            // The feed loop finds out when the cloud is back, and wakes this one.
            feed.withLock { $0.isCaughtUp = false }
            let seen = connection.changed.generation
            let wait = max(connection.failed(error), push.withLock { $0.backoff.next(random) })
            await connection.changed.wait(since: seen, atMost: wait, timekeeper)
            feedSignal.fire()
        } else {
            try? await timekeeper.sleep(for: Backoff.longest / 10)
        }
        pushSignal.fire()
    }

    /// Sends one group.
    /// - Returns: how many changes that were; nil if nothing could go.
    private func pushOnce() async throws -> Int? {
        try connection.requireAllowed()
        await refreshUsageOfFullAccount()
        guard let outgoing = try await gather() else { return nil }
        if !outgoing.ahead.isEmpty {
            do { try await sendAhead(outgoing) } catch let error as UbiquityError
                where error.code == .noSpace || Self.isAboutContent(error)
            {
                noteRefusal(of: Array(outgoing.ahead.keys), error)
            }
        }
        if !outgoing.group.isEmpty { try await commit(outgoing.group, outgoing) }
        return outgoing.group.count
    }

    // MARK: Committing

    /// Commits a group; one that the cloud refuses is halved until the change that it is about stands alone.
    func commit(_ group: [PlannedChange], _ outgoing: Outgoing) async throws {
        var generator = SourcedGenerator(random)
        let request = CommitRequest(
            id: RequestID(using: &generator), device: configuration.device, deviceName: configuration.deviceName,
            changes: group.map(\.change), chunks: Self.chunks(of: group, in: outgoing.chunks),
            packages: outgoing.packages)
        do {
            let response = try await sendPersistently(request)
            try await pool.run(evenIfCancelled: true) { try self.accept(group, response) }
            noteDecided(outgoing.owners)
        } catch let error as MissingChunks {
            forgetPrepared(group, lacking: Set(error.ids))
        } catch let conflict as PackageConflict {
            try await decide(conflict, group, outgoing)
        } catch let error as OutdatedCommit {
            // Made anew at once, from what is here by then.
            try await goOn(after: error)
        } catch let full as CloudIsFull {
            try await divide(group, outgoing, full.reason)
        } catch let error as UbiquityError where Self.isAboutContent(error) {
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

    /// Sends a commit; if the answer is lost, the same request once more: it has no second effect.
    func sendPersistently(_ request: CommitRequest) async throws -> CommitResponse {
        var request = request
        let drawn = request.packages.isEmpty ? [] : Self.versions(of: request)
        (request.number, request.known) = try await pool.run { [index] in
            // A package's decision draws some of its own, which stand in no row.
            if !drawn.isEmpty { try index.write(.remote) { try $0.noteSent(drawn) } }
            return (try index.nextCommitNumber(), try index.read { try $0.feedPosition() }.point)
        }
        do {
            return try await send(&request)
        } catch let error as UbiquityError where error.code == .offline || error.code == .timedOut {
            try connection.requireAllowed()
            try await timekeeper.sleep(for: Backoff.shortest)
            return try await send(&request)
        }
    }

    private static func versions(of request: CommitRequest) -> [VersionID] {
        request.changes.compactMap { change in
            if case .put(let fields) = change.action { fields.content?.version } else { nil }
        }
    }

    private func send(_ request: inout CommitRequest) async throws -> CommitResponse {
        request.sentAt = timekeeper.now()
        let sending = request, size = request.chunks.reduce(0) { $0 + $1.bytes.count }
        let response: CommitResponse
        do { response = try await paced(size) { try await self.service.commit(sending) } } catch let error
            as UbiquityError where error.code == .noSpace
        {
            throw CloudIsFull(reason: error)
        }
        logger.debug(
            "committed", metadata: [
                "changes": "\(sending.changes.count)", "chunk bytes": "\(size)", "revision": "\(response.revision)",
            ])
        noteDeletions(response)
        return response
    }

    /// The cloud has taken a later commit of this device than the one that was to be: two were on their way, or the
    /// index is an old copy.
    func goOn(after outdated: OutdatedCommit) async throws {
        logger.info("a commit was overtaken", metadata: ["last": "\(outdated.last)"])
        try await pool.run { [index] in try index.raiseCommitNumbers(above: outdated.last) }
    }

    private func accept(_ group: [PlannedChange], _ response: CommitResponse) throws {
        let (group, response) = try withoutUnheard(group, response)
        let keeper = KeptDeletions(
            isOn: configuration.completesDeletions,
            attempts: push.withLock { $0.keptDeletions.mapValues(\.backoff.attempts) })
        let (dropped, kept) = try index.write(.remote) { transaction in
            var applier = CommitApplier(
                transaction, settler: settler(transaction), boot: configuration.boot, keeper: keeper)
            try applier.apply(group, response)
            return (applier.dropped, applier.keptDeletions)
        }
        discard(dropped)
        noteKeptDeletions(group, kept)
        noteSent(group)
    }

    /// A deletion that had no effect rests longer each time before it is sent again.
    private func noteKeptDeletions(_ group: [PlannedChange], _ kept: Set<ItemKey>) {
        let now = timekeeper.now()
        push.withLock { state in
            for change in group where !kept.contains(change.row.key) { state.keptDeletions[change.row.key] = nil }
            if state.keptDeletions.count >= SyncLimits.rememberedBackoffs { state.keptDeletions.removeAll() }
            for key in kept {
                var next = state.keptDeletions[key] ?? KeptDeletion(until: now)
                next.until = now.advanced(bySeconds: next.backoff.next(random) / .seconds(1))
                state.keptDeletions[key] = next
            }
        }
    }

    /// What was sent is at the cloud, and the index knows it.
    func noteSent(_ group: [PlannedChange]) {
        noteSentDeletions(group)
        noteFolderTimes(group)
        push.withLock { state in
            state.backoff.reset()
            for change in group where change.hasAll {
                state.prepared[change.row.key] = nil
                state.uploadBackoffs[change.row.key] = nil
            }
        }
        for change in group where change.hasAll {
            problems.clear(.upload, of: change.row.key)
            guard change.isOften, throttle.noteCommit(of: change.row.key) else { continue }
            logger.warning(
                "programs here and on another device change a file in turns; it is slowed down",
                metadata: ["item": "\(change.row.id)", "name": "\(change.row.entry?.name.description ?? "")"])
        }
        noteRoomForAll()
        connection.succeeded()
        // What had to wait for the change is fetched now: the feed may have told of it before this answer came.
        downloadSignal.fire()
        // So may what is to be given up have its place now.
        if feed.withLock({ $0.looksForLost }) { feedSignal.fire() }
        progress.fire()
    }

    /// The cloud has dropped chunks that were sent long ago: their files go up once more; a while later each time, for
    /// it may be that it keeps nothing of what it takes.
    func forgetPrepared(_ group: [PlannedChange], lacking: Set<ChunkID>) {
        let sent = group.filter { !$0.manifest.isEmpty }
        let incomplete = sent.filter { $0.manifest.contains { lacking.contains($0.id) } }
        // One that names what it was not sent is not asked again at once either.
        for row in (incomplete.isEmpty ? sent : incomplete).map(\.row) {
            push.withLock { $0.prepared[row.key] = nil }
            restAfterFailure(row)
            problems.note(
                UbiquityError(
                    .io, "the cloud lacks a part of the content that it was sent", remedy: "it is sent once more"),
                .upload, of: row.key)
        }
    }
}

extension PlannedChange {
    /// The chunks of the content that it brings.
    fileprivate var manifest: Manifest {
        guard case .put(let fields) = change.action else { return [] }
        return fields.content?.manifest ?? []
    }

    /// Whether it has what was changed of the row, so far as that concerns the content: else that waits still.
    fileprivate var hasAll: Bool {
        guard case .put(let fields) = change.action else { return true }
        return fields.content != nil || !row.dirty.contains(.content) || row.kind != .file
    }

    /// Whether it counts as one of many: not what goes by itself with other changes, like a folder's times.
    fileprivate var isOften: Bool {
        guard case .put(let fields) = change.action else { return false }
        return fields.content != nil || row.kind == .file && !row.dirty.contains(.created) && fields.place == nil
    }
}

/// The cloud has no room for what a commit brings. Not for good, and not the same as a full disk here.
struct CloudIsFull: Error {
    var reason: UbiquityError
}

extension PreparedContent {
    init(_ row: ItemRow, _ manifest: Manifest, _ size: Int64) {
        self.init(generation: row.generation, manifest: manifest, size: size)
    }
}

extension ItemRow {
    /// Whether something must be written down before its changes are sent: that they are, or the version's id.
    var isToBeMarked: Bool {
        guard !isDeleted else { return false }
        return dirty.contains(.content) && nextVersion == nil
            || bringsIntoBeing && !flags.contains(.creationSent)
    }

    /// Whether the cloud has the item only once it has this: it is new, or was deleted.
    var bringsIntoBeing: Bool { dirty.contains(.created) || flags.contains(.returned) }

    /// Whether it was changed in more than the content and its times, and the cloud knows it.
    var hasMoreThanContent: Bool {
        !dirty.contains(.created) && !dirty.subtracting([.content, .times]).isEmpty
    }

    /// A dirty content small enough to travel inside the commit.
    var wantsInlineContent: Bool {
        kind == .file && dirty.contains(.content) && contentState == .complete && size <= SyncLimits.inlineContentSize
            && !isDeleted && !isFresh
    }
}
