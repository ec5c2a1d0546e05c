internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

// Gathering: which changes can go now, and the contents that travel along.
extension SyncEngine {
    /// The next group, with the contents of small files; nil if nothing can go now.
    ///
    /// Programs go on between the choice of the rows and the plan. The two are jobs of their own in the pool, so that a
    /// simulator lets programs go on there too.
    func gather() async throws -> Outgoing? {
        var start = firstToLookAt(), windows = 0, leavesPackages = false
        while true {
            let first = start
            let sendable = try await pool.run { try self.sendableRows(after: first) }
            leavesPackages = leavesPackages || sendable.leavesPackages
            let (outgoing, isAll) = try await pool.run { try self.gather(sendable) }
            guard outgoing == nil, isAll else { return outgoing }
            // As many as make a group may all wait for what is held up; what comes after them does not.
            guard let last = sendable.loose.last, sendable.loose.count >= configuration.changesPerCommit else { break }
            start = last.dirtyOrder
            windows += 1
            if windows >= SyncLimits.windowsOfBacklog { notePassedOver(upTo: start) }
        }
        // Nor does what was changed in a package: of that all must be known.
        guard leavesPackages, mayLookForPackages() else { return nil }
        let packages = try await pool.run { try self.sendableRows(after: 0, onlyPackages: true) }
        return try await pool.run { try self.gather(packages).0 }
    }

    /// To look through all that waits takes a while where that is much, and is not done at each change.
    private func mayLookForPackages() -> Bool {
        let now = timekeeper.now(), rest = SyncLimits.packagesRest / .seconds(1)
        return push.withLock { state in
            if let until = state.packagesLookedAt?.advanced(bySeconds: rest), until > now,
                until <= now.advanced(bySeconds: rest)
            {
                state.finishedAt = min(state.finishedAt ?? until, until)
                return false
            }
            state.packagesLookedAt = now
            return true
        }
    }

    /// Where to begin in the order of changes: of many files that have no room in a full account those before it were
    /// looked at lately, and there is no more room since.
    private func firstToLookAt() -> Int64 {
        guard let room = roomInFullAccount() else { return 0 }
        let now = timekeeper.now()
        return push.withLock { state in
            guard let passed = state.passedOver, passed.until > now, passed.room >= room.bytes,
                // One that is farther away was noted before the clock was set back.
                passed.until <= now.advanced(bySeconds: SyncLimits.pollInterval / .seconds(1))
            else {
                state.passedOver = nil
                return 0
            }
            return passed.order
        }
    }

    private func notePassedOver(upTo order: Int64) {
        guard let room = roomInFullAccount() else { return }
        let until = timekeeper.now().advanced(bySeconds: SyncLimits.pollInterval / .seconds(1))
        push.withLock { state in
            let first = state.passedOver?.until
            state.passedOver = PushState.PassedOver(order: order, until: first ?? until, room: room.bytes)
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
        for row in rows where ready.count < configuration.changesPerCommit {
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
                ready, prepared, limit: configuration.changesPerCommit, deletionsUpTo: deletionsUpTo,
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
    /// - Parameters:
    ///   - start: the place in the order of changes that those before have, which cannot go; 0 for the first.
    ///   - onlyPackages: All rows are looked through for those of packages.
    private func sendableRows(after start: Int64, onlyPackages: Bool = false) throws -> SendableRows {
        let now = timekeeper.now()
        var result = SendableRows(), isComplete = false
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
            guard let last = rows.last else {
                isComplete = start == 0
                break
            }
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
                } else if !onlyPackages, result.loose.count < configuration.changesPerCommit, !isHeld,
                    isSendable(row, now)
                {
                    result.loose.append(row)
                }
            }
            // A package is sent only when all of its changes are known.
            let isEnough = result.loose.count >= configuration.changesPerCommit
            guard !isEnough || start == 0 && !packages.isEmpty && scanned < SyncLimits.packageScan else { break }
        }
        push.withLock { state in
            let known = start == 0 && !onlyPackages ? nil : state.finishedAt
            state.finishedAt = [known, finishedAt].compactMap { $0 }.min()
            guard isComplete else { return }
            state.temporarySince = state.temporarySince.filter { unfinished.contains($0.key) }
            state.keepPackages(packages.packages)
        }
        guard isComplete else {
            result.leavesPackages = !packages.isEmpty
            return result
        }
        result.package = try readyPackage(among: packages.ordered(without: heldPackages), now)
        return result
    }

    private func isSendable(_ row: ItemRow, _ now: Timestamp) -> Bool {
        if problems.isHeld(.upload, of: row.key) || index.isHeld(row.key) { return false }
        if row.isDeleted { return !isKeptForNow(row, now) }
        guard row.dirty.contains(.content) else {
            // Nothing waits for rights, times or attributes of a file that have been changed again and again.
            return row.kind != .file || !row.dirty.isDisjoint(with: [.created, .place]) || !isThrottled(row)
        }
        // Content that is not ready holds nothing else back: a new file is announced, other fields go ahead.
        if isReady(row) || row.dirty.contains(.created) { return !isResting(row, now) }
        return row.hasMoreThanContent || row.wantsInlineContent && !isResting(row, now)
    }

    /// Whether its deletion had no effect and is sent again later.
    private func isKeptForNow(_ row: ItemRow, _ now: Timestamp) -> Bool {
        guard let until = push.withLock({ $0.keptDeletions[row.key]?.until }) else { return false }
        // One that is farther away was noted before the clock was set back.
        return until > now && until <= now.advanced(bySeconds: Backoff.longest / .seconds(1))
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
        // In one: meanwhile somebody may end its rest.
        push.withLock { state in
            guard let until = throttle.restsUntil(row.key) else { return false }
            state.rescanAt[row.key] = until
            return true
        }
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
                completesDeletions: configuration.completesDeletions,
                isOwned: { row in
                    guard leavingPackages else { return false }
                    return try finder.package(of: row) != nil || !finder.packages(changedBy: row).isEmpty
                },
                isAwaited: { [problems] other, row in
                    // Not for long: a package may be in use or refused, deletions may be held.
                    problems.problem(.upload, of: other.key) == nil
                        && row.dirtyAt.advanced(bySeconds: SyncLimits.patience / .seconds(1)) > now
                },
                // What is in a package goes together or not at all.
                isRefused: { [problems] row in leavingPackages && problems.problem(.upload, of: row.key) != nil })
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
}
