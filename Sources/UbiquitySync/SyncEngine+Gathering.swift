internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

// Gathering: selects the changes that can be sent now, with the small contents that travel inside the commit.
extension SyncEngine {
    /// The next group with its small contents, or nil if nothing can be sent now.
    ///
    /// Programs continue between the selection of the rows and the plan. Both are separate jobs in the pool, so that a
    /// simulator runs programs between them too.
    func gather() async throws -> Outgoing? {
        var start = quota.firstToExamine(), windows = 0, leavesPackages = false
        while true {
            let first = start
            let sendable = try await pool.run { try self.sendableRows(after: first) }
            leavesPackages = leavesPackages || sendable.leavesPackages
            let (outgoing, isAll) = try await pool.run { try self.gather(sendable) }
            guard outgoing == nil, isAll else { return outgoing }
            // All rows of one group's size may be blocked. Later rows need not be.
            guard let last = sendable.loose.last, sendable.loose.count >= configuration.changesPerCommit else { break }
            start = last.dirtyOrder
            windows += 1
            if windows >= SyncLimits.windowsOfBacklog { quota.recordExamined(upTo: start) }
        }
        // All changes of a package must be known before any is sent.
        guard leavesPackages, mayLookForPackages() else { return nil }
        let packages = try await pool.run { try self.sendableRows(after: 0, onlyPackages: true) }
        return try await pool.run { try self.gather(packages).0 }
    }

    /// Limits how often the whole backlog is searched, since a search of a large backlog takes long.
    private func mayLookForPackages() -> Bool {
        let now = timekeeper.now(), rest = SyncLimits.packagesRest / .seconds(1)
        let wait = push.withLock { state -> Timestamp? in
            if let until = state.packagesLookedAt?.advanced(bySeconds: rest), until > now,
                until <= now.advanced(bySeconds: rest)
            {
                return until
            }
            state.packagesLookedAt = now
            return nil
        }
        if let wait { agenda.lookAgain(at: wait) }
        return wait == nil
    }

