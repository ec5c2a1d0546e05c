internal import Logging
internal import UbiquityContent
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
                    while !Task.isCancelled, let sent = try await pushOnce() {
                        if SyncLimits.stream.contains(sent) { try await timekeeper.sleep(for: SyncLimits.streamRest) }
                    }
                    while !Task.isCancelled, try await pushVersionActions() {}
                    for row in try await pool.run({ try self.largeContents() }) {
                        uploads.addTask { await self.upload(row) }
                    }
                } catch {
                    await noteFailure(error)
                }
            }
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
            return [state.rescanAt.values.min(), state.deletionsWaitUntil, state.finishedAt].compactMap { $0 }.min()
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
            let wait = max(connection.failed(error), push.withLock { $0.backoff.next(random) })
            await connection.changed.wait(atMost: wait, timekeeper)
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
        let outgoing = try await pool.run { try self.gather() }
        guard let outgoing else { return nil }
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

    // MARK: Gathering

    /// The next group, with the contents of small files; nil if nothing can go now.
    private func gather() throws -> Outgoing? {
        var start: Int64 = 0
        while true {
            let sendable = try sendableRows(after: start)
            let (outgoing, isAll) = try gather(sendable)
            // As many as make a group may all wait for what is held up; what comes after them does not.
            guard outgoing == nil, isAll, let last = sendable.loose.last,
                sendable.loose.count >= SyncLimits.changesPerCommit
            else { return outgoing }
            start = last.dirtyOrder
        }
    }

    /// - Returns: nil if none of these can go, and whether all of them were looked at.
    private func gather(_ sendable: SendableRows) throws -> (Outgoing?, isAll: Bool) {
        var chunks = [ChunkID: Chunk]()
        var prepared = push.withLock { $0.prepared }
        if let package = sendable.package {
            return (try gather(package, deletionsUpTo: sendable.deletionsUpTo ?? 0), isAll: true)
        }
        let rows = sendable.loose
        guard !rows.isEmpty else { return (nil, isAll: true) }
        let inlineLimit = min(Limits.maximumInlineChunkBytes, uploadPace.withLock { $0.bytes })
        var inlineBytes = 0, cleaned = 0, isAll = true
        var room = roomInFullAccount()
        var ready = [ItemRow]()
        for row in rows where ready.count < SyncLimits.changesPerCommit {
            if try isWithoutRoom(row, &room) {
                if row.hasMoreThanContent { ready.append(row) }
                continue
            }
            guard row.wantsInlineContent, prepared[row.key]?.generation != row.generation else {
                ready.append(row)
                continue
            }
            guard inlineBytes == 0 || inlineBytes + Int(row.size) <= inlineLimit else {
                isAll = false
                break
            }
            guard let (content, bytes) = try readSmall(row) else {
                // What else was changed goes ahead: another item may wait for the name that this one gave up.
                if row.hasMoreThanContent { ready.append(row) }
                continue
            }
            if try markUnchanged(row, content.manifest) {
                cleaned += 1
                continue
            }
            prepared[row.key] = content
            if let reference = content.manifest.first {
                chunks[reference.id] = Chunk(id: reference.id, bytes: bytes)
                inlineBytes += bytes.count
            }
            ready.append(row)
        }
        func planned(_ deletionsUpTo: Int64) throws -> [PlannedChange] {
            try plan(
                ready, prepared, limit: SyncLimits.changesPerCommit, deletionsUpTo: deletionsUpTo,
                leavingPackages: true)
        }
        var group = try planned(sendable.deletionsUpTo ?? 0)
        // All of these may wait for names that items have which were deleted later.
        if group.isEmpty, sendable.deletionsUpTo == nil { group = try planned(deletionLimit(now: timekeeper.now())) }
        holdFolderTimes(&group)
        let isIdle = group.isEmpty && cleaned == 0
        return (isIdle ? nil : Outgoing(group: group, chunks: Array(chunks.values)), isAll)
    }

    /// Dirty rows that may go now, in order: as many as make a group, or all of one package.
    /// - Parameter start: the place in the order of changes that those before have, which cannot go; 0 for the first.
    private func sendableRows(after start: Int64) throws -> SendableRows {
        let now = timekeeper.now()
        var result = SendableRows()
        var packages = PackageGroups(), order = start, scanned = 0
        var heldPackages = Set<ItemKey>(), finishedAt: Timestamp?, unfinished = Set<ItemKey>()
        while true {
            let (rows, owners, ends, unknown) = try index.read { reader in
                let rows = try reader.dirtyRows(after: order, limit: SyncLimits.rowsPerRead)
                var finder = PackageFinder(reader, index)
                let owners = try rows.map { try finder.packages(with: $0) }
                let ends = try rows.map { try finish(of: $0, reader, now) }
                return (rows, owners, ends, try rows.map { try reader.isUnknownDeletion($0) })
            }
            guard let last = rows.last else { break }
            order = last.dirtyOrder
            scanned += rows.count
            if result.deletionsUpTo == nil, rows.contains(where: \.isDeleted) {
                result.deletionsUpTo = try deletionLimit(now: now)
            }
            for (place, row) in rows.enumerated() {
                let owner = owners[place]
                let isHeld = row.isDeleted && row.dirtyOrder > result.deletionsUpTo ?? 0 && !unknown[place]
                if isHeld { heldPackages.formUnion(owner) }
                if !owner.isEmpty {
                    packages.add(row, of: owner)
                } else if let end = ends[place], end > now {
                    finishedAt = min(finishedAt ?? end, end)
                    unfinished.insert(row.key)
                } else if result.loose.count < SyncLimits.changesPerCommit, !isHeld, isSendable(row, now) {
                    result.loose.append(row)
                }
            }
            // A package is sent only when all of its changes are known.
            let isEnough = result.loose.count >= SyncLimits.changesPerCommit
            guard !isEnough || !packages.isEmpty && scanned < SyncLimits.packageScan else { break }
        }
        push.withLock { state in
            guard start == 0 else {
                state.finishedAt = [state.finishedAt, finishedAt].compactMap { $0 }.min()
                return
            }
            state.finishedAt = finishedAt
            state.temporarySince = state.temporarySince.filter { unfinished.contains($0.key) }
            state.keepPackages(packages.packages)
        }
        // Of a package all changes must be known.
        if start == 0 { result.package = try readyPackage(among: packages.ordered(without: heldPackages), now) }
        return result
    }

    private func isSendable(_ row: ItemRow, _ now: Timestamp) -> Bool {
        if problems.isHeld(.upload, of: row.key) || index.isHeld(row.key) { return false }
        if row.isDeleted { return true }
        guard row.dirty.contains(.content) else { return true }
        // Content that is not ready holds nothing else back: a new file is announced, other fields go ahead.
        if isReady(row) || row.dirty.contains(.created) { return !isResting(row, now) }
        return row.hasMoreThanContent || row.wantsInlineContent && !isResting(row, now)
    }

    /// Until when a new file may still be the temporary one of a program that renames it over a document next: while it
    /// is being written, and a moment longer. Nobody is to hear of it then. Nil for anything else.
    private func finish(of row: ItemRow, _ reader: IndexReader, _ now: Timestamp) throws -> Timestamp? {
        guard row.dirty.contains(.created), row.kind == .file, !row.isDeleted else { return nil }
        // Its end is a change, at which it is looked at again.
        if row.isWriting, row.generation == 0 { return now.advanced(bySeconds: SyncLimits.pollInterval / .seconds(1)) }
        guard row.dirtyAt <= now else { return nil }
        let soon = row.dirtyAt.advanced(bySeconds: SyncLimits.newFileRest / .seconds(1))
        if soon > now { return soon }
        let latest = row.dirtyAt.advanced(bySeconds: SyncLimits.temporaryFileRest / .seconds(1))
        guard latest > now, try mayBeTemporary(row, reader) else { return nil }
        let since = push.withLock { state in
            let since = min(state.temporarySince[row.key] ?? now, now)
            state.temporarySince[row.key] = since
            return since
        }
        return min(latest, since.advanced(bySeconds: SyncLimits.temporaryFilePatience / .seconds(1)))
    }

    private func mayBeTemporary(_ row: ItemRow, _ reader: IndexReader) throws -> Bool {
        guard let entry = row.entry else { return false }
        return try entry.name.isMadeUp
            || entry.name.possibleDocuments.contains { try reader.child(of: entry.parent, named: $0)?.kind == .file }
    }

    private func isReady(_ row: ItemRow) -> Bool {
        push.withLock { $0.prepared[row.key]?.generation == row.generation }
    }

    func isResting(_ row: ItemRow, _ now: Timestamp) -> Bool {
        if openItems?.isBeingWritten(row) ?? false {
            push.withLock { $0.rescanAt[row.key] = now.advanced(bySeconds: SyncLimits.claimedRest / .seconds(1)) }
            return true
        }
        if let until = push.withLock({ $0.rescanAt[row.key] }), until > now { return true }
        return isThrottled(row)
    }

    /// Whether it changes so often that it rests; the loop wakes when that is over.
    func isThrottled(_ row: ItemRow) -> Bool {
        guard let until = throttle.restsUntil(row.key) else { return false }
        push.withLock { $0.rescanAt[row.key] = until }
        return true
    }

    /// A small file's one consistent state; nil if it is being written to, and then it rests.
    func readSmall(_ row: ItemRow) throws -> (PreparedContent, [UInt8])? {
        guard let content = row.content, !isResting(row, timekeeper.now()) else { return nil }
        do {
            let file = try store.open(content, writable: false)
            let outcome = try scanner.scan(file)
            guard try isNotedState(row, outcome) else {
                rest(row)
                return nil
            }
            switch outcome {
            case .stable(let scanned) where scanned.manifest.count <= 1:
                return try small(row, scanned, file)
            case .racy(let scanned) where !row.isWriting && scanned.manifest.count <= 1:
                // Its last writer has closed it, and the next one's open would change the row before it writes.
                return try small(row, scanned, file)
            case .stable, .racy, .changedMeanwhile:
                rest(row)
                return nil
            }
        } catch {
            // Gone since the row was read, or the disk failed: the row tells next time, or the problem is shown.
            if try index.row(key: row.key)?.content == content { problems.note(.from(error), .upload, of: row.key) }
            return nil
        }
    }

    /// While a program has a file open for writing, only the state that was noted last is one that it meant: what it
    /// makes of it next (it may just have emptied it) goes when that is noted, at the latest at its close.
    func isNotedState(_ row: ItemRow, _ outcome: ScanOutcome) throws -> Bool {
        let scanned: ScannedContent
        switch outcome {
        case .stable(let found), .racy(let found): scanned = found
        case .changedMeanwhile: return true
        }
        // Asked after the scan: an open is recorded before it is answered, and so before anything is written.
        guard let now = try index.row(key: row.key), now.isWriting else { return true }
        return scanned.size == now.size && scanned.modifiedAt == now.modifiedAt
    }

    private func small(_ row: ItemRow, _ scanned: ScannedContent, _ file: FileDescriptor) throws
        -> (PreparedContent, [UInt8])?
    {
        let bytes = try file.read(count: Int(scanned.size), at: 0)
        guard scanned.manifest.allSatisfy({ $0.id == ChunkNaming.name(of: bytes) }) else {
            rest(row)
            return nil
        }
        return (PreparedContent(row, scanned.manifest, scanned.size), bytes)
    }

    func rest(_ row: ItemRow) {
        let until = timekeeper.now().advanced(bySeconds: SyncLimits.rescanDelay / .seconds(1))
        push.withLock { $0.rescanAt[row.key] = until }
    }

    /// The same bytes as before were written: nothing goes up.
    func markUnchanged(_ row: ItemRow, _ manifest: Manifest) throws -> Bool {
        guard let content = row.content, let version = row.version, !row.dirty.contains(.created) else { return false }
        let dropped = try index.write(.remote) { transaction -> [ContentID]? in
            // What was deleted and made anew goes up though it has the same bytes: that brings it back.
            guard let remote = try transaction.remote(id: row.id), let known = remote.content, !known.isLost,
                !row.flags.contains(.returned) || !remote.isDeleted && known.version == version,
                try shownManifest(transaction, row, remote, known, content) == manifest,
                let current = try transaction.row(key: row.key), current.generation == row.generation
            else { return nil }
            var next = current
            next.dirty.remove(.content)
            next.flags.remove(.returned)
            next.nextVersion = nil
            try transaction.update(next, before: current)
            try transaction.setContent(
                ContentRecord(
                    content: content, version: version, size: current.size, manifest: manifest,
                    unsyncedBoot: configuration.boot))
            try transaction.setLocations(manifest, in: content)
            transaction.note(.attributes, before: current, after: next)
            // What waited for the edit, a deletion or a newer content, has its way now.
            var settler = settler(transaction)
            try settler.review(row.id)
            return settler.dropped
        }
        discard(dropped ?? [])
        return dropped != nil
    }

    /// The chunks of the version that the file shows, if that is known; nil if the file was edited and then deleted.
    ///
    /// The cloud may have a newer one, which waits until a program closes the file, also if the daemon died meanwhile:
    /// bytes that are as they were are no edit beside that.
    private func shownManifest(
        _ transaction: IndexTransaction, _ row: ItemRow, _ remote: RemoteItem, _ known: RemoteContent,
        _ content: ContentID
    ) throws -> Manifest? {
        let isCurrent = known.version == row.version
        if isCurrent, let manifest = known.manifest { return manifest }
        guard let record = try transaction.contentRecord(content), record.version == row.version,
            isCurrent || !remote.isDeleted
        else { return nil }
        return record.manifest
    }

    /// Draws version ids, drops what the cloud never saw, and makes the group.
    func plan(
        _ rows: [ItemRow], _ prepared: [ItemKey: PreparedContent], limit: Int, deletionsUpTo: Int64,
        leavingPackages: Bool = false
    ) throws -> [PlannedChange] {
        let (group, dropped) = try index.write(.remote) { transaction in
            var drawn = [VersionID]()
            for row in rows where row.isToBeMarked {
                guard var current = try transaction.row(key: row.key), current.isToBeMarked else { continue }
                let before = current
                if current.bringsIntoBeing { current.flags.insert(.creationSent) }
                if current.dirty.contains(.content), current.nextVersion == nil {
                    var generator = SourcedGenerator(random)
                    let version = VersionID(using: &generator)
                    drawn.append(version)
                    current.nextVersion = version
                }
                try transaction.update(current, before: before)
            }
            try transaction.noteSent(drawn)
            var finder = PackageFinder(transaction, index)
            // A program may have gone on since the rows were chosen: what it has deleted since is not decided about.
            let now = timekeeper.now()
            var planner = Planner(
                transaction, prepared: prepared, limit: limit, deletionsUpTo: deletionsUpTo,
                isOwned: { row in
                    guard leavingPackages else { return false }
                    return try finder.package(of: row) != nil || !finder.packages(changedBy: row).isEmpty
                },
                isAwaited: { [problems] other, row in
                    // Not for long: a package may be in use or refused, deletions may be held.
                    problems.problem(.upload, of: other.key) == nil
                        && row.dirtyAt.advanced(bySeconds: SyncLimits.patience / .seconds(1)) > now
                })
            for row in rows where !planner.isFull {
                if let current = try transaction.row(key: row.key) { try planner.add(current) }
            }
            for row in planner.forgettable {
                try transaction.delete(row)
                problems.clear(.upload, of: row.key)
            }
            var settler = settler(transaction)
            for row in planner.unchanged {
                var clean = row
                clean.dirty = []
                try transaction.update(clean, before: row)
                try settler.review(row.id)
            }
            return (planner.group, settler.dropped)
        }
        discard(dropped)
        return group
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
        request.number = try await pool.run { [index] in
            // A package's decision draws some of its own, which stand in no row.
            if !drawn.isEmpty { try index.write(.remote) { try $0.noteSent(drawn) } }
            return try index.nextCommitNumber()
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
        let dropped = try index.write(.remote) { transaction in
            var applier = CommitApplier(
                transaction, settler: settler(transaction), boot: configuration.boot)
            try applier.apply(group, response)
            return applier.dropped
        }
        discard(dropped)
        noteSent(group)
    }

    /// What was sent is at the cloud, and the index knows it.
    func noteSent(_ group: [PlannedChange]) {
        noteSentDeletions(group)
        noteFolderTimes(group)
        push.withLock { state in
            state.backoff.reset()
            for change in group {
                state.prepared[change.row.key] = nil
                state.uploadBackoffs[change.row.key] = nil
            }
        }
        for change in group {
            problems.clear(.upload, of: change.row.key)
            if case .put(let fields) = change.change.action, fields.content != nil {
                throttle.noteCommit(of: change.row.key)
            }
        }
        noteRoomForAll()
        connection.succeeded()
        // What had to wait for the change is fetched now: the feed may have told of it before this answer came.
        downloadSignal.fire()
        // So may what is to be given up have its place now.
        if feed.withLock({ $0.looksForLost }) { feedSignal.fire() }
        progress.fire()
    }

    /// The cloud has dropped chunks that were sent long ago: their files go up once more.
    func forgetPrepared(_ group: [PlannedChange], lacking: Set<ChunkID>) {
        push.withLock { state in
            for change in group {
                guard let prepared = state.prepared[change.row.key],
                    prepared.manifest.contains(where: { lacking.contains($0.id) })
                else { continue }
                state.prepared[change.row.key] = nil
            }
        }
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
    fileprivate var isToBeMarked: Bool {
        guard !isDeleted else { return false }
        return dirty.contains(.content) && nextVersion == nil
            || bringsIntoBeing && !flags.contains(.creationSent)
    }

    /// Whether the cloud has the item only once it has this: it is new, or was deleted.
    fileprivate var bringsIntoBeing: Bool { dirty.contains(.created) || flags.contains(.returned) }

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
