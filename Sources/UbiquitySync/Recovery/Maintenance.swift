internal import Logging
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Periodic work: syncs contents to the disk, keeps the limits, removes old contents, copies the index's log back, and
/// logs why items wait.
///
/// It holds nothing. The engine runs it. It knows `Recovery`, `CacheSpace` and `WaitLog`.
struct Maintenance: SyncRoom {
    let context: SyncContext
    let recovery: Recovery
    let space: CacheSpace
    let waitLog: WaitLog

    /// Runs until the task is cancelled.
    func run() async {
        while !Task.isCancelled {
            guard (try? await timekeeper.sleep(for: SyncLimits.maintenanceInterval)) != nil else { return }
            // A failure of one task does not stop the others.
            await maintain("look for unreferenced contents") { try self.recovery.sweepLater() }
            await maintain("sync contents") { try self.syncContents() }
            await maintain("checkpoint the log") { [index] in try index.checkpoint() }
            await maintain("keep within the limits") { try self.space.keepWithinLimits() }
            await maintain("remove folders") { try self.removeLingering() }
            await maintain("remove contents") {
                // In the same job: a simulated world draws a pause for each job.
                defer { self.waitLog.look() }
                try self.removeRetired()
            }
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
