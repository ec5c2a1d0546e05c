package import UbiquityCore
package import UbiquityIndex
internal import Logging
internal import UbiquityContent
internal import UbiquitySystem

/// Who uses items on this device: programs that have files open, and clients that claim or show them.
package protocol OpenItems: Sendable {
    /// Runs `body` while nobody can open the item; nil if a program has it open, or if that is not to be known.
    func whileClosed<R>(_ key: ItemKey, _ body: () throws -> R) throws -> R?
    /// Tells the index when files were last used.
    func noteUses()
    /// Whether a client shows the item: it is not evicted unasked.
    func isShown(_ key: ItemKey) -> Bool
    /// Whether a client may show the item or have claimed it, so that it has to be asked.
    func mayBeUsed(_ key: ItemKey) -> Bool
    /// Whether a client has it claimed for writing: what is there is not finished, and does not go up yet.
    func isBeingWritten(_ row: ItemRow) -> Bool
    /// Whether a program has the content open in a file that has no name yet.
    func isUnnamed(_ content: ContentID) -> Bool
    /// Waits until clients that show or have claimed the items have saved, and let go of them. To be called before what
    /// others did there is done here. A content is waited for until it can be had, and alone; of other changes what
    /// cannot be had soon is done all the same.
    /// - Returns: to be called when it is done; nil if nobody was concerned.
    func prepare(for changes: [ComingChange]) async throws -> (@Sendable () -> Void)?
}

/// What is about to be done to an item because it was done elsewhere.
package enum ComingChange: Sendable, Hashable {
    /// Its content is replaced.
    case content(ItemKey)
    case deletion(ItemID)
    /// It has that place from now on.
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

// What people ask for.
extension SyncEngine {
    var openItems: (any OpenItems)? { openItemsBox.withLock { $0 } }

    /// Tells the engine who knows which files are open. Without, none is.
    package func setOpenItems(_ openItems: any OpenItems) { openItemsBox.withLock { $0 = openItems } }

    /// Drops an item's content, which the cloud has; name, size, times, attributes and inode number stay.
    ///
    /// The index goes first: a crash right after leaves a backing file nobody has, which the next start removes.
    /// Throws `.busy` (open, changed, or on its way up), `.notPermitted` (pinned), `.noSuchAttribute` (never uploaded),
    /// `.isDirectory`, `.notFound`.
    /// - Returns: whether there was a content.
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
                // It was asked for, and is not wanted any more.
                if next.flags != row.flags { transaction.note(.attributes, before: row, after: next) }
                return nil
            }
            try transaction.forgetContent(content)
            transaction.note(.content, before: row, after: next)
            // A newer version that waited to replace the content is what the placeholder shows now.
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
        // Its account may be gone, and this the only copy.
        guard connection.status.phase != .signedOut else {
            throw UbiquityError(
                .notPermitted, "the device is signed out, and cannot ask whether the cloud has it",
                remedy: "sign in: ubiquity login")
        }
        guard row.version != nil, let content = remote?.content, remote?.isDeleted == false else {
            throw UbiquityError(.noSuchAttribute, "it was never uploaded: this is the only copy")
        }
        // Also what is no content: the item is as this device has it, and nowhere else.
        guard row.dirty.isEmpty else {
            throw UbiquityError(.busy, "its changes have not been uploaded yet")
        }
        guard content.version != row.version || content.isAvailable else {
            throw UbiquityError(.busy, "the cloud has not confirmed its content yet")
        }
    }

    /// - Returns: Whether that changed anything.
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

    /// The same of all that is in a folder, many in one commit; what is gone is passed over.
    package func setPinned(_ keys: [ItemKey], _ pinned: Bool) throws {
        try changeFlags(of: keys) { row in
            if pinned { row.flags.insert(.pinned) } else { row.flags.remove(.pinned) }
        }
        downloadSignal.fire()
    }

    /// Changes what this device wants of items, many in one commit; what is gone is passed over.
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

    /// Airplane mode.
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

    /// Tries at once whatever failed and waits.
    package func retryNow() {
        problems.clearAll()
        connection.changed.fire()
        pushSignal.fire()
        downloadSignal.fire()
    }
}
