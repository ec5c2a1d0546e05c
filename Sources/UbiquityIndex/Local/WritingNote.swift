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
