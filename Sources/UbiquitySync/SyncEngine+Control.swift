package import UbiquityCore
package import UbiquityIndex
internal import Logging
internal import UbiquityContent
internal import UbiquitySystem

/// The users of items on this device: programs that have files open, and clients that claim or show them.
package protocol OpenItems: Sendable {
    /// Runs `body` while nobody can open the item. Nil if a program has it open, or if that is unknown.
    func whileClosed<R>(_ key: ItemKey, _ body: () throws -> R) throws -> R?
    /// Records in the index when files were last used.
    func noteUses()
    /// Whether a client shows the item. Such an item is evicted only on request.
    func isShown(_ key: ItemKey) -> Bool
    /// Whether a client may show or have claimed the item, so that it must be asked.
    func mayBeUsed(_ key: ItemKey) -> Bool
    /// Whether a client has claimed the item for writing. Its content is unfinished and not uploaded yet.
    func isBeingWritten(_ row: ItemRow) -> Bool
    /// Whether a program has the content open in a file without a name yet.
    func isUnnamed(_ content: ContentID) -> Bool
    /// Asks clients that show or have claimed the items to save and release them, and waits for that. Call it before
    /// applying remote changes. For a content, it waits until the claim is granted, one content at a time. Other
    /// changes are applied even if the clients do not answer soon.
    /// - Returns: a closure to call when the change is applied, or nil if no client was concerned.
    func prepare(for changes: [ComingChange]) async throws -> (@Sendable () -> Void)?
}

/// A remote change that is about to be applied to an item.
package enum ComingChange: Sendable, Hashable {
    /// The item's content is replaced.
    case content(ItemKey)
    case deletion(ItemID)
    /// The item moves to that place.
    case place(ItemID, Place)
}

extension OpenItems {
    package func noteUses() {}
    package func isShown(_ key: ItemKey) -> Bool { false }
    package func mayBeUsed(_ key: ItemKey) -> Bool { false }
    package func isBeingWritten(_ row: ItemRow) -> Bool { false }
    package func isUnnamed(_ content: ContentID) -> Bool { false }
    package func prepare(for changes: [ComingChange]) async throws -> (@Sendable () -> Void)? { nil }
}

// Operations that people request.
extension SyncEngine {
    var openItems: (any OpenItems)? { openItemsBox.withLock { $0 } }

    /// Sets the object that knows the open files. Without it, no file counts as open.
    package func setOpenItems(_ openItems: any OpenItems) { openItemsBox.withLock { $0 = openItems } }

    /// Evicts an item's content, which the cloud has. Name, size, times, attributes and inode number remain.
    ///
    /// The index is updated first: a crash right after leaves an unreferenced backing file, which the next start
    /// removes.
    /// - Throws: `.busy` (open, changed, or being uploaded), `.notPermitted` (pinned), `.noSuchAttribute` (never
    ///   uploaded), `.isDirectory`, `.notFound`.
    /// - Returns: whether the item had a content.
    @discardableResult
    package func evict(_ key: ItemKey) throws -> Bool {
        guard let openItems = openItemsBox.withLock({ $0 }) else { return try evictClosed(key) }
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
                .notPermitted, "the device is signed out and cannot check that the cloud has it",
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

    /// - Returns: whether the pin changed.
    @discardableResult
    package func setPinned(_ key: ItemKey, _ pinned: Bool) throws -> Bool {
        let hasChanged = try index.write(.remote) { transaction in
            guard let row = try transaction.row(key: key), !row.isDeleted else {
                throw UbiquityError(.notFound, "the item is gone")
            }
            var next = row
            if pinned { next.flags.insert(.pinned) } else { next.flags.remove(.pinned) }
            guard next != row else { return false }
            try transaction.update(next, before: row)
            transaction.note(.attributes, before: row, after: next)
            return true
        }
        downloadSignal.fire()
        return hasChanged
    }

    /// Pins or unpins all items of a folder, many in one commit. Skips removed items.
    package func setPinned(_ keys: [ItemKey], _ pinned: Bool) throws {
        try changeFlags(of: keys) { row in
            if pinned { row.flags.insert(.pinned) } else { row.flags.remove(.pinned) }
        }
        downloadSignal.fire()
    }

    /// Changes this device's flags of items, many in one commit. Skips removed items.
    func changeFlags(of keys: [ItemKey], _ change: (inout ItemRow) -> Void) throws {
        for start in stride(from: 0, to: keys.count, by: SyncLimits.rowsPerWrite) {
            try index.write(.remote) { transaction in
                for key in keys[start..<min(start + SyncLimits.rowsPerWrite, keys.count)] {
                    guard let row = try transaction.row(key: key), !row.isDeleted else { continue }
                    var next = row
                    change(&next)
                    guard next != row else { continue }
                    try transaction.update(next, before: row)
                    transaction.note(.attributes, before: row, after: next)
                }
            }
        }
    }

    /// Turns offline mode on or off.
    package func setPaused(_ paused: Bool) {
        connection.setPaused(paused)
        if paused {
            let offline = UbiquityError(
                .offline, "this mount is offline on request", remedy: "ubiquity online MOUNTPOINT")
            for download in downloads.all { download.fail(offline) }
        }
        feedSignal.fire()
        pushSignal.fire()
        downloadSignal.fire()
        progress.fire()
    }

    /// Retries all failed transfers at once.
    package func retryNow() {
        problems.clearAll()
        connection.changed.fire()
        pushSignal.fire()
        downloadSignal.fire()
    }
}
