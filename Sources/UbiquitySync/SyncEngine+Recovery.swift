internal import Logging
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

// What the last run left, and what must be done now and then.
extension SyncEngine {
    /// Puts right what the end of the last run may have left half done. To be called before the mount serves anyone.
    /// - Returns: how many contents of an index that is gone were set aside.
    @discardableResult
    package func recover() throws -> Int {
        try restoreReplaced()
        try index.write(.startup) { try $0.forgetUnusedContents() }
        let setAside = try sweep()
        try distrustUnsynced()
        try reviewChangedContents()
        try reviewInterruptedWriters()
        return setAside
    }

    /// Removes backing files that no item has: a crash came between the index and the disk. To look for them among a
    /// million takes a second if the disk is asked. A run that came to its end has left hardly any, so after that it is
    /// done while the mount is in use (`sweepLater`).
    /// - Returns: how many it set aside instead.
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
            // The index is a new one, and these are of another that is gone: what was never uploaded is only here.
            logger.warning("setting contents of a lost index aside", metadata: ["count": "\(orphans.count)"])
            for content in orphans { try store.setAside(content) }
            return orphans.count
        }
        let isSameBoot = try index.read { try $0.lastBoot() } == configuration.boot
        let kept = try hasLostChanges && isSameBoot ? keepAside(orphans) : []
        if hasLostChanges { try index.forgetJournalLoss() }
        let rest = orphans.filter { !kept.contains($0) }
        logger.info("removing contents that no item has", metadata: ["count": "\(rest.count)"])
        discard(rest)
        try removeRetired()
        return kept.count
    }

    /// Whether what nobody has can be looked for later: no changes are lost, and no file has a number that is yet to be
    /// given (as it is if somebody brought an older index back).
    private func mayWait() throws -> Bool {
        let hasEnded = try index.read { try $0.hasEnded() && $0.lastBoot() != nil }
        guard try hasEnded && !index.hasLostJournal else { return false }
        let first = try index.newContentNumber()
        let next = (first..<first + SyncLimits.probedNumbers).lazy.map { ContentID($0) }
        guard try !next.contains(where: store.exists) else { return false }
        unswept.withLock { $0 = ContentID(first) }
        return true
    }

    /// The same as `sweep` for what earlier runs have made, beside programs at work: no item gets such a content any
    /// more. What was given up in this run is on its way out. Once in a run: if it fails, the next one tries it.
    private func sweepLater() throws {
        guard let first = unswept.withLock({ $0.take() }) else { return }
        // Listed first: what an item has by then, and gives up, goes by itself.
        let files = try store.all().filter { $0 < first }
        let (used, replaced) = try index.read { (try $0.contentsInUse(), Set(try $0.replacedContents().map(\.old))) }
        let orphans = try files.filter { content in
            try !used.contains(content) && !replaced.contains(content) && !store.isRetired(content) && !isHeld(content)
                && store.journal?.isKept(content) != true && index.read { try $0.row(content: content) } == nil
        }
        if !orphans.isEmpty {
            logger.info("removing contents that no item has", metadata: ["count": "\(orphans.count)"])
        }
        discard(orphans)
    }

    /// The last changes of the index are gone, though the machine has not lost its power: what they said of these
    /// contents nobody knows, and what was made last is only here.
    private func keepAside(_ orphans: [ContentID]) throws -> Set<ContentID> {
        let kept = try orphans.filter { try store.status(of: $0)?.size ?? 0 > 0 }
        guard !kept.isEmpty else { return [] }
        logger.warning(
            "the index has lost its last changes: setting contents that no item has aside",
            metadata: ["count": "\(kept.count)"])
        for content in kept { try store.setAside(content) }
        return Set(kept)
    }

    /// Removes the backing files of what was given up, once the index that says so is on the disk: after this the room
    /// of what was evicted is free.
    package func removeRetired() throws {
        // With the index, all that took others' places is brought to the disk.
        let replacements = index.replacements
        let removed = try store.removeRetired { try index.makeDurable() }
        if removed == 0, !replacements.isEmpty { try index.makeDurable() }
        try index.forgetReplacements(replacements)
    }

    /// After power loss, contents that were not synced count as partial: what of them is whole is found by hashing.
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

    /// Files that were open for writing when the process died: what was written was acknowledged, so it goes up. The
    /// upload's comparison finds out if nothing was changed. Programs that the kernel served by itself may be writing
    /// still; then the file stays marked, and the file system watches it.
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

    // MARK: Now and then

    func runMaintenance() async {
        while !Task.isCancelled {
            guard (try? await timekeeper.sleep(for: SyncLimits.maintenanceInterval)) != nil else { return }
            // What fails in one keeps none of the others from its work.
            await maintain("look for contents that nobody has") { try self.sweepLater() }
            await maintain("sync contents") { try self.syncContents() }
            await maintain("copy the log back") { [index] in try index.checkpoint() }
            await maintain("keep within the limits") { try self.keepWithinLimits() }
            await maintain("remove folders") { try self.removeLingering() }
            await maintain("remove contents") { try self.removeRetired() }
            reportRefusals()
        }
    }

    /// That cannot be, and whoever looks into it needs to know what it was.
    func reportRefusals() {
        for text in index.takeRefusals() {
            logger.error(
                "the index would not take an acknowledged change; the start of a mount looks for what is missing",
                metadata: ["reason": "\(text)"])
        }
    }

    private func maintain(_ what: String, _ work: @escaping @Sendable () throws -> Void) async {
        do { try await pool.run(work) } catch {
            guard !Task.isCancelled else { return }
            logger.warning("maintenance failed", metadata: ["work": "\(what)", "reason": "\(error)"])
        }
    }

    /// Brings downloaded and uploaded contents to the disk, so that they need not be verified after power loss.
    private func syncContents() throws {
        let contents = try index.read { try $0.unsyncedContents(limit: SyncLimits.syncsPerRound) }
        guard !contents.isEmpty else { return }
        var synced = [ItemRow]()
        for content in contents {
            // What is in the journal still would take its place after a loss of power, whatever is here by then.
            guard let row = try index.read({ try $0.row(content: content) }), row.isToBeSynced,
                store.journal?.isKept(content) != true
            else { continue }
            do {
                guard try sync(content, of: row) else { continue }
            } catch {
                logger.warning(
                    "cannot bring a content to the disk", metadata: ["item": "\(row.id)", "reason": "\(error)"])
                continue
            }
            synced.append(row)
        }
        guard !synced.isEmpty else { return }
        try index.write(.startup) { [synced] transaction in
            // Not of what was written to since: that is on the disk in part.
            let unchanged = try synced.filter { row in
                guard let now = try transaction.row(key: row.key) else { return false }
                return now.content == row.content && now.generation == row.generation && now.isToBeSynced
            }
            try transaction.markSynced(unchanged.compactMap(\.content))
        }
    }

    /// After a failure all of it is written anew: nobody may begin to write to it meanwhile, who would be undone.
    /// - Returns: false if that is not so now.
    private func sync(_ content: ContentID, of row: ItemRow) throws -> Bool {
        guard store.failure(of: content) != nil, let openItems else {
            try store.sync(content)
            return true
        }
        return try openItems.whileClosed(row.key) { try store.sync(content) } != nil
    }

    /// Folders deleted elsewhere whose last local item is gone by now.
    private func removeLingering() throws {
        guard try index.read({ try !$0.lingering(limit: 1).isEmpty }) else { return }
        try index.write(.remote) { try settler($0).removeLingering(limit: SyncLimits.settleBatch) }
    }
}

extension ItemRow {
    /// Whether its content is all that was written, and what the record of it says.
    fileprivate var isToBeSynced: Bool { contentState == .complete && !dirty.contains(.content) && !isWriting }
}
