package import UbiquityCore
package import UbiquityIndex

/// Makes a group of changes from dirty rows, in their order. Each change takes along the changes it depends on.
///
/// These are the creation of its folder, if the cloud does not have that yet, and the move or deletion of the item that
/// has its name at the cloud. The cloud checks names when the whole group is applied.
package struct Planner {
    private let reader: IndexReader
    private let prepared: [ItemKey: PreparedContent]
    private let limit: Int
    /// Whether a change is sent with another group, and so not with this one.
    private let isOwned: (ItemRow) throws -> Bool
    /// Whether a change waits for such a change. Example: a folder's deletion waits for an item moved out of it.
    private let isAwaited: (_ other: ItemRow, _ row: ItemRow) -> Bool
    /// Whether the cloud has refused a change. It is sent when its own retry is due, and not along with others.
    private let isRefused: (ItemRow) -> Bool
    private let deletionsUpTo: Int64
    /// Whether a folder's deletion takes along the items moved out of the folder.
    private let completesDeletions: Bool
    private var decisions = PlannerDecisions()
    /// The depth of nested additions, and the number of additions at the top level.
    private var depth = 0, units = 0
    package private(set) var group: [PlannedChange] = []
    /// Deleted rows that the cloud never had. They are removed without a commit.
    package private(set) var forgettable: [ItemRow] = []
    /// Rows whose changes cancel each other. They become clean without a commit.
    package private(set) var unchanged: [ItemRow] = []

    /// - Parameters:
    ///   - limit: changes in the group. Changes that others depend on may exceed it.
    ///   - deletionsUpTo: deletions after this position in the order of changes wait, and so do changes that depend on
    ///     them.
    ///   - completesDeletions: whether a folder's deletion takes along the items moved out of the folder.
    ///   - isOwned: changes that are not taken along. Changes that depend on them wait until they are sent.
    ///   - isAwaited: whether a row's change waits for such a change of another row.
    ///   - isRefused: whether the cloud has refused the row's creation. Then it is not taken along with others.
    package init(
        _ reader: IndexReader, prepared: [ItemKey: PreparedContent], limit: Int,
        deletionsUpTo: Int64 = .max, completesDeletions: Bool = true,
        isOwned: @escaping (ItemRow) throws -> Bool = { _ in false },
        isAwaited: @escaping (_ other: ItemRow, _ row: ItemRow) -> Bool = { _, _ in false },
        isRefused: @escaping (ItemRow) -> Bool = { _ in false }
    ) {
        self.isRefused = isRefused
        self.isAwaited = isAwaited
        self.deletionsUpTo = deletionsUpTo
        self.completesDeletions = completesDeletions
        self.isOwned = isOwned
        self.reader = reader
        self.prepared = prepared
        self.limit = limit
    }

    private var cloud: CloudKnowledge { CloudKnowledge(reader: reader) }

    package var isFull: Bool { group.count >= limit }

    /// Adds a row's change, if it has one to send now.
    package mutating func add(_ row: ItemRow) throws {
        depth += 1
        defer { depth -= 1 }
        guard !row.dirty.isEmpty, include(row) else { return }
        if depth == 1 { units += 1 }
        let before = (group.count, forgettable.count, unchanged.count)
        try addWithNamesakes(row)
        guard decisions.isBroken(depth: depth) else { return }
        withdraw(group[before.0...].map(\.row) + forgettable[before.1...] + unchanged[before.2...])
        group.removeSubrange(before.0...)
        forgettable.removeSubrange(before.1...)
        unchanged.removeSubrange(before.2...)
    }

    private mutating func withdraw(_ rows: [ItemRow]) {
        for row in rows { decisions.withdraw(row.key) }
    }

    private mutating func addWithNamesakes(_ row: ItemRow) throws {
        // Add from the end of the chain, so that each row finds its dependency decided. Added from its beginning, the
        // additions would nest up to 2000 deep and exceed the stack.
        let others = try includeNamesakes(of: row)
        if isOverfull, depth == 1, group.isEmpty { return try addLongChain(from: row) }
        for other in others.reversed() { try addIncluded(other) }
        try addIncluded(row)
    }

    private var isOverfull: Bool { decisions.count > Limits.maximumChangesPerCommit }

    /// Handles a chain of more items with each other's names than one commit takes. Its last items can be sent. In a
    /// cycle, one item takes a temporary name at the cloud, which breaks the cycle.
    private mutating func addLongChain(from row: ItemRow) throws {
        var last = row, end = [ItemRow]()
        for _ in 0..<SyncLimits.longestChain {
            guard let next = try namesake(of: last) else {
                end = Array(end.suffix(SyncLimits.changesPerCommit))
                decisions.removeAll()
                for other in end { _ = decisions.open(other.key, depth: depth) }
                for other in end.reversed() { try addIncluded(other) }
                return
            }
            if next.key == row.key {
                if let aside = try stepAside(row) { group.append(aside) }
                return
            }
            end.append(next)
            if end.count > 2 * SyncLimits.changesPerCommit { end.removeFirst(SyncLimits.changesPerCommit) }
            last = next
        }
    }

    private func stepAside(_ row: ItemRow) throws -> PlannedChange? {
        guard let entry = row.entry, let parent = try reader.row(key: entry.parent) else { return nil }
        var number = 2
        while try !reader.remoteOccupants(of: parent.id, named: entry.name.numbered(number)).isEmpty
            || reader.child(of: parent.key, named: entry.name.numbered(number)) != nil { number += 1 }
        var fields = ChangedFields(place: Place(parent: parent.id, name: entry.name.numbered(number)))
        fields.earlier = row.earlierTimes(of: fields)
        // The row has that name and otherwise the cloud's state. So after the commit its own name still counts as a
        // change, and nothing else counts as sent.
        var aside = row
        aside.entry?.name = entry.name.numbered(number)
        aside.dirty = .place
        aside.xattrs = try reader.remote(id: row.id)?.xattrs ?? []
        return PlannedChange(row: aside, change: change(of: row, .put(fields)), unit: units)
    }

    /// Marks a row as under examination. False if it is already decided or under examination, or if there are too many.
    private mutating func include(_ row: ItemRow) -> Bool {
        guard decisions.open(row.key, depth: depth) else { return false }
        if isOverfull { decisions.decide(row.key, goes: false) }
        return !isOverfull
    }

    /// The chain of items that block each other's names at the cloud. The first was moved or deleted here and still has
    /// at the cloud the name that `row` has here. The next one blocks that item's name, and so on. Files renamed in
    /// turn make long chains.
    private mutating func includeNamesakes(of row: ItemRow) throws -> [ItemRow] {
        var chain = [ItemRow](), last = row
        while let next = try namesake(of: last), include(next) {
            chain.append(next)
            last = next
        }
        return chain
    }

    private func namesake(of row: ItemRow) throws -> ItemRow? {
        guard !row.isDeleted, row.dirty.contains(.place), !row.dirty.contains(.created), let entry = row.entry,
            let parent = try reader.row(key: entry.parent), !parent.dirty.contains(.created)
        else { return nil }
        for occupant in try reader.remoteOccupants(of: parent.id, named: entry.name) where occupant.id != row.id {
            guard let other = try reader.row(id: occupant.id), !other.dirty.isEmpty else { continue }
            return try mayComeAlong(other) ? other : nil
        }
        return nil
    }

    private mutating func addIncluded(_ row: ItemRow) throws {
        try addChange(of: row)
        // A row's decision comes after everything that was taken along with it.
        let last = [group.last?.row.key, forgettable.last?.key, unchanged.last?.key]
        decisions.decide(row.key, goes: last.contains(row.key))
    }

    private mutating func addChange(of row: ItemRow) throws {
        if row.isDeleted { return try addDeletion(row) }
        // This cloud has no item that the changes could apply to.
        if !row.dirty.contains(.created), try reader.isOfAnotherCloud(row) { return unchanged.append(row) }
        guard let fields = try fields(of: row) else { return }
        guard fields != ChangedFields() else {
            // Only attributes can cancel out completely. A content that is not ready is still a change.
            if row.dirty == .xattrs { unchanged.append(row) }
            return
        }
        if fields.content != nil, try !addRemovedNames(of: row) { return }
        group.append(PlannedChange(row: row, change: change(of: row, .put(fields)), unit: units))
    }

    /// Takes along the removal of the file's hard links. If another item has a link's name now (a linked backup of a
    /// saved document), the old link must not show the file's next content.
    /// - Returns: false if the removal will be sent soon.
    private mutating func addRemovedNames(of file: ItemRow) throws -> Bool {
        for link in try reader.allLinks(to: file.id) where link.isDeleted {
            if try mayComeAlong(link) {
                try add(link)
            } else if isAwaited(link, file) {
                return false
            }
        }
        return true
    }

    private mutating func addDeletion(_ row: ItemRow) throws {
        let remote = try reader.remote(id: row.id)
        // Deleted or not, the item's creation may still be in flight. A later commit of this device stops it.
        let mayExist = remote?.isDeleted == false || row.flags.contains(.creationSent)
        guard mayExist else { return forgettable.append(row) }
        guard try !isHeld(row) else { return }
        // The cloud does not delete an item with another hard link, and would restore it here.
        for link in try reader.allLinks(to: row.id) where link.isDeleted {
            guard try !isHeld(link) else { return }
            try add(link)
            // There were too many.
            guard decisions.goes(link.key) else { return }
        }
        // Nor does it delete a folder with items in it, so deletions inside it are sent first or with it. A folder
        // becomes dirty when an item in it is created, so its position in the order precedes those of its items.
        if row.kind == .directory, try !addDeletions(in: row) { return }
        let deletion = remote.flatMap { known in
            known.isDeleted ? nil : DeletionMoment(of: row, known: known)
        }
        group.append(PlannedChange(row: row, change: change(of: row, .delete), deletion: deletion, unit: units))
    }

    /// - Returns: false if an item deleted or moved away here remains in the folder at the cloud after this group. Then
    ///   the deletion waits. For other items in it, the cloud decides about the folder.
    private mutating func addDeletions(in folder: ItemRow) throws -> Bool {
        for id in try reader.remoteChildren(of: folder.id, limit: Limits.maximumChangesPerCommit) {
            guard let row = try reader.row(id: id) else { continue }
            guard row.isDeleted else {
                if !row.dirty.isDisjoint(with: [.place, .created]), try !addMoved(row, from: folder) { return false }
                continue
            }
            guard try mayComeAlong(row) else { return false }
            guard decisions.count < Limits.maximumChangesPerCommit else { return false }
            try add(row)
            guard decisions.goes(row.key) else { return false }
        }
        return decisions.count < Limits.maximumChangesPerCommit
    }

    /// Takes along an item moved out of a deleted folder, with its dependencies. Otherwise the cloud keeps the folder,
    /// no other item gets its name, and `KeptDeletions` sends the deletion again.
    /// - Returns: false if the item will be sent soon. Then the folder waits.
    private mutating func addMoved(_ row: ItemRow, from folder: ItemRow) throws -> Bool {
        guard try mayComeAlong(row) else { return !isAwaited(row, folder) }
        guard completesDeletions else { return true }
        // More would not fit beside the other changes, which may need the folder's name.
        guard decisions.count < Limits.maximumChangesPerCommit / 2, depth < SyncLimits.deepestMove else { return true }
        try add(row)
        // The item may still wait for something else.
        return decisions.goes(row.key) || !isAwaited(row, folder)
    }

    private func mayComeAlong(_ row: ItemRow) throws -> Bool {
        try !isHeld(row) && !isOwned(row)
    }

    private func isHeld(_ row: ItemRow) throws -> Bool {
        try row.isDeleted && row.dirtyOrder > deletionsUpTo && !cloud.isUnknownDeletion(row)
    }

    private func change(of row: ItemRow, _ action: ItemChange.Action) -> ItemChange {
        ItemChange(
            id: row.id, kind: row.kind, baseRevision: row.dirty.contains(.created) ? .zero : row.dirtyBase,
            changedAt: row.dirtyAt, action: action)
    }

    /// The changed fields of a row. An item that waits for its place without an entry can send all other fields.
    private mutating func fields(of row: ItemRow) throws -> ChangedFields? {
        let isNew = row.dirty.contains(.created)
        // A new file that is still being written is not announced before it is closed or synced. Neither is a file that
        // a link takes along before its own turn.
        if isNew, row.isWriting, row.generation == 0, prepared[row.key] == nil { return nil }
        if isNew, row.dirty.contains(.content), row.nextVersion == nil { return nil }
        if isNew, prepared[row.key]?.generation != row.generation, try cloud.comesWithContent(row) { return nil }
        var fields = ChangedFields()
        if isNew || row.dirty.contains(.place) {
            guard let entry = row.entry, let parent = try place(row, entry) else { return nil }
            fields.place = Place(parent: parent, name: entry.name)
        }
        if isNew || row.dirty.contains(.mode) { fields.mode = row.mode }
        if isNew || row.dirty.contains(.times) {
            fields.createdAt = row.createdAt
            fields.modifiedAt = row.modifiedAt
        }
        if isNew || row.dirty.contains(.xattrs) {
            let known = isNew ? [] : try reader.remote(id: row.id)?.xattrs ?? []
            (fields.xattrsSet, fields.xattrsRemoved) = Overlay.difference(from: known, to: row.xattrs)
            // Attributes of a held record are not shown yet: their absence here is no removal.
            if !isNew, try reader.isRecord(row.id, .awaitingPackage) {
                fields.xattrsRemoved.removeAll { name in !row.dirtyTimes.contains { $0.field == .xattr(name) } }
            }
        }
        if isNew, row.kind == .symlink || row.kind == .hardLink { fields.linkTarget = row.linkTarget }
        if isNew, row.kind == .hardLink, try !addLinked(row) { return nil }
        fields.content = content(of: row, isNew: isNew)
        if fields.content == nil, row.dirty.contains(.content), !isNew {
            // The times belong to the content that is not ready yet, and are sent with it.
            fields.createdAt = nil
            fields.modifiedAt = nil
        }
        if !isNew { fields.earlier = row.earlierTimes(of: fields) }
        return fields
    }

    /// The new content if it is ready, or the announcement of a new file.
    private func content(of row: ItemRow, isNew: Bool) -> ContentChange? {
        guard row.kind == .file, row.dirty.contains(.content), let version = row.nextVersion else { return nil }
        if let ready = prepared[row.key], ready.generation == row.generation {
            return ContentChange(version: version, baseVersion: row.version, size: ready.size, manifest: ready.manifest)
        }
        guard isNew else { return nil }
        return ContentChange(version: version, baseVersion: nil, size: row.size, manifest: nil)
    }

    /// Adds the target of a new hard link before the link.
    /// - Returns: false if the target cannot be sent yet. Then the link waits.
    private mutating func addLinked(_ link: ItemRow) throws -> Bool {
        guard let linked = try reader.named(link), !linked.isExcluded else { return false }
        let isNew = linked.dirty.contains(.created)
        guard try isNew || cloud.comesBack(linked) else { return true }
        func goes(_ change: PlannedChange) -> Bool {
            change.row.key == linked.key && (isNew || change.hasWholeContent)
        }
        if group.contains(where: goes) { return true }
        guard try !isRefused(linked) && mayComeAlong(linked) else { return false }
        try add(linked)
        return group.contains(where: goes)
    }

    /// The folder's id, after adding the changes that the place depends on.
    private mutating func place(_ row: ItemRow, _ entry: ItemRow.Entry) throws -> ItemID? {
        guard let parent = try reader.row(key: entry.parent) else { return nil }
        if parent.dirty.contains(.created) {
            guard decisions.goes(parent.key) || !isRefused(parent) else { return nil }
            try add(parent)
            // The folder itself waits, so the cloud would not know it.
            guard decisions.goes(parent.key) else { return nil }
        }
        for occupant in try reader.remoteOccupants(of: parent.id, named: entry.name) where occupant.id != row.id {
            guard let other = try reader.row(id: occupant.id), !other.dirty.isEmpty else { continue }
            guard try mayComeAlong(other) else { return nil }
            try add(other)
            // The other item still has the name at the cloud.
            if other.isDeleted || other.dirty.contains(.place), !decisions.goes(other.key) { return nil }
        }
        return try addWayOut(of: row, to: parent) ? parent.id : nil
    }

    /// Handles a folder moved into one that is still inside it at the cloud, because that one was moved out of it here.
    /// Sent alone, the move would make a cycle, and the cloud would undo it. The other folder's move is sent with it.
    /// - Returns: false if that move waits. Then this one waits too.
    private mutating func addWayOut(of folder: ItemRow, to parent: ItemRow) throws -> Bool {
        guard folder.kind == .directory, try cloud.isAtCloud(folder) else { return true }
        var tried: Set<ItemKey> = []
        while let moved = try movesWithin(folder, above: parent) {
            // The cloud decides about moves of other devices.
            guard let next = moved.first(where: { !tried.contains($0.key) }) else { return moved.isEmpty }
            tried.insert(next.key)
            // Another folder's move may resolve the cycle as well.
            guard try mayComeAlong(next), !isRefused(next) else { continue }
            try add(next)
        }
        return true
    }

    /// Follows the ancestors of a folder as they will be at the cloud.
    /// - Returns: nil if `folder` is no ancestor. Otherwise the folders in between that were moved here and are not
    ///   sent.
    private mutating func movesWithin(_ folder: ItemRow, above parent: ItemRow) throws -> [ItemRow]? {
        var moved = [ItemRow](), current = parent
        for _ in 0..<Limits.maximumDepth {
            if current.key == folder.key { return moved }
            guard current.key != .root else { return nil }
            let isNew = try !cloud.isAtCloud(current), isMoved = !isNew && current.dirty.contains(.place)
            var next: ItemRow?
            if let entry = current.entry, isNew || isMoved && decisions.goes(current.key) {
                next = try reader.row(key: entry.parent)
            } else if let above = try reader.remoteParent(of: current.id) {
                if isMoved { moved.append(current) }
                next = try reader.row(id: above)
            }
            guard let next else { return nil }
            current = next
        }
        return nil
    }
}
