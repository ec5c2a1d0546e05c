internal import Logging
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

// Recovery after the last run, and periodic maintenance.
extension SyncEngine {
    /// Repairs what the last run may have left half done. Call it before the mount serves programs.
    /// - Returns: how many contents of a lost index were set aside.
    @discardableResult
    package func recover() throws -> Int {
        try restoreReplaced()
        try index.write(.startup) { try $0.forgetUnusedContents() }
        let setAside = try sweep()
        try distrustUnsynced()
        try reviewChangedContents()
        try reviewInterruptedWriters()
        let stripped = try index.reviewPrivileges(trusts: configuration.trustsPrivileges)
        if stripped > 0 {
            logger.notice(
                "set-user-id and set-group-id bits that another device may have set are removed here",
                metadata: ["count": "\(stripped)"])
        }
        return setAside
    }

    /// Removes backing files that no item references, left by a crash between the index and the disk. The search among
    /// a million files takes a second if it reads the disk. A run that ended cleanly leaves hardly any, so the search
    /// then runs while the mount is in use (`sweepLater`).
    /// - Returns: how many were set aside instead.
    private func sweep() throws -> Int {
        if try mayWait() { return 0 }
        let used = try index.read { try $0.contentsInUse() }
        let orphans = try store.all().filter { !used.contains($0) }
        let hasLostChanges = try index.hasLostJournal
        guard !orphans.isEmpty else {
            if hasLostChanges { try index.forgetJournalLoss() }
            return 0
        }
        guard try index.read({ try $0.lastBoot() }) != nil else {
            // The index is new, and these files belong to a lost one. Contents that were never uploaded exist only
            // here.
            logger.warning("setting contents of a lost index aside", metadata: ["count": "\(orphans.count)"])
            for content in orphans { try store.setAside(content) }
            return orphans.count
        }
        let isSameBoot = try index.read { try $0.lastBoot() } == configuration.boot
        let kept = try hasLostChanges && isSameBoot ? keepAside(orphans) : []
        if hasLostChanges { try index.forgetJournalLoss() }
        let rest = orphans.filter { !kept.contains($0) }
        logger.info("removing contents that no item references", metadata: ["count": "\(rest.count)"])
        discard(rest)
        try removeRetired()
        return kept.count
    }

    /// Whether the sweep can run later: no changes are lost, and no file has a number that is yet to be assigned. An
    /// older index that was restored would assign such numbers.
    private func mayWait() throws -> Bool {
        let hasEnded = try index.read { try $0.hasEnded() && $0.lastBoot() != nil }
        guard try hasEnded && !index.hasLostJournal else { return false }
        let first = try index.newContentNumber()
        let next = (first..<first + SyncLimits.probedNumbers).lazy.map { ContentID($0) }
        guard try !next.contains(where: store.exists) else { return false }
        unswept.withLock { $0 = ContentID(first) }
        return true
    }

    /// The same as `sweep` for contents of earlier runs, while programs work. No item takes such a content any more.
    /// Contents retired in this run are skipped, since they are removed anyway. Runs once: after a failure the next run
    /// tries again.
    private func sweepLater() throws {
        guard let first = unswept.withLock({ $0.take() }) else { return }
        // List the files first: a content that an item gets and drops later is removed with that.
        let files = try store.all().filter { $0 < first }
        let (used, replaced) = try index.read { (try $0.contentsInUse(), Set(try $0.replacedContents().map(\.old))) }
        let orphans = try files.filter { content in
            try !used.contains(content) && !replaced.contains(content) && !store.isRetired(content) && !isHeld(content)
                && store.journal?.isKept(content) != true && index.read { try $0.row(content: content) } == nil
        }
        if !orphans.isEmpty {
            logger.info("removing contents that no item references", metadata: ["count": "\(orphans.count)"])
        }
        discard(orphans)
    }

    /// Sets contents aside when the index has lost its last changes without a loss of power. Nobody knows their items,
    /// and the newest exist only here.
    private func keepAside(_ orphans: [ContentID]) throws -> Set<ContentID> {
        let kept = try orphans.filter { try store.status(of: $0)?.size ?? 0 > 0 }
        guard !kept.isEmpty else { return [] }
        logger.warning(
            "the index has lost its last changes: setting unreferenced contents aside",
            metadata: ["count": "\(kept.count)"])
        for content in kept { try store.setAside(content) }
        return Set(kept)
    }