    /// - Returns: nil if none of these rows can be sent, and whether all of them were examined.
    private func gather(_ sendable: SendableRows) throws -> (Outgoing?, isAll: Bool) {
        var chunks = [ChunkID: Chunk]()
        var prepared = push.withLock { $0.prepared }
        if let package = sendable.package {
            return (try gather(package, deletionsUpTo: sendable.deletionsUpTo ?? 0), isAll: true)
        }
        let rows = sendable.loose
        guard !rows.isEmpty else { return (nil, isAll: true) }
        let inlineLimit = min(Limits.maximumInlineChunkBytes, sender.bytesPerRequest)
        var inlineBytes = 0, cleaned = 0, isAll = true
        var room = quota.free
        var ready = [ItemRow]()
        for row in rows where ready.count < configuration.changesPerCommit {
            if try quota.exceeds(row, &room) {
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
                // Other changed fields are sent first: another item may wait for the name that this one freed.
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
        // All of these may wait for names of items that were deleted later.
        if group.isEmpty, sendable.deletionsUpTo == nil { group = try planned(hold.limit(now: timekeeper.now())) }
        holdFolderTimes(&group)
        let isIdle = group.isEmpty && cleaned == 0
        return (isIdle ? nil : Outgoing(group: group, chunks: Array(chunks.values)), isAll)
    }

    /// Dirty rows that can be sent now, in order: up to one group, or all changes of one package.
    /// - Parameters:
    ///   - start: the position in the order of changes. Rows before it cannot be sent. 0 for the first row.
    ///   - onlyPackages: search all rows, for changes of packages only.
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
                return (rows, owners, ends, try rows.map { try CloudKnowledge(reader: reader).isUnknownDeletion($0) })
            }
            guard let last = rows.last else {
                isComplete = start == 0
                break
            }
            order = last.dirtyOrder
            scanned += rows.count
            if result.deletionsUpTo == nil, rows.contains(where: \.isDeleted) {
                result.deletionsUpTo = try hold.limit(now: now)
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
        agenda.searched(nextLook: finishedAt, isWhole: start == 0 && !onlyPackages)
        if isComplete {
            push.withLock { state in
                state.temporarySince = state.temporarySince.filter { unfinished.contains($0.key) }
                state.keepPackages(packages.packages)
            }
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
        if row.isDeleted { return agenda.deletionPauseEnd(of: row.key, now) == nil }
        guard row.dirty.contains(.content) else {
            // No item depends on the mode, times or attributes of a file, so a throttle may delay them.
            return row.kind != .file || !row.dirty.isDisjoint(with: [.created, .place]) || !agenda.isThrottled(row.key)
        }
        // Content that is not ready delays nothing else: a new file is announced, and other fields are sent.
        if isReady(row) || row.dirty.contains(.created) { return !isResting(row, now) }
        return row.hasMoreThanContent || row.wantsInlineContent && !isResting(row, now)
    }

    /// The time until which a new file may be a temporary one that a program is about to rename over a document: while
    /// it is written, and shortly after. It is not announced before. Nil for any other row.
    private func finish(of row: ItemRow, _ reader: IndexReader, _ now: Timestamp) throws -> Timestamp? {
        guard row.dirty.contains(.created), row.kind == .file, !row.isDeleted else { return nil }
        // The writer's close is a change and triggers the next look.
        if row.isWriting, row.generation == 0 { return now.advanced(bySeconds: SyncLimits.pollInterval / .seconds(1)) }
        guard row.dirtyAt <= now else { return nil }
        let soon = row.dirtyAt.advanced(bySeconds: SyncLimits.newFileRest / .seconds(1))
        if soon > now { return soon }
        let latest = row.dirtyAt.advanced(bySeconds: SyncLimits.temporaryFileRest / .seconds(1))
        guard latest > now, try row.mayBeTemporary(reader) else { return nil }
        let since = push.withLock { state in
            let since = min(state.temporarySince[row.key] ?? now, now)
            state.temporarySince[row.key] = since
            return since
        }
        return min(latest, since.advanced(bySeconds: SyncLimits.temporaryFilePatience / .seconds(1)))
    }

    private func isReady(_ row: ItemRow) -> Bool {
        push.withLock { $0.prepared[row.key]?.generation == row.generation }
    }

    func isResting(_ row: ItemRow, _ now: Timestamp) -> Bool {
        if openItems?.isBeingWritten(row) ?? false {
            let until = now.advanced(bySeconds: SyncLimits.claimedRest / .seconds(1))
            agenda.pause(row.key, until: until, .isClaimed)
            return true
        }
        return agenda.pause(of: row.key, now) != nil || agenda.isThrottled(row.key)
    }

    /// Reads a consistent state of a small file. Nil if it is being written; it is then retried later.
    func readSmall(_ row: ItemRow) throws -> (PreparedContent, [UInt8])? {
        guard let content = row.content, !isResting(row, timekeeper.now()) else { return nil }
        do {
            let file = try store.open(content, writable: false)
            let outcome = try scanner.scan(file)
            guard try isNotedState(row, outcome) else {
                agenda.pauseBriefly([row.key], .changesDuringRead)
                return nil
            }
            switch outcome {
            case .stable(let scanned) where scanned.manifest.count <= 1:
                return try small(row, scanned, file)
            case .racy(let scanned) where !row.isWriting && scanned.manifest.count <= 1:
                // The last writer has closed the file. The next writer's open changes the row before it writes.
                return try small(row, scanned, file)
            case .stable, .racy, .changedMeanwhile:
                agenda.pauseBriefly([row.key], .changesDuringRead)
                return nil
            }
        } catch {
            // The content was replaced after the row was read, or the disk failed. The row decides which.
            if try index.row(key: row.key)?.content == content { problems.note(.from(error), .upload, of: row.key) }
            return nil
        }
    }

    /// Whether the scan equals the recorded state. While a program has the file open for writing, only the recorded
    /// state is one that the program meant: it may just have truncated the file. Later states are sent once recorded,
    /// at the latest at the close.
    func isNotedState(_ row: ItemRow, _ outcome: ScanOutcome) throws -> Bool {
        let scanned: ScannedContent
        switch outcome {
        case .stable(let found), .racy(let found): scanned = found
        case .changedMeanwhile: return true
        }
        // Read the row after the scan: an open is recorded before it is answered, so before any write.
        guard let now = try index.row(key: row.key), now.isWriting else { return true }
        return scanned.size == now.size && scanned.modifiedAt == now.modifiedAt
    }

    private func small(_ row: ItemRow, _ scanned: ScannedContent, _ file: FileDescriptor) throws
        -> (PreparedContent, [UInt8])?
    {
        let bytes = try file.read(count: Int(scanned.size), at: 0)
        guard scanned.manifest.allSatisfy({ $0.id == ChunkNaming.name(of: bytes) }) else {
            agenda.pauseBriefly([row.key], .changesDuringRead)
            return nil
        }
        return (PreparedContent(row, scanned.manifest, scanned.size), bytes)
    }

    /// Clears the content's dirty bit if the same bytes were written again, so that nothing is uploaded.
    func markUnchanged(_ row: ItemRow, _ manifest: Manifest) throws -> Bool {
        guard let content = row.content, let version = row.version, !row.dirty.contains(.created) else { return false }
        let dropped = try index.write(.remote) { transaction -> [ContentID]? in
            // An item that was deleted and created anew is uploaded even with the same bytes, because that restores it.
            guard let remote = try transaction.remote(id: row.id), let known = remote.content, !known.isLost,
                !row.flags.contains(.returned) || !remote.isDeleted && known.version == version,
                try transaction.shownManifest(of: row, remote, known, content) == manifest,
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
            // A deletion or newer content that waited for the edit is now applied.
            var settler = settler(transaction)
            try settler.review(row.id)
            return settler.dropped
        }
        discard(dropped ?? [])
        return dropped != nil
    }

    /// Draws version ids, removes rows that the cloud never saw, and plans the group.
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
            // A program may have changed rows since the selection. Rows deleted since then are not planned.
            let now = timekeeper.now()
            var planner = Planner(
                transaction.reader, prepared: prepared, limit: limit, deletionsUpTo: deletionsUpTo,
                completesDeletions: configuration.completesDeletions,
                isOwned: { row in
                    guard leavingPackages else { return false }
                    return try finder.package(of: row) != nil || !finder.packages(changedBy: row).isEmpty
                },
                isAwaited: { [problems] other, row in
                    // Only for a limited time: a package may be in use or refused, and deletions may be on hold.
                    problems.problem(.upload, of: other.key) == nil
                        && row.dirtyAt.advanced(bySeconds: SyncLimits.patience / .seconds(1)) > now
                },
                // Changes of a package are sent together or not at all.
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
