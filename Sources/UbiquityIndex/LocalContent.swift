package import UbiquityCore

/// The changes of a writer to a file, recorded in one transaction with another change.
package struct WritingNote: Sendable {
    package var ino: UInt64
    /// Whether the content may differ from the content at the open.
    package var isChange: Bool
    /// The backing file's size, bytes.
    package var size: Int64
    /// The backing file's mtime.
    package var modifiedAt: Timestamp
    /// The backing file's ctime, which programs saw while the file was open.
    package var changedAt: Timestamp
    /// The time of the last write; nil if only the note shows one: a store to a mapped page that is already dirty does
    /// not change the file's times.
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

/// A row with a writer's changes, not stored yet.
struct NotedRow {
    var stored: ItemRow
    var row: ItemRow
    var isChange: Bool
}

extension ItemIndex {
    /// Records that a program opens the file for writing, before the open is answered. If the daemon dies, the next
    /// start compares the content.
    ///
    /// If the content is the cloud's, the record is durable before the first byte is written. Otherwise a power loss
    /// could leave new bytes in a file that the index considers unchanged. Throws `.stale` if the item is gone.
    package func beginWriting(ino: UInt64) throws -> ItemRow {
        let now = timekeeper.now()
        let row = try change(ino: ino, .attributes) { _, row in
            row.flags.insert(.writing)
            row.usedAt = now
        }
        if let content = row.content { try distrust(content) }
        return row
    }

    /// Records a writer's changes, at `fsync` and at its close.
    ///
    /// - Parameters:
    ///   - changed: Whether the content may differ from the content at the open.
    ///   - size: The backing file's size, bytes.
    ///   - modifiedAt: The backing file's mtime.
    ///   - changedAt: The backing file's ctime, which programs saw while the file was open; nil for now.
    ///   - writtenAt: The time of the last write, if known.
    ///   - stillOpen: Whether any program still has the file open for writing.
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

    /// Replaces a file's content by an empty one, so that truncation downloads nothing. The caller now owns the old
    /// content (`before.content`).
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

    /// Records when files were last used, so that eviction takes the least recently used first. Missing files are
    /// skipped.
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

    /// Returns files that a program had open for writing when the last process died. Call it once, at the start.
    package func interruptedWriters() throws -> [ItemRow] {
        try read { try $0.rows(RowCoding.select("items.flags & 1"), []) }
    }
}

extension IndexTransaction {
    /// Records writes like `noteWriting`, for changes a program has not synced. Does nothing if the inode is not an
    /// item: such a file is visible only to programs that have it open.
    func note(_ writing: WritingNote?) throws {
        if let noted = try noted(writing) { try write(noted) }
    }

    /// Returns the row as it is and as it should be; nil if there is nothing to record.
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
