import GRDB
internal import UbiquityCore

/// Updates the stored totals of folders by the changes of rows.
///
/// A folder's totals change in three ways: an item in it changes its share, a folder moves into or out of it, or one of
/// these happens further down. First, each moved folder, with its stored totals, is subtracted from the folders that
/// held it. Then the parts are added in the tree as it is now. Last, the changed shares are added, each from its folder
/// upwards.
struct FolderUpdate {
    private enum Time { case before, after }

    private let reader: IndexReader
    private let connection: Database
    private let records: [ItemID: FolderChanges.Record]
    /// The changed rows, before and after.
    private let items: [ItemKey: (before: ItemRow?, after: ItemRow?)]
    /// Items with greater keys have not been counted yet (`FolderCount`).
    private let counted: Int64
    private var former: [ItemID: ItemRow] = [:]
    private var parents: [ItemKey: ItemKey?] = [:]
    private var stored: [ItemKey: FolderSums] = [:]
    /// Per folder, the sum of the changed shares of its direct members.
    private var shares: [ItemKey: FolderSums] = [:]
    /// Per folder, the change of its totals.
    private var changes: [ItemKey: FolderSums] = [:]

    /// - Parameter connection: The connection that has run all statements of the changes.
    init(_ found: FolderChanges, _ connection: Database, counted: Int64) throws {
        self.connection = connection
        self.counted = counted
        let reader = IndexReader(connection)
        self.reader = reader
        records = found.records
        items = try found.items.reduce(into: [:]) { items, item in
            let after: ItemRow?
            switch item.value.after {
            case .row(let row): after = row
            case .gone: after = nil
            case .unknown: after = try reader.row(key: item.key)
            }
            items[item.key] = (item.value.before, after)
        }
        for item in items.values { if let row = item.before, row.kind != .directory { former[row.id] = row } }
    }

    /// Makes an update from known shares.
    init(shares: [ItemKey: FolderSums], _ connection: Database) {
        self.shares = shares
        self.connection = connection
        reader = IndexReader(connection)
        (records, items, counted) = ([:], [:], 0)
    }

    mutating func run() throws {
        for (key, item) in items where key.rawValue <= counted {
            try share(item.before, .before) { $0 -= $1 }
            try share(item.after, .after) { $0 += $1 }
        }
        try shareRecordsAndNames()
        try moveFolders()
        for (folder, sum) in shares where !sum.isZero { try add(sum, from: folder) }
        try write()
    }

    // MARK: Shares

    private mutating func share(
        _ row: ItemRow?, _ time: Time, _ body: (inout FolderSums, FolderSums) -> Void
    ) throws {
        guard let row, let parent = row.entry?.parent else { return }
        var sum = FolderSums(of: row, try record(of: row, time))
        if row.kind == .hardLink, !row.staysHere, let id = row.linkedID { sum += try name(of: target(id, time), time) }
        body(&shares[parent, default: FolderSums()], sum)
    }

    private func name(of target: ItemRow?, _ time: Time) throws -> FolderSums {
        guard let target, !target.isDeleted else { return FolderSums() }
        return FolderSums(of: target, try record(of: target, time)).withoutBytes
    }

    private func record(of row: ItemRow, _ time: Time) throws -> RecordState? {
        guard row.sharesByRecord else { return nil }
        guard let change = records[row.id] else { return try reader.remotes.recordState(of: row.id) }
        if time == .before { return change.before }
        return change.isUnknown ? try reader.remotes.recordState(of: row.id) : change.after
    }

    /// Returns the item with this id, which hard links refer to.
    private func target(_ id: ItemID, _ time: Time) throws -> ItemRow? {
        if time == .before, let row = former[id] { return row }
        guard let row = try reader.row(id: id) else { return nil }
        // The item is new, or had another id before.
        if time == .before, items[row.key] != nil { return nil }
        return row
    }

    /// Adds the changed shares of items whose own rows did not change: their records did, or the files of their hard
    /// links.
    private mutating func shareRecordsAndNames() throws {
        var linked = Set<ItemID>()
        var changed = Set<ItemID>()
        for item in items.values {
            for row in [item.before, item.after].compactMap({ $0 }) {
                changed.insert(row.id)
                if row.isLinked { linked.insert(row.id) }
            }
        }
        for id in records.keys where !changed.contains(id) {
            guard let row = try reader.row(id: id) else { continue }
            if row.isLinked { linked.insert(id) }
            // Every other item's share is independent of its record. A hard link's share is its file's, and is handled
            // below.
            guard row.sharesByRecord, row.key.rawValue <= counted else { continue }
            try share(row, .before) { $0 -= $1 }
            try share(row, .after) { $0 += $1 }
        }
        for id in linked {
            var change = try name(of: target(id, .after), .after)
            change -= try name(of: target(id, .before), .before)
            guard !change.isZero else { continue }
            for link in try reader.allLinks(to: id) where items[link.key] == nil {
                guard let parent = link.entry?.parent, !link.staysHere, link.key.rawValue <= counted else { continue }
                shares[parent, default: FolderSums()] += change
            }
        }
    }

    // MARK: Folders

    private mutating func moveFolders() throws {
        let moved = items.filter { _, item in
            (item.before ?? item.after)?.kind == .directory && item.before?.entry?.parent != item.after?.entry?.parent
        }
        for (folder, item) in moved {
            let sum = try sums(of: folder)
            guard !sum.isZero, var above = item.before?.entry?.parent else { continue }
            for _ in 0...Limits.maximumDepth {
                changes[above, default: FolderSums()] -= sum
                // This folder moves too, with everything it had.
                guard moved[above] == nil, let next = try parent(of: above) else { break }
                above = next
            }
        }
        let parts = try moved.keys.map { folder in
            var sum = try sums(of: folder)
            sum += changes[folder] ?? FolderSums()
            return (folder, sum)
        }
        for (folder, sum) in parts where !sum.isZero {
            if let above = moved[folder]?.after?.entry?.parent { try add(sum, from: above) }
        }
    }

    /// Adds to a folder and all folders above it.
    private mutating func add(_ sum: FolderSums, from folder: ItemKey) throws {
        var folder = folder
        // A damaged tree may have a cycle.
        for _ in 0...Limits.maximumDepth {
            changes[folder, default: FolderSums()] += sum
            guard let next = try parent(of: folder) else { return }
            folder = next
        }
    }

    private mutating func parent(of folder: ItemKey) throws -> ItemKey? {
        if folder == .root { return nil }
        if let known = parents[folder] { return known }
        let parent = try connection.first("SELECT parent FROM entries WHERE item = ?", [SQLValue(folder)]) {
            ItemKey($0.int(0))
        }
        parents.updateValue(parent, forKey: folder)
        return parent
    }

    /// Returns the stored totals before this update.
    private mutating func sums(of folder: ItemKey) throws -> FolderSums {
        if let known = stored[folder] { return known }
        let found = try reader.folders.storedSums(of: folder)
        stored[folder] = found
        return found
    }

    private mutating func write() throws {
        for (folder, change) in changes where !change.isZero {
            var sum = try sums(of: folder)
            sum += change
            try connection.run(
                sum.isZero ? FolderCount.forget : FolderCount.store,
                [SQLValue(folder)] + (sum.isZero ? [] : FolderSums.columns.indices.map { .int(sum.values[$0]) }))
        }
        for (folder, item) in items where item.after == nil && item.before?.kind == .directory {
            try connection.run(FolderCount.forget, [SQLValue(folder)])
        }
    }
}
