package import UbiquityCore

/// What a writer has done to a file, to be noted with another change in one transaction.
package struct WritingNote: Sendable {
    package var ino: UInt64
    /// Whether the content may differ from what it was at the open.
    package var isChange: Bool
    /// Of the backing file, bytes.
    package var size: Int64
    /// The backing file's mtime.
    package var modifiedAt: Timestamp
    /// The backing file's ctime, which programs have been shown while it was open.
    package var changedAt: Timestamp
    /// When it was written last; nil if only the note tells: no store to a page that is mapped and dirty already
    /// changes the file's times.
    package var writtenAt: Timestamp?
    /// Whether any program still has the file open for writing.
    package var stillOpen: Bool

    package init(
        ino: UInt64, isChange: Bool, size: Int64, modifiedAt: Timestamp, changedAt: Timestamp,
        writtenAt: Timestamp? = nil, stillOpen: Bool
    ) {
        self.ino = ino
        self.isChange = isChange
        self.size = size
        self.modifiedAt = modifiedAt
        self.changedAt = changedAt
        self.writtenAt = writtenAt
        self.stillOpen = stillOpen
    }
}

/// A row with what a writer has done, that is not written yet.
struct NotedRow {
    var stored: ItemRow
    var row: ItemRow
    var isChange: Bool
}

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
    ///   - writtenAt: when it was written last, if that is known.
    ///   - stillOpen: whether any program still has the file open for writing.
    package func noteWriting(
        ino: UInt64, changed: Bool, size: Int64, modifiedAt: Timestamp, changedAt: Timestamp? = nil,
        writtenAt: Timestamp? = nil, stillOpen: Bool
    ) throws -> ItemRow {
        let now = timekeeper.now()
        return try change(ino: ino, changed ? .content : .attributes) { transaction, row in
            if stillOpen { transaction.noteWritingOn(row) } else { row.flags.remove(.writing) }
            row.flags.remove(.fresh)
            guard changed else { return }
            let writing = WritingNote(
                ino: ino, isChange: true, size: size, modifiedAt: modifiedAt, changedAt: changedAt ?? now,
                writtenAt: writtenAt, stillOpen: stillOpen)
            try transaction.note(writing, in: &row, now: now)
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

extension IndexTransaction {
    /// As `noteWriting`, of what a program has not synced; nothing if the inode is no item, which keeps what is written
    /// to those who have it open.
    func note(_ writing: WritingNote?) throws {
        if let noted = try noted(writing) { try write(noted) }
    }

    /// The row as it is, and as it is to be. Nil if there is nothing to note.
    func noted(_ writing: WritingNote?) throws -> NotedRow? {
        guard let writing, let before = try row(ino: writing.ino), !before.isDeleted else { return nil }
        var row = before
        if !writing.stillOpen { row.flags.subtract([.writing, .fresh]) }
        if writing.isChange { try note(writing, in: &row, now: index.timekeeper.now()) }
        return row == before ? nil : NotedRow(stored: before, row: row, isChange: writing.isChange)
    }

    func write(_ noted: NotedRow) throws {
        try update(noted.row, before: noted.stored)
        note(noted.isChange ? .content : .attributes, before: noted.stored, after: noted.row)
    }

    fileprivate func note(_ writing: WritingNote, in row: inout ItemRow, now: Timestamp) throws {
        let (known, before) = (row.changedAt, row.dirtyAt)
        row.size = writing.size
        row.modifiedAt = writing.modifiedAt
        row.changedAt = max(writing.changedAt, row.changedAt)
        row.generation += 1
        row.nextVersion = nil
        row.flags.insert(.keptCurrent)
        try markDirty(&row, [.content, .times], now: now)
        if let written = writing.writtenAt { row.noteWritten(at: written, known: known, before: before) }
    }
}
