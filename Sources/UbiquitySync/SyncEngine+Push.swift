internal import Logging
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

// The push loop: sends local changes in order, metadata before large contents.
extension SyncEngine {
    func runPush() async {
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
                    while !Task.isCancelled, feed.isCaughtUp, let sent = try await pushOnce() {
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
                    await noteFailure(error)
                }
            }
        }
    }

    /// Starts work beside the groups of small changes: version actions and large uploads.
    private func startOthers(_ uploads: inout DiscardingTaskGroup) async throws {
        while !Task.isCancelled, try await versionActions.send() {}
        for row in try await pool.run({ try self.largeContents() }) {
            uploads.addTask { await self.upload(row) }
        }
    }

    private func noteFailure(_ error: any Error) async {
        let error = UbiquityError.from(error)
        guard error.code != .cancelled else { return }
        logger.info("cannot send changes", metadata: ["reason": "\(error)"])
        if error.isAboutConnection {
            // The feed loop detects when the cloud is reachable again and wakes this one.
            feed.update { $0.isCaughtUp = false }
            let seen = connection.changed.generation
            let wait = max(connection.failed(error), push.withLock { $0.backoff.next(random) })
            await connection.changed.wait(since: seen, atMost: wait, timekeeper)
            agenda.happened(.feedIsNeeded)
        } else {
            try? await timekeeper.sleep(for: Backoff.longest / 10)
        }
        agenda.happened(.commitPauseEnded)
    }

    /// Sends one group.
    /// - Returns: the number of changes, or nil if nothing could be sent.
    private func pushOnce() async throws -> Int? {
        try connection.requireAllowed()
        await quota.refresh()
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

    /// Commits a group. If the cloud refuses it, the group is halved until the offending change is alone.
    func commit(_ group: [PlannedChange], _ outgoing: Outgoing) async throws {
        var generator = SourcedGenerator(random)
        let request = CommitRequest(
            id: RequestID(using: &generator), device: configuration.device, deviceName: configuration.deviceName,
            changes: group.map(\.change), chunks: Self.chunks(of: group, in: outgoing.chunks),
            packages: outgoing.packages)
        do {
            let response = try await sender.send(request)
            try await pool.run(evenIfCancelled: true) { try self.accept(group, response) }
            noteDecided(outgoing.owners)
        } catch let error as MissingChunks {
            forgetPrepared(group, lacking: Set(error.ids))
        } catch let conflict as PackageConflict {
            try await decide(conflict, group, outgoing)
        } catch let error as OutdatedCommit {
            // The group is planned anew at once from the current state.
            try await sender.raiseNumbers(after: error)
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
        noteSent(group)
    }

    /// Records that the cloud has the changes and that the index knows it.
    func noteSent(_ group: [PlannedChange]) {
        hold.recordSent(group)
        noteFolderTimes(group)
        push.withLock { state in
            state.backoff.reset()
            for change in group where change.hasAll { state.prepared[change.row.key] = nil }
        }
        agenda.succeeded(group.filter(\.hasAll).map(\.row.key))
        for change in group where change.hasAll {
            problems.clear(.upload, of: change.row.key)
            guard change.isOften, throttle.noteCommit(of: change.row.key) else { continue }
            logger.warning(
                "programs on this and another device change a file in turns; its uploads are throttled",
                metadata: ["item": "\(change.row.id)", "name": "\(change.row.entry?.name.description ?? "")"])
        }
        quota.endIfNoneWaits()
        connection.succeeded()
        // Downloads that waited for the change start now: the feed may have reported it before this answer arrived.
        // Lost contents that waited for their items to be placed may be given up now.
        agenda.happened(.changesWereTaken(showsLost: feed.looksForLost))
    }

    /// Handles that the cloud has dropped chunks sent long ago. Their files are uploaded again, after a longer wait
    /// each time: the cloud may be discarding everything it takes.
    func forgetPrepared(_ group: [PlannedChange], lacking: Set<ChunkID>) {
        let sent = group.filter { !$0.manifest.isEmpty }
        let incomplete = sent.filter { $0.manifest.contains { lacking.contains($0.id) } }
        // A cloud that names chunks it was never sent is not asked again at once either.
        for row in (incomplete.isEmpty ? sent : incomplete).map(\.row) {
            push.withLock { $0.prepared[row.key] = nil }
            agenda.pauseAfterFailure(row.key)
            problems.note(
                UbiquityError(
                    .io, "the cloud lacks a part of the uploaded content", remedy: "it is uploaded again"),
                .upload, of: row.key)
        }
    }
}

extension PlannedChange {
    /// The chunks of the content that the change carries.
    fileprivate var manifest: Manifest {
        guard case .put(let fields) = change.action else { return [] }
        return fields.content?.manifest ?? []
    }

    /// Whether the change carries the row's content, or the row has no dirty content. Otherwise the content still
    /// waits.
    fileprivate var hasAll: Bool {
        guard case .put(let fields) = change.action else { return true }
        return fields.content != nil || !row.dirty.contains(.content) || row.kind != .file
    }

    /// Whether the change counts towards the throttle. Changes that accompany others, like a folder's times, do not.
    fileprivate var isOften: Bool {
        guard case .put(let fields) = change.action else { return false }
        return fields.content != nil || row.kind == .file && !row.dirty.contains(.created) && fields.place == nil
    }
}

extension PreparedContent {
    init(_ row: ItemRow, _ manifest: Manifest, _ size: Int64) {
        self.init(generation: row.generation, manifest: manifest, size: size)
    }
}

extension ItemRow {
    /// Whether the index must record something before the changes are sent: that they are sent, or the version's id.
    var isToBeMarked: Bool {
        guard !isDeleted else { return false }
        return dirty.contains(.content) && nextVersion == nil
            || bringsIntoBeing && !flags.contains(.creationSent)
    }

    /// Whether the change makes the item exist at the cloud: the item is new, or was deleted.
    var bringsIntoBeing: Bool { dirty.contains(.created) || flags.contains(.returned) }

    /// Whether the cloud knows the item and more than its content and times has changed.
    var hasMoreThanContent: Bool {
        !dirty.contains(.created) && !dirty.subtracting([.content, .times]).isEmpty
    }

    /// Whether the row has a dirty content small enough to travel inside the commit.
    var wantsInlineContent: Bool {
        kind == .file && dirty.contains(.content) && contentState == .complete && size <= SyncLimits.inlineContentSize
            && !isDeleted && !isFresh
    }
}
