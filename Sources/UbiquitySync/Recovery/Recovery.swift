internal import Logging
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Repairs what the last run may have left half done: unreferenced contents, unsynced contents, and files that were
/// open for writing.
///
/// It holds the range of contents of earlier runs that are not yet checked. The engine calls `recover` before the
/// mount serves programs, and maintenance calls `sweepLater` once. It knows `PowerLoss`.
package final class Recovery: SyncRoom {
    package let context: SyncContext
    private let inUse: ContentsInUse
    /// An earlier run's contents with smaller ids are not yet checked for ones that no item references. Nil once all
    /// are checked.
    private let unswept = Lock<ContentID?>(nil)

    private var powerLoss: PowerLoss { PowerLoss(context: context) }

    init(_ context: SyncContext, _ inUse: ContentsInUse) {
        self.context = context
        self.inUse = inUse
    }

    /// Repairs what the last run may have left half done. Call it before the mount serves programs.
    /// - Returns: how many contents of a lost index were set aside.
    @discardableResult
    func recover() throws -> Int {
        try powerLoss.restoreReplaced()
        try index.write(.startup) { try $0.forgetUnusedContents() }
        let setAside = try sweep()
        try distrustUnsynced()
        try powerLoss.reviewChangedContents()
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
    func sweepLater() throws {
        guard let first = unswept.withLock({ $0.take() }) else { return }
        // List the files first: a content that an item gets and drops later is removed with that.
        let files = try store.all().filter { $0 < first }
        let (used, replaced) = try index.read { (try $0.contentsInUse(), Set(try $0.replacedContents().map(\.old))) }
        let orphans = try files.filter { content in
            try !used.contains(content) && !replaced.contains(content) && !store.isRetired(content)
                && !inUse.contains(content) && store.journal?.isKept(content) != true
                && index.read { try $0.row(content: content) } == nil
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
                try powerLoss.reviewChangedContent(row)
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
}
