internal import UbiquityCore
internal import UbiquitySystem

/// Records what writers did to a file, as part of another change.
struct LocalWrites: TransactionPart {
    let transaction: IndexTransaction

    /// Replaces a file's content by an empty one.
    func replaceContent(ino: UInt64, with content: ContentID, isWriting: Bool, now: Timestamp) throws
        -> (before: ItemRow, after: ItemRow)
    {
        guard let before = try transaction.row(ino: ino), !before.isDeleted else {
            throw UbiquityError(.stale, "the item is gone")
        }
        if let old = before.content { try transaction.contents.forgetContent(old) }
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
        try tree.markDirty(&row, [.content, .times], now: now)
        try transaction.update(row, before: before)
        transaction.note(.content, before: before, after: row)
        return (before, row)
    }

    /// Records writes like `noteWriting`, for changes a program has not synced. Does nothing if the inode is not an
    /// item: such a file is visible only to programs that have it open.
    func record(_ writing: WritingNote?) throws {
        if let noted = try noted(writing) { try store(noted) }
    }

    /// Returns the row as it is and as it should be; nil if there is nothing to record.
    func noted(_ writing: WritingNote?) throws -> NotedRow? {
        guard let writing, let before = try transaction.row(ino: writing.ino), !before.isDeleted else { return nil }
        var row = before
        if !writing.stillOpen { row.flags.subtract([.writing, .fresh]) }
        if writing.isChange { try apply(writing, to: &row, now: index.timekeeper.now()) }
        return row == before ? nil : NotedRow(stored: before, row: row, isChange: writing.isChange)
    }

    func store(_ noted: NotedRow) throws {
        try transaction.update(noted.row, before: noted.stored)
        transaction.note(noted.isChange ? .content : .attributes, before: noted.stored, after: noted.row)
    }

    func apply(_ writing: WritingNote, to row: inout ItemRow, now: Timestamp) throws {
        let (known, before) = (row.changedAt, row.dirtyAt)
        row.size = writing.size
        row.modifiedAt = writing.modifiedAt
        row.changedAt = max(writing.changedAt, row.changedAt)
        row.generation += 1
        row.nextVersion = nil
        row.flags.insert(.keptCurrent)
        try tree.markDirty(&row, [.content, .times], now: now)
        if let written = writing.writtenAt { row.noteWritten(at: written, known: known, before: before) }
    }
}
