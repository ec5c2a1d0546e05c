internal import Logging
internal import UbiquityContent
package import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Evicts contents that the cloud has: one on request, or the least recently used ones until enough space is free.
///
/// It holds nothing. The engine calls it on request, and `CacheSpace` for the limits. It knows the table of downloads.
package struct Evictor: SyncRoom {
    package let context: SyncContext
    let downloads: DownloadTable

    /// Evicts an item's content, which the cloud has. Name, size, times, attributes and inode number remain.
    ///
    /// The index is updated first: a crash right after leaves an unreferenced backing file, which the next start
    /// removes.
    /// - Throws: `.busy` (open, changed, or being uploaded), `.notPermitted` (pinned), `.noSuchAttribute` (never
    ///   uploaded), `.isDirectory`, `.notFound`.
    /// - Returns: whether the item had a content.
    @discardableResult
    package func evict(_ key: ItemKey) throws -> Bool {
        guard let openItems else { return try evictClosed(key) }
        guard let hadContent = try openItems.whileClosed(key, { try evictClosed(key) }) else {
            throw UbiquityError(.busy, "a program has it open")
        }
        return hadContent
    }

    private func evictClosed(_ key: ItemKey) throws -> Bool {
        let dropped = try index.write(.remote) { transaction -> ContentID? in
            guard let row = try transaction.row(key: key), !row.isDeleted else {
                throw UbiquityError(.notFound, "the item is gone")
            }
            try requireEvictable(row, try transaction.remote(id: row.id))
            var next = row
            next.content = nil
            next.contentState = .none
            next.flags.remove(.keptCurrent)
            next.flags.subtract([.downloadRequested, .broughtOnRequest])
            try transaction.update(next, before: row)
            guard let content = row.content else {
                // The download was requested and is not wanted any more.
                if next.flags != row.flags { transaction.note(.attributes, before: row, after: next) }
                return nil
            }
            try transaction.forgetContent(content)
            transaction.note(.content, before: row, after: next)
            // If a newer version waited to replace the content, the placeholder shows that version now.
            var settler = settler(transaction)
            try settler.settle(row.id)
            return content
        }
        if let dropped {
            logger.debug("evicted", metadata: ["item": "\(key)"])
            if let download = downloads.download(with: dropped) {
                download.clearBackground()
                downloads.remove(download)
            }
            store.retire([dropped])
        }
        return dropped != nil
    }

    private func requireEvictable(_ row: ItemRow, _ remote: RemoteItem?) throws {
        guard row.kind != .directory else { throw UbiquityError(.isDirectory, "a folder has no content of its own") }
        guard row.kind == .file else { throw UbiquityError(.invalid, "only files have content to evict") }
        guard !row.isPinned else {
            throw UbiquityError(.notPermitted, "it is pinned", remedy: "ubiquity unpin it first")
        }
        guard !row.isExcluded else {
            throw UbiquityError(.noSuchAttribute, "it is excluded from sync: this is the only copy")
        }
        guard !row.isWriting else { throw UbiquityError(.busy, "a program has it open for writing") }
        // The account may be gone, and then this is the only copy.
        guard connection.status.phase != .signedOut else {
            throw UbiquityError(
                .notPermitted, "this device is signed out and cannot check that the cloud has the content",
                remedy: "sign in: ubiquity login")
        }
        guard row.version != nil, let content = remote?.content, remote?.isDeleted == false else {
            throw UbiquityError(.noSuchAttribute, "it was never uploaded: this is the only copy")
        }
        // Dirty fields other than content count too: the item's state exists only on this device.
        guard row.dirty.isEmpty else {
            throw UbiquityError(.busy, "its changes have not been uploaded yet")
        }
        guard content.version != row.version || content.isAvailable else {
            throw UbiquityError(.busy, "the cloud has not confirmed its content yet")
        }
    }

    // MARK: The least recently used

    /// Bytes on the disk. A partial content may take less than its size.
    private func bytesOnDisk(of row: ItemRow) throws -> Int64 {
        guard row.contentState == .partial, let content = row.content else { return row.size }
        return min(row.size, try store.status(of: content)?.allocatedBytes ?? 0)
    }

    /// Evicts contents until the given bytes of the disk and of the cache limit are free. Requested contents are
    /// evicted only for the cache limit, or if the disk would otherwise have less than its reserve.
    /// - Parameters:
    ///   - floor: bytes to be free on the disk afterwards.
    ///   - slack: additional bytes to evict if there are enough small contents.
    /// - Returns: whether anything was evicted.
    @discardableResult
    func evictLeastUsed(disk: Int64, above floor: Int64, cache: Int64 = 0, slack: Int64 = 0) throws -> Bool {
        guard disk > 0 || cache > 0, mayEvict else { return false }
        openItems?.noteUses()
        let forFloor = try evictInOrder(disk, slack: slack, keeping: keptContents(above: floor))
        let left = max(disk - (floor - DiskFloor.reserve), cache) - forFloor
        let forLimits = try evictInOrder(left, slack: slack, keeping: .none)
        return forFloor + forLimits > 0
    }

    /// - Returns: the evicted bytes.
    private func evictInOrder(_ bytes: Int64, slack: Int64, keeping kept: KeptContents) throws -> Int64 {
        guard bytes > 0 else { return 0 }
        var left = bytes, hasFreed = false, last: ItemRow?
        defer { if hasFreed { removeFreed() } }
        for _ in 0..<SyncLimits.pagesOfEviction {
            // Programs wait for space: free what was evicted before evicting more.
            if hasFreed { removeFreed() }
            hasFreed = false
            // All rows of a page may be shown or open, so read several pages.
            let rows = try index.read { [last] reader in
                try reader.evictable(after: last, keeping: kept, limit: SyncLimits.rowsPerRead)
            }
            for row in rows where row.entry?.name != IgnoreRules.fileName {
                guard left > 0 || row.size - left <= slack else { return bytes - left }
                guard let freed = try evictUnused(row) else { continue }
                (left, hasFreed) = (left - freed, true)
            }
            last = rows.last
            guard last != nil else { break }
        }
        return bytes - left
    }

    /// While signed out, the cloud would refuse every confirmation.
    private var mayEvict: Bool { connection.status.phase != .signedOut }

    func evict(largerThan limit: Int64) throws {
        guard mayEvict else { return }
        openItems?.noteUses()
        var last: ItemRow?
        for _ in 0..<SyncLimits.pagesOfEviction {
            let rows = try index.read { [last] reader in
                try reader.evictable(after: last, largerThan: limit, limit: SyncLimits.rowsPerRead)
            }
            for row in rows where row.entry?.name != IgnoreRules.fileName { _ = try evictUnused(row) }
            last = rows.last
            guard last != nil else { return removeFreed() }
        }
        removeFreed()
    }

    /// - Returns: the bytes freed on the disk. Nil if the content is in use, not confirmed by the cloud, or already
    ///   evicted.
    private func evictUnused(_ row: ItemRow) throws -> Int64? {
        // A download in progress is given up by its readers, not by eviction.
        if openItems?.isShown(row.key) ?? false || downloads.download(of: row.key) != nil { return nil }
        do {
            let bytes = try bytesOnDisk(of: row)
            return try evict(row.key) ? bytes : nil
        } catch let error as UbiquityError where error.code != .io {
            return nil
        }
    }

    private func removeFreed() {
        do { try removeRetired() } catch {
            logger.warning("cannot free the space of evicted contents", metadata: ["reason": "\(error)"])
        }
    }

    /// The bytes that can be evicted to restore the floor.
    func evictableBytes(above floor: Int64) throws -> Int64 {
        let kept = keptContents(above: floor)
        let (whole, parts) = try index.read {
            (try $0.evictableBytes(keeping: kept), try $0.evictableParts(keeping: kept))
        }
        return try parts.reduce(whole) { sum, part in
            guard downloads.download(of: part.key) == nil else { return sum }
            return sum + (try store.status(of: part.content)?.allocatedBytes ?? 0)
        }
    }

    /// Contents that an eviction for this floor keeps. If the reserve itself is short, only ignore files are kept. With
    /// the eager policy small files are kept: they would be downloaded again at once.
    private func keptContents(above floor: Int64) -> KeptContents {
        guard floor > DiskFloor.reserve else { return .none }
        return KeptContents(
            size: configuration.policy == .eager ? DiskFloor.smallFile : 0,
            requestedSince: timekeeper.now().advanced(bySeconds: -DiskFloor.requestedStay))
    }

    /// Whether any content can be evicted.
    func hasEvictable() throws -> Bool {
        let (isWhole, parts) = try index.read { (try $0.hasEvictable(), try $0.evictableParts()) }
        return isWhole || parts.contains { downloads.download(of: $0.key) == nil }
    }
}
