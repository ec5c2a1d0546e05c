internal import UbiquityCore

/// The totals of a folder: counts and bytes of everything below it, at any depth.
///
/// An excluded file counts nothing. A hard link adds to the counts of the folder it lies in. Its bytes belong to the
/// folder of the file's entry.
package struct FolderSums: Sendable, Hashable {
    /// In the order of the columns. Additions wrap: sizes from a damaged index must not stop the program.
    var values: SIMD8<Int64>

    init(values: SIMD8<Int64> = .zero) { self.values = values }

    package var files: Int64 { values[0] }
    package var bytes: Int64 { values[1] }
    /// Placeholders.
    package var absent: Int64 { values[2] }
    package var absentBytes: Int64 { values[3] }
    /// Files whose content is here while the cloud has a newer one.
    package var outdated: Int64 { values[4] }
    /// Items of all kinds that are not uploaded.
    package var pending: Int64 { values[5] }
    /// The sizes of the pending files.
    package var pendingBytes: Int64 { values[6] }
    /// Files with a requested download.
    package var requested: Int64 { values[7] }

    static let columns = [
        "files", "bytes", "absent", "absentBytes", "outdated", "pending", "pendingBytes", "requested",
    ]

    static func += (one: inout FolderSums, other: FolderSums) { one.values &+= other.values }
    static func -= (one: inout FolderSums, other: FolderSums) { one.values &-= other.values }

    var isZero: Bool { values == .zero }

    /// The share of a hard link: the counts of its file without the bytes.
    var withoutBytes: FolderSums {
        var sums = self
        for index in [1, 3, 6] { sums.values[index] = 0 }
        return sums
    }

    /// The share of one item in the totals of its folder.
    init(of row: ItemRow, _ record: RecordState?) {
        self.init()
        guard !row.staysHere else { return }
        let isUploaded = row.isUploaded(record)
        if !isUploaded { values[5] = 1 }
        guard row.kind == .file else { return }
        values[0] = 1
        values[1] = row.size
        if row.isPlaceholder {
            values[2] = 1
            values[3] = row.size
        } else if row.isOutdated(record) {
            values[4] = 1
        }
        if !isUploaded { values[6] = row.size }
        if row.flags.contains(.downloadRequested) { values[7] = 1 }
    }
}

/// The part of the cloud's record of an item that its status depends on.
struct RecordState: Hashable {
    /// Nil if the item has no content.
    var version: VersionID?
    /// Whether the content itself is at the cloud.
    var isAvailable: Bool

    init(_ content: RemoteContent?) { self.init(version: content?.version, isAvailable: content?.isAvailable ?? false) }

    init(version: VersionID?, isAvailable: Bool) {
        self.version = version
        self.isAvailable = isAvailable
    }
}

/// The changes of rows and records that the stored totals do not reflect yet.
struct FolderChanges {
    enum After {
        case row(ItemRow)
        case gone
        /// Must be read from the database.
        case unknown
    }

    struct Item {
        /// Nil for a new item.
        var before: ItemRow?
        var after: After
    }

    struct Record {
        var before: RecordState?
        var after: RecordState?
        /// Whether `after` must be read from the database.
        var isUnknown = false
    }

    var items: [ItemKey: Item] = [:]
    var records: [ItemID: Record] = [:]
    /// Whether something changed that is not listed here. Then everything is counted again.
    var isIncomplete = false

    var isEmpty: Bool { items.isEmpty && records.isEmpty && !isIncomplete }

    /// Records a change of a row.
    ///
    /// - Parameters:
    ///   - before: The row before the change, as it was read; nil for a new item.
    ///   - after: Nil for a deleted item.
    ///   - isWhole: Whether the database has all of `after`, and not only its difference from `before`.
    ///   - stored: The row before the first change, if it is known better than `before`.
    mutating func note(
        _ key: ItemKey, before: ItemRow?, after: ItemRow?, isWhole: Bool = true, stored: () -> ItemRow? = { nil }
    ) {
        if let before, let after, !before.sharesOtherwise(than: after) { return }
        let after = isWhole ? after.map(After.row) ?? .gone : .unknown
        if items[key] == nil {
            items[key] = Item(before: stored() ?? before, after: after)
        } else {
            items[key]?.after = after
        }
    }

    mutating func note(_ id: ItemID, before: RecordState?, after: RecordState?) {
        if before == after, records[id] == nil { return }
        records[id, default: Record(before: before)].after = after
    }

    /// Adds the changes of the next transaction.
    mutating func add(_ next: FolderChanges) {
        for (key, item) in next.items { items[key, default: item].after = item.after }
        for (id, record) in next.records {
            records[id, default: record].after = record.after
            records[id]?.isUnknown = record.isUnknown
        }
        isIncomplete = isIncomplete || next.isIncomplete
    }
}