    /// After a loss of power, marks unsynced contents as partial. Hashing finds their intact chunks.
    private func distrustUnsynced() throws {
        let rest = try index.read { try $0.unsyncedContents(notOf: configuration.boot) }
        guard !rest.isEmpty else { return }
        logger.info("contents of an earlier boot are verified before use", metadata: ["count": "\(rest.count)"])
        try index.write(.startup) { transaction in
            for record in rest {
                guard let row = try transaction.row(content: record.content), row.contentState == .complete,
                    !row.dirty.contains(.content), !row.isWriting, row.version == record.version
                else { continue }
                var next = row
                next.contentState = .partial
                try transaction.update(next, before: row)
                try transaction.reviewAwaitedContent(of: row.id)
            }
        }
    }

    /// Handles files that were open for writing when the process died. Their writes were acknowledged, so they are
    /// uploaded. The upload's comparison detects an unchanged file. Programs served directly by the kernel may still be
    /// writing. Then the file remains marked, and the file system watches it.
    private func reviewInterruptedWriters() throws {
        for row in try index.interruptedWriters() {
            guard let content = row.content else {
                try clearWriting(row)
                continue
            }
            guard let status = try store.status(of: content) else {
                try reviewChangedContent(row)
                continue
            }
            _ = try index.noteWriting(
                ino: row.ino, changed: row.contentState == .complete, size: status.size,
                modifiedAt: status.modifiedAt,
                stillOpen: row.contentState == .complete && (try store.hasWriters(content)))
        }
    }

    private func clearWriting(_ row: ItemRow) throws {
        try index.write(.startup) { transaction in
            var next = row
            next.flags.subtract([.writing, .fresh])
            try transaction.update(next, before: row)
        }
    }

    // MARK: Maintenance

    func runMaintenance() async {
        while !Task.isCancelled {
            guard (try? await timekeeper.sleep(for: SyncLimits.maintenanceInterval)) != nil else { return }
            // A failure of one task does not stop the others.
            await maintain("look for unreferenced contents") { try self.sweepLater() }
            await maintain("sync contents") { try self.syncContents() }
            await maintain("checkpoint the log") { [index] in try index.checkpoint() }
            await maintain("keep within the limits") { try self.space.keepWithinLimits() }
            await maintain("remove folders") { try self.removeLingering() }
            await maintain("remove contents") { try self.removeRetired() }
            reportRefusals()
        }
    }

    /// Logs changes that the index refused although they were acknowledged. This is a bug, and the log helps to find
    /// it.
    func reportRefusals() {
        for text in index.takeRefusals() {
            logger.error(
                "the index refused an acknowledged change; the next mount looks for missing contents",
                metadata: ["reason": "\(text)"])
        }
    }

    private func maintain(_ what: String, _ work: @escaping @Sendable () throws -> Void) async {
        do { try await pool.run(work) } catch {
            guard !Task.isCancelled else { return }
            logger.warning("maintenance failed", metadata: ["work": "\(what)", "reason": "\(error)"])
        }
    }

    /// Syncs downloaded and uploaded contents to the disk, so that they need no verification after a loss of power.
    private func syncContents() throws {
        let contents = try index.read { try $0.unsyncedContents(limit: SyncLimits.syncsPerRound) }
        guard !contents.isEmpty else { return }
        var synced = [ItemRow]()
        for content in contents {
            // A content in the journal would be restored over this one after a loss of power.
            guard let row = try index.read({ try $0.row(content: content) }), row.isToBeSynced,
                store.journal?.isKept(content) != true
            else { continue }
            do {
                guard try sync(content, of: row) else { continue }
            } catch {
                logger.warning(
                    "cannot sync a content to the disk", metadata: ["item": "\(row.id)", "reason": "\(error)"])
                continue
            }
            synced.append(row)
        }
        guard !synced.isEmpty else { return }
        try index.write(.startup) { [synced] transaction in
            // Skip contents that were written since: they are only partly on the disk.
            let unchanged = try synced.filter { row in
                guard let now = try transaction.row(key: row.key) else { return false }
                return now.content == row.content && now.generation == row.generation && now.isToBeSynced
            }
            try transaction.markSynced(unchanged.compactMap(\.content))
        }
    }

    /// Syncs a content. After a failed sync, the whole content is rewritten, so no program may write to it meanwhile.
    /// - Returns: false if the file is in use now.
    private func sync(_ content: ContentID, of row: ItemRow) throws -> Bool {
        guard store.failure(of: content) != nil, let openItems else {
            try store.sync(content)
            return true
        }
        return try openItems.whileClosed(row.key) { try store.sync(content) } != nil
    }

    /// Removes folders that were deleted elsewhere and whose last local item is gone.
    private func removeLingering() throws {
        guard try index.read({ try !$0.lingering(limit: 1).isEmpty }) else { return }
        try index.write(.remote) { try settler($0).removeLingering(limit: SyncLimits.settleBatch) }
    }
}

extension ItemRow {
    /// Whether the content is complete and equals its record.
    fileprivate var isToBeSynced: Bool { contentState == .complete && !dirty.contains(.content) && !isWriting }
}
