package import UbiquityCore

extension ItemIndex {
    /// Records that a program opens the file for writing, before the open is answered: should the daemon die, the next
    /// start compares the content. Throws `.stale` if the inode is no item (any more).
    ///
    /// Of a content that the cloud has, that is on the disk before the first byte can be: else a power loss could leave
    /// new bytes in a file that the index takes for the cloud's, and nobody would look.
    package func beginWriting(ino: UInt64) throws -> ItemRow {
        let now = timekeeper.now()
        let row = try change(ino: ino, .attributes) { _, row in
            row.flags.insert(.writing)
            row.usedAt = now
        }
        if let content = row.content { try distrust(content) }
        return row
    }

    /// Records what a writer did, at `fsync` and at its close.
    /// - Parameters:
    ///   - changed: whether the content may differ from what it was at the open.
    ///   - size: of the backing file, bytes.
    ///   - modifiedAt: the backing file's mtime.
    ///   - changedAt: the backing file's ctime, which programs have been shown while it was open; else now.
    ///   - stillOpen: whether any program still has the file open for writing.
    package func noteWriting(
        ino: UInt64, changed: Bool, size: Int64, modifiedAt: Timestamp, changedAt: Timestamp? = nil, stillOpen: Bool
    ) throws -> ItemRow {
        let now = timekeeper.now()
        return try change(ino: ino, changed ? .content : .attributes) { transaction, row in
            if stillOpen { transaction.noteWritingOn(row) } else { row.flags.remove(.writing) }
            row.flags.remove(.fresh)
            guard changed else { return }
            row.size = size
            row.modifiedAt = modifiedAt
            row.changedAt = max(changedAt ?? now, row.changedAt)
            row.generation += 1
            row.nextVersion = nil
            row.flags.insert(.keptCurrent)
            try transaction.markDirty(&row, [.content, .times], now: now)
        }
    }

    /// Gives a file an empty content in place of what it had (truncation to nothing downloads nothing).
    /// The old content belongs to the caller now (`before.content`).
    package func replaceContent(ino: UInt64, with content: ContentID, isWriting: Bool) throws
        -> (before: ItemRow, after: ItemRow)
    {
        let now = timekeeper.now()
        return try write(.local) { transaction in
            guard let before = try transaction.row(ino: ino), !before.isDeleted else {
                throw UbiquityError(.stale, "the item is gone")
            }
            if let old = before.content { try transaction.forgetContent(old) }
            var row = before
            row.content = content
            row.contentState = .complete
            row.size = 0
            row.modifiedAt = now
            row.changedAt = now
            row.usedAt = now
            row.generation += 1
            row.nextVersion = nil
            row.flags.insert(.keptCurrent)
            row.flags.remove(.downloadRequested)
            if isWriting { row.flags.formUnion([.writing, .fresh]) }
            try transaction.markDirty(&row, [.content, .times], now: now)
            try transaction.update(row, before: before)
            transaction.note(.content, before: before, after: row)
            return (before, row)
        }
    }

    /// Notes when files were last used, for eviction of what was not used for longest; those that are gone are passed
    /// over.
    package func noteUses(_ uses: [(ino: UInt64, time: Timestamp)]) throws {
        try write(.local) { transaction in
            for use in uses {
                guard let before = try transaction.row(ino: use.ino), !before.isDeleted else { continue }
                var row = before
                row.usedAt = use.time
                try transaction.update(row, before: before)
            }
        }
    }

    /// Files that a program had open for writing when the last process died. To be asked once, at the start.
    package func interruptedWriters() throws -> [ItemRow] {
        try read { try $0.rows(RowCoding.select("items.flags & 1"), []) }
    }
}
