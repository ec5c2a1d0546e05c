internal import UbiquityContent
package import UbiquityCore
package import UbiquityIndex
internal import UbiquitySystem

/// Writes to the index that a content begins, is complete, takes the place of another, or is given up.
///
/// It holds nothing. The rooms of Fetch call it, and the packages exchange their contents by it. It knows the context
/// only. No method calls the cloud.
package struct ContentPlacement: SyncRoom {
    package let context: SyncContext

    /// Creates an empty content for a download.
    func newContent(_ manifest: Manifest, size: Int64) throws -> PartialContent {
        let id = ContentID(try index.newContentNumber())
        let file = try store.create(id)
        do { return try PartialContent(id: id, file: file, manifest: manifest, size: size) } catch {
            discard([id])
            throw error
        }
    }

    func finishPlaceholder(_ key: ItemKey, _ content: PartialContent) throws -> [ContentID] {
        try index.write(.remote) { transaction in
            guard let row = try transaction.row(key: key), row.content == content.id,
                row.contentState == .partial
            else {
                // The item was deleted or got a newer version meanwhile, and programs that have it open read on to its
                // end. Or it was finished before (`finishIfComplete`) and perhaps written since.
                return []
            }
            try content.finish(modifiedAt: row.modifiedAt)
            var next = row
            next.contentState = .complete
            next.flags.insert(.keptCurrent)
            next.flags.remove(.downloadRequested)
            try transaction.update(next, before: row)
            try transaction.setLocations(content.manifest, in: content.id)
            transaction.note(.content, before: row, after: next)
            var settler = settler(transaction)
            try settler.settle(row.id)
            return settler.dropped
        }
    }

    /// Replaces the old content with the new one, unless the file has changed here meanwhile.
    func finishReplacement(_ download: Download) throws -> [ContentID] {
        let content = download.content
        return try index.write(.remote) { transaction in
            guard let row = try transaction.row(key: download.key), row.contentState == .complete, !row.isWriting,
                !row.dirty.contains(.content), !row.isDeleted, let remote = try transaction.remote(id: row.id),
                remote.content?.version == download.version
            else { return [content.id] }
            let new = StagedContent(id: row.id, content: content, version: download.version)
            try exchange(row, remote, new, transaction)
            var settler = settler(transaction)
            try settler.settle(row.id)
            return row.content.map { [$0] } ?? []
        }
    }

    /// Gives the item the new content under a new inode number. The caller removes the old backing file.
    func exchange(
        _ row: ItemRow, _ remote: RemoteItem, _ new: StagedContent, _ transaction: IndexTransaction
    ) throws {
        let content = new.content
        try content.finish(modifiedAt: remote.modifiedAt)
        var next = row
        next.ino = UInt64(transaction.newNumber())
        next.content = content.id
        next.version = new.version
        next.size = content.size
        next.flags.insert(.keptCurrent)
        next.flags.remove(.downloadRequested)
        if !row.dirty.contains(.times) {
            next.modifiedAt = remote.modifiedAt
            next.createdAt = remote.createdAt
        }
        next.changedAt = timekeeper.now()
        if !configuration.trustsPrivileges { next.dropPrivileges() }
        if let old = row.content { try transaction.forgetContent(old) }
        try transaction.update(next, before: row)
        try transaction.setContent(
            ContentRecord(
                content: content.id, version: new.version, size: content.size, manifest: content.manifest,
                unsyncedBoot: configuration.boot))
        try transaction.setLocations(content.manifest, in: content.id)
        transaction.note(.replaced, before: row, after: next)
        try transaction.noteOtherNames(of: next)
    }

    /// Turns an item with a partial content into a placeholder again. A content that is complete by now remains.
    /// - Returns: false if the content remains.
    @discardableResult
    package func dropPartial(_ row: ItemRow, _ content: ContentID) throws -> Bool {
        let isAbandoned = try index.write(.remote) { transaction in
            guard let current = try transaction.row(key: row.key), current.content == content else {
                // Another document has the content now, because the item was saved over it.
                return try transaction.row(content: content) == nil
            }
            guard current.contentState == .partial else { return false }
            var next = current
            next.content = nil
            next.contentState = .none
            try transaction.update(next, before: current)
            try transaction.forgetContent(content)
            try transaction.reviewAwaitedContent(of: row.id)
            transaction.note(.attributes, before: current, after: next)
            return true
        }
        if isAbandoned { discard([content]) }
        return isAbandoned
    }
}
