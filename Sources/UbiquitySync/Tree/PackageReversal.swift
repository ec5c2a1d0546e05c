internal import UbiquityCore
internal import UbiquityIndex

/// Replaces the local state of a package by the cloud's, after the local state has lost. Rows created here are removed.
struct PackageReversal {
    /// The settler of the transaction. It has the contents that were dropped.
    private(set) var settler: Settler
    private let device: DeviceID

    /// - Parameter device: this device.
    init(_ settler: Settler, device: DeviceID) {
        self.settler = settler
        self.device = device
    }

    private var transaction: IndexTransaction { settler.transaction }
    private var now: Timestamp { settler.now }

    /// Reverts a package to the cloud's state.
    /// - Parameter held: the cloud's records in another package, which needs a decision as well.
    mutating func revert(_ meeting: PackageMeeting, holding held: Set<ItemID>) throws {
        for row in meeting.deleted { try forget(row) }
        let members = Set(meeting.rows.map(\.key))
        let synced = Set(meeting.rows.filter { !$0.isExcluded }.map(\.key))
        // From the innermost outwards.
        for row in meeting.rows.dropFirst().reversed() {
            guard let now = try transaction.row(key: row.key), try !keepsOutside(now, members) else { continue }
            let isOutside = meeting.departed[now.id].map { !$0.isDeleted } ?? false
            // An item that the cloud has outside the package is a document of its own. Its local changes merge as for
            // any other item.
            let kept = isOutside ? now.dirty.subtracting([.created, .place])
                : try isWaitedFor(now) ? .content : []
            if now.dirty.contains(.created), kept.isEmpty, !isOutside, try !isAtCloud(now) {
                try remove(now, synced)
            } else {
                try followCloud(now, keeping: kept, isOutside: isOutside, isHeld: held.contains(now.id))
            }
        }
    }

    /// Whether the item to be created exists at the cloud already. Another commit has created it, and its answer did
    /// not find the row unchanged.
    private func isAtCloud(_ row: ItemRow) throws -> Bool {
        try transaction.remote(id: row.id).map { !$0.isDeleted } ?? false
    }

    private func isPlaced(_ row: ItemRow, as item: RemoteItem) throws -> Bool {
        guard let entry = row.entry, entry.name == item.name else { return false }
        return try transaction.row(key: entry.parent)?.id == item.parent
    }

    /// Moves a changed file to its name outside the package, if the cloud's state lacks the file.
    private func keepsOutside(_ row: ItemRow, _ members: Set<ItemKey>) throws -> Bool {
        guard row.dirty.contains(.content), row.isLinked, try transaction.remote(id: row.id)?.isDeleted == true else {
            return false
        }
        return try transaction.moveToOtherName(row, than: members, now: now)
    }

    /// Whether the cloud's state waits for a content that only this device has. It was announced from here and never
    /// uploaded, perhaps because it changed before.
    private func isWaitedFor(_ row: ItemRow) throws -> Bool {
        guard row.kind == .file, row.dirty.contains(.content), let item = try transaction.remote(id: row.id),
            !item.isDeleted, let content = item.content
        else { return false }
        return !content.isAvailable && content.device == device
    }

    /// Undoes a deletion that has lost: the record creates the item anew.
    private mutating func forget(_ row: ItemRow) throws {
        guard let now = try transaction.row(key: row.key), now.isDeleted else { return }
        if let content = now.content { try settler.drop(content) }
        try transaction.delete(now)
        if try transaction.remote(id: now.id) != nil { try transaction.setState(now.id, .waiting) }
    }

    private mutating func remove(_ row: ItemRow, _ members: Set<ItemKey>) throws {
        if row.kind == .directory, try transaction.hasChildren(row.key) { return }
        // A target with another hard link outside the package, or an excluded one, does not belong to the package
        // alone.
        if row.isLinked, try transaction.moveToOtherName(row, than: members, now: now) { return }
        if let content = row.content { try settler.drop(content) }
        try transaction.delete(row)
        transaction.note(.removed, before: row, after: nil)
        try transaction.touchLinked(row.linkedID, now: now)
    }

    private mutating func followCloud(
        _ row: ItemRow, keeping kept: DirtyFields, isOutside: Bool, isHeld: Bool
    ) throws {
        guard !row.isExcluded, let item = try transaction.remote(id: row.id) else { return }
        var next = row
        next.dirty = kept
        if !kept.contains(.content) { next.nextVersion = nil }
        next.flags.remove(.returned)
        // The place of an item to be created is not recorded as a change of its own.
        let isMoved = try row.dirty.contains(.place)
            || row.dirty.contains(.created) && (isOutside || !isPlaced(row, as: item))
        // A folder deleted at the cloud remains in its place while it contains excluded items.
        let isKept = try isMoved && item.isDeleted && row.kind == .directory && transaction.hasChildren(row.key)
        if isMoved, !isKept { next.entry = nil }
        if next != row { try transaction.update(next, before: row) }
        if isMoved, !isKept { transaction.note(.removed, before: row, after: nil) }
        if !item.isDeleted, row.kind == .file, !kept.contains(.content), let content = item.content,
            row.dirty.contains(.content) || row.version != content.version
        {
            try settler.becomePlaceholder(next, of: item, content)
        }
        if isHeld { return }
        try transaction.setState(row.id, .waiting)
        if !item.isDeleted, let shown = try transaction.row(id: row.id) {
            let merged = Overlay.metadata(
                shown, old: nil, new: item, keepTimes: false, trustsPrivileges: settler.trustsPrivileges)
            guard merged != shown else { return }
            try transaction.update(merged, before: shown)
            transaction.note(.attributes, before: shown, after: merged)
        }
    }
}
