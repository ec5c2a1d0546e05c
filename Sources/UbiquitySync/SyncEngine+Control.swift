package import UbiquityCore
internal import UbiquityIndex
internal import Logging
internal import UbiquityContent
internal import UbiquitySystem

// Operations that people request.
extension SyncEngine {
    /// Binds the object that knows the open files. Call it once, before `run`. Without it, no file counts as open.
    package func bind(_ openItems: any OpenItems) { context.bind(openItems) }

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
        try context.changeFlags(of: keys) { row in
            if pinned { row.flags.insert(.pinned) } else { row.flags.remove(.pinned) }
        }
        downloadSignal.fire()
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
