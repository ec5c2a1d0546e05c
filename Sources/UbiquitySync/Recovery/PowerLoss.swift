internal import Logging
internal import UbiquityContent
internal import UbiquityCore
package import UbiquityIndex
internal import UbiquitySystem

/// Reviews locally changed contents that a program did not sync before a loss of power.
///
/// It holds nothing: the index has the boot of the last run. `Recovery` calls it at the start, and the doctor for
/// single items.
package struct PowerLoss: SyncRoom {
    package let context: SyncContext

    /// After a reboot, checks every content that waits for its upload, or may be uploaded later because it is excluded
    /// now. For unsynced contents, index and disk may hold different states.
    func reviewChangedContents() throws {
        let (boot, waits) = try index.read { (try $0.lastBoot(), try $0.lostContentsWait()) }
        let hasEnded = try consumeCleanEnd()
        feed.update { feed in
            feed.looksForLost = waits
            feed.knowsWhatWasSent = hasEnded || boot == configuration.boot
        }
        guard boot != configuration.boot else { return }
        feed.update { $0.mayHaveLost = true }
        var order: Int64 = 0
        while true {
            let rows = try index.read { try $0.dirtyRows(after: order, limit: SyncLimits.rowsPerRead) }
            guard let last = rows.last else { break }
            order = last.dirtyOrder
            for row in rows where row.kind == .file && row.dirty.contains(.content) && !row.isDeleted {
                try reviewChangedContent(row)
            }
        }
        try reviewLocalContents()
        try index.write(.startup) { try $0.setLastBoot(configuration.boot) }
    }

    /// Whether the last run ended cleanly. Durably marks this run as not ended, in case the power fails at once.
    private func consumeCleanEnd() throws -> Bool {
        guard try index.read({ try $0.hasEnded() }) else { return false }
        try index.write(.startup) { try $0.setEnded(false) }
        try index.makeDurable()
        return true
    }

    /// Restores the replaced content where its replacement is not complete on the disk. Call it before unreferenced
    /// contents are removed.
    package func restoreReplaced() throws {
        let (boot, replaced) = try index.read { (try $0.lastBoot(), try $0.replacedContents()) }
        guard !replaced.isEmpty else { return }
        if boot != configuration.boot {
            let byContent = Dictionary(replaced.map { ($0.content, $0) }) { first, _ in first }
            for first in replaced {
                guard let row = try index.read({ try $0.row(content: first.content) }),
                    row.dirty.contains(.content) || row.isExcluded, !row.isDeleted,
                    try !isThere(first.content, size: min(row.size, first.newSize))
                else { continue }
                try restore(first, to: row, byContent)
            }
        }
        try index.write(.startup) { try $0.forgetReplacements() }
    }

    private func isThere(_ content: ContentID, size: Int64) throws -> Bool {
        try store.status(of: content).map { $0.size >= size } ?? false
    }

    /// - Parameter replaced: all replacements, since a replaced content may itself be an incomplete replacement.
    private func restore(
        _ first: ReplacedContent, to row: ItemRow, _ replaced: [ContentID: ReplacedContent]
    ) throws {
        var next: ReplacedContent? = first
        // Bounded, in case the records form a cycle.
        for _ in replaced {
            guard let candidate = next, candidate.version == row.version, let old = candidate.old else { break }
            if try isThere(old, size: candidate.size), try restore(old, candidate, to: row, first.content) { return }
            next = replaced[old]
        }
        if try hasVersionThere(row) { try useCloudVersion(row, insteadOf: first.content) }
    }

    /// - Returns: false if it is unknown whether the old content is complete.
    private func restore(
        _ old: ContentID, _ replaced: ReplacedContent, to row: ItemRow, _ content: ContentID
    ) throws -> Bool {
        let (other, record, known) = try index.read { reader in
            (try reader.row(content: old), try reader.contentRecord(old), try reader.remote(id: row.id)?.content)
        }
        // If another item has the content, this one gets a copy.
        let given = other == nil ? old : ContentID(try index.newContentNumber())
        if let manifest = replaced.manifest {
            if known?.version == replaced.base, try hasVersionThere(row) {
                if given != old { try duplicate(old, as: given) }
                try useCloudVersion(row, insteadOf: content, whoseContentIs: (given, manifest))
                return true
            }
            guard let record, record.unsyncedBoot == nil else { return false }
        }
        if given != old { try duplicate(old, as: given) }
        logger.warning("an edit was lost with the power; the last save is used", metadata: ["item": "\(row.id)"])
        try index.write(.startup) { transaction in
            var next = row
            next.content = given
            next.contentState = .complete
            next.size = replaced.size
            next.modifiedAt = replaced.modifiedAt
            next.version = replaced.base
            next.generation += 1
            next.nextVersion = nil
            next.flags.subtract([.writing, .fresh])
            try transaction.forgetContent(content)
            try transaction.update(next, before: row)
        }
        return true
    }

    /// Sync the copy, so that it survives the next loss of power.
    private func duplicate(_ old: ContentID, as given: ContentID) throws {
        _ = try store.duplicate(old, as: given)
        try store.syncWhole(given)
    }

    private func reviewLocalContents() throws {
        var key = ItemKey.root
        while true {
            let rows = try index.read { try $0.localFiles(after: key, limit: SyncLimits.rowsPerRead) }
            guard let last = rows.last else { return }
            key = last.key
            for row in rows {
                guard let content = row.content else { continue }
                let size = try store.status(of: content)?.size
                if size != row.size { try acceptAsIs(row, size) }
            }
        }
    }

    /// Also handles files that were being written.
    package func reviewChangedContent(_ row: ItemRow) throws {
        guard let content = row.content else { return }
        let size = try store.status(of: content)?.size
        guard size == nil, try hasVersionThere(row) else { return try acceptAsIs(row, size) }
        try useCloudVersion(row, insteadOf: content)
    }

    /// - Parameter old: the content of that version, and its chunks. It is verified before use.
    private func useCloudVersion(
        _ row: ItemRow, insteadOf content: ContentID, whoseContentIs old: (ContentID, Manifest)? = nil
    ) throws {
        logger.warning("an edit was lost with the power; the cloud's version is used", metadata: ["item": "\(row.id)"])
        try index.write(.startup) { transaction in
            guard let remote = try transaction.remote(id: row.id), let known = remote.content else { return }
            var next = row
            next.dirty.subtract([.content, .times])
            next.nextVersion = nil
            next.content = nil
            next.contentState = .none
            next.flags.subtract([.writing, .fresh, .keptCurrent])
            next.version = known.version
            next.size = known.size
            next.modifiedAt = remote.modifiedAt
            if known.version != row.version, !configuration.trustsPrivileges { next.dropPrivileges() }
            try transaction.forgetContent(content)
            if let (old, manifest) = old {
                next.content = old
                next.contentState = .partial
                try transaction.setContent(
                    ContentRecord(
                        content: old, version: known.version, size: known.size, manifest: manifest,
                        unsyncedBoot: configuration.boot))
            }
            try transaction.update(next, before: row)
        }
    }

    package func hasVersionThere(_ row: ItemRow) throws -> Bool {
        guard !row.dirty.contains(.created), let remote = try index.read({ try $0.remote(id: row.id) }) else {
            return false
        }
        return !remote.isDeleted && remote.content?.isAvailable == true
    }

    /// Takes the backing file as the content, whatever its size. A file whose content never reached the disk becomes
    /// empty. It is uploaded under a new version id, since the old id may already name another content.
    private func acceptAsIs(_ row: ItemRow, _ size: Int64?) throws {
        var next = row
        next.nextVersion = nil
        if size != row.size {
            next.size = size ?? 0
            next.generation += 1
        }
        if size == nil {
            let content = ContentID(try index.newContentNumber())
            _ = try store.create(content)
            next.content = content
            next.flags.subtract([.writing, .fresh])
        }
        guard next != row else { return }
        try index.write(.startup) { [next] in try $0.update(next, before: row) }
    }
}
