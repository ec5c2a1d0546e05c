package import UbiquityCore
internal import UbiquityIndex
internal import Logging
internal import UbiquityContent
internal import UbiquitySystem

// Operations that people request.
extension SyncEngine {
    /// Binds the object that knows the open files. Call it once, before `run`. Without it, no file counts as open.
    package func bind(_ openItems: any OpenItems) { context.bind(openItems) }

    /// Evicts an item's content, which the cloud has. See `Evictor.evict`.
    @discardableResult
    package func evict(_ key: ItemKey) throws -> Bool { try evictor.evict(key) }

    package func cachedBytes() throws -> Int64 { try space.cachedBytes() }

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
