package import UbiquityCore
package import UbiquityIndex

/// Applies remote records to the local tree, inside one transaction of the index.
///
/// A record remains *unsettled* while its parent is unknown, another item has its name, or its content is not here. It
/// is tried again after the page, after a commit, and after a writer's close. So the order of records does not matter.
/// Uncommitted local changes are never overwritten: the cloud decides when it gets them.
package struct Settler {
    /// Why records are refused that need more steps than the limit.
    package static let circle = "the cloud's records lead in a circle"

    let transaction: IndexTransaction
    let owner: (uid: UInt32, gid: UInt32)
    let now: Timestamp
    /// Whether set-user-id and set-group-id bits are accepted from other devices (`Privileges`).
    let trustsPrivileges: Bool
    /// Backing files that are unreferenced once the transaction is committed.
    package private(set) var dropped: [ContentID] = []
    /// Whether items that the cloud does not have give up their names for records, and get others.
    var movesLocalAside = false
    /// Whether some package is held. Nil until it is queried.
    var holdsPackages: Bool?
    private let checksRecords: Bool
    /// How often records may still be tried in this transaction.
    private var stepsLeft: Int
    /// Records that were ignored because they break `RecordRules`, with the broken rule.
    package private(set) var ignored: [(item: ItemID, reason: String)] = []

    /// - Parameter stepLimit: How often records may be tried in the transaction. A feed that needs more is refused.
    package init(
        _ transaction: IndexTransaction, owner: (uid: UInt32, gid: UInt32), now: Timestamp,
        trustsPrivileges: Bool = false, checksRecords: Bool = true, stepLimit: Int = SyncLimits.settlingSteps
    ) {
        self.checksRecords = checksRecords
        stepsLeft = stepLimit
        self.transaction = transaction
        self.owner = owner
        self.now = now
        self.trustsPrivileges = trustsPrivileges
    }

    var news: RecordNews { RecordNews(transaction: transaction) }

    private var links: LinkTargets { LinkTargets(transaction: transaction, now: now) }

    private var abandoned: AbandonedFolders {
        AbandonedFolders(transaction: transaction, now: now, trustsPrivileges: trustsPrivileges)
    }

    /// Removes the folders that were deleted elsewhere and that nothing keeps any more.
    package func removeLingering(limit: Int) throws { try abandoned.remove(limit: limit) }

    mutating func drop(_ content: ContentID) throws {
        try transaction.forgetContent(content)
        dropped.append(content)
    }

    /// Applies a record from the feed or from a commit's answer. A record older than the known one changes nothing.
    package mutating func receive(_ item: RemoteItem) throws {
        guard try admit(item) else { return }
        let wasLocal = try separateLocal(item.id)
        try apply(item)
        // Local hard links to the item now refer to the cloud's item.
        if wasLocal { try transaction.touchLinked(item.id, now: now) }
    }

    /// Whether the record obeys the rules. If so, a local item of another kind with its id is separated from it.
    mutating func admit(_ item: RemoteItem) throws -> Bool {
        guard item.id != .root else { return false }
        guard checksRecords else { return true }
        if let reason = RecordRules.violation(of: item, known: try transaction.remote(id: item.id)) {
            ignored.append((item.id, reason))
            // Otherwise the end of a snapshot would take the item for deleted.
            try transaction.noteInSnapshot(item.id)
            return false
        }
        if let content = try KindConflict(transaction: transaction, now: now).resolve(with: item) { try drop(content) }
        return true
    }

    private mutating func apply(_ item: RemoteItem) throws {
        if try isHeld(item.id) { return try hold(item) }
        let old = try transaction.remote(id: item.id)
        if let old, old.revision >= item.revision, old.isDeleted == item.isDeleted {
            return try transaction.noteInSnapshot(item.id)
        }
        try transaction.setRemote(item, state: .waiting)
        try overlay(item, old: old)
        try settle(item.id)
        try news.announceVersions(of: item, old: old)
        try news.announceOutdated(item, old: old)
    }

    /// Shows the known record in every field that is clean now. Call it after a commit: the feed may have reported the
    /// outcome before the answer arrived.
    package mutating func review(_ id: ItemID) throws {
        guard let item = try transaction.remote(id: id), try !isHeld(id) else { return }
        try overlay(item, old: item)
        try settle(id)
        try settleWaiting(in: item)
    }

    /// Places the records that waited for this folder, because a local folder may have just taken its identity.
    mutating func settleWaiting(in item: RemoteItem) throws {
        guard item.kind == .directory, try transaction.row(id: item.id)?.entry != nil else { return }
        for child in try transaction.recordsWaiting(in: item.id) { try settle(child) }
    }

    func overlay(_ item: RemoteItem, old: RemoteItem?) throws {
        guard let row = try transaction.row(id: item.id), !row.isDeleted, !item.isDeleted else { return }
        var merged = Overlay.metadata(
            row, old: old, new: item, keepTimes: keepsTimes(row, item), trustsPrivileges: trustsPrivileges)
        guard merged != row else { return }
        merged.changedAt = now
        merged.flags.remove(.madeHere)
        try transaction.update(merged, before: row)
        transaction.note(.attributes, before: row, after: merged)
    }

    /// Whether the row keeps the size and times of its local content, because the record's content is not downloaded
    /// yet.
    private func keepsTimes(_ row: ItemRow, _ item: RemoteItem) -> Bool {
        row.contentState == .complete && row.version != item.content?.version
    }

    /// Tries unsettled records until a round places none.
    package mutating func settleAll(limit: Int) throws {
        var before = Int.max
        while true {
            let ids = try transaction.records(.waiting, limit: limit)
            guard !ids.isEmpty, ids.count < before || ids.count == limit && before == Int.max else { return }
            before = ids.count
            for id in ids { try settle(id) }
        }
    }

    /// Applies an item's record as far as possible now, and then the records that waited for it. It is a loop, because
    /// a listing may list nested folders from the innermost outwards.
    package mutating func settle(_ id: ItemID) throws {
        var waiting = [id]
        while let next = waiting.popLast() { waiting += try settleOne(next).reversed() }
    }

    /// - Returns: the records that waited for it and can be tried now.
    private mutating func settleOne(_ id: ItemID) throws -> [ItemID] {
        guard stepsLeft > 0 else {
            throw UbiquityError(.damaged, Self.circle, remedy: "the cloud's data is damaged")
        }
        stepsLeft -= 1
        guard let item = try transaction.remote(id: id), try !isHeld(id) else { return [] }
        // A correct cloud refuses the name of the versions folder. If one sends it all the same, the item is never
        // shown.
        guard item.name != .versionsFolder else {
            try transaction.setState(id, .settled)
            return []
        }
        let row = try transaction.row(id: id)
        let state: SettlingState =
            switch (row, item.isDeleted) {
            case (nil, true): try forgetTombstone(id)
            case (nil, false): try add(item) ? .settled : waiting(item)
            case (let row?, true): try followDeletion(row, id) ? .settled : .waiting
            case (let row?, false): try follow(item, row)
            }
        try transaction.setState(id, state)
        // A new folder takes in the records that waited for it. So each record is tried when it can succeed, whatever
        // the order of the listing.
        if row == nil, item.kind != .directory, !item.isDeleted {
            // Only a newly added item triggers its links, so the loop in `settle` ends.
            return try transaction.row(id: id) == nil ? [] : transaction.linksWaiting(for: id)
        }
        guard item.kind == .directory, !item.isDeleted, row?.entry == nil, try transaction.row(id: id)?.entry != nil
        else { return [] }
        return try transaction.recordsWaiting(in: id)
    }

    /// How the record waits: for its folder, or for something else (a name, a link's target), which is retried
    /// periodically. A link's target may be here but deleted, and can return in many ways.
    private func waiting(_ item: RemoteItem) throws -> SettlingState {
        guard let parent = try transaction.row(id: item.parent), !parent.isDeleted,
            parent.key == .root || parent.entry != nil
        else { return .awaitingParent }
        return .waiting
    }

    private func forgetTombstone(_ id: ItemID) throws -> SettlingState {
        try transaction.forgetRemote(id)
        return .settled
    }

    // MARK: Additions and changes

    private mutating func add(_ item: RemoteItem) throws -> Bool {
        if try abandoned.adopt(item) { return true }
        guard try links.isHere(item) else { return false }
        guard let entry = try freePlace(for: item, row: nil) else { return false }
        var row = Overlay.newRow(
            item, key: ItemKey(transaction.newNumber()), owner: owner, now: now, trustsPrivileges: trustsPrivileges)
        row.entry = entry
        row.wantIgnoreFile()
        try transaction.inheritPin(&row)
        try transaction.insert(row)
        transaction.note(.added, before: nil, after: row)
        try transaction.touchLinked(row.linkedID, now: now)
        return true
    }

    private mutating func follow(_ item: RemoteItem, _ row: ItemRow) throws -> SettlingState {
        guard !row.isDeleted else { return .settled }
        var row = row
        if row.flags.contains(.lingering) {
            let before = row
            row.flags.remove(.lingering)
            try transaction.update(row, before: before)
        }
        // A record is no longer held once another item has taken the name of its row, so it is shown now.
        if row.entry == nil {
            try overlay(item, old: item)
            row = try transaction.row(key: row.key) ?? row
        }
        let leads = try links.follow(item, &row)
        let isPlaced = try followPlace(item, &row) && leads
        let hasContent = try followContent(item, row)
        return isPlaced ? (hasContent ? .settled : .awaitingContent) : try waiting(item)
    }

    private mutating func followPlace(_ item: RemoteItem, _ row: inout ItemRow) throws -> Bool {
        if row.dirty.contains(.place) || row.dirty.contains(.created), row.entry != nil { return true }
        if let entry = row.entry, entry.name == item.name,
            try transaction.row(key: entry.parent)?.id == item.parent
        {
            return true
        }
        // A link without a place is not placed while its target has none.
        guard try row.entry != nil || links.isHere(item) else { return false }
        guard let entry = try freePlace(for: item, row: row) else { return false }
        let before = row
        row.entry = entry
        row.changedAt = now
        row.flags.remove(.madeHere)
        try transaction.inheritPin(&row)
        row.wantIgnoreFile()
        try transaction.update(row, before: before)
        transaction.note(before.entry == nil ? .added : .moved, before: before, after: row)
        try transaction.passPin(of: row, before: before)
        if before.entry == nil { try transaction.touchLinked(row.linkedID, now: now) }
        try transaction.includeAfterMove(row, from: before, now: now)
        return true
    }

    /// The entry that the record asks for, if its parent is here and the name is free or can be freed now.
    private mutating func freePlace(for item: RemoteItem, row: ItemRow?) throws -> ItemRow.Entry? {
        guard let parent = try transaction.row(id: item.parent), !parent.isDeleted, parent.kind == .directory,
            parent.key == .root || parent.entry != nil
        else { return nil }
        // The folder's own record is placed beside the local folder later.
        guard try !parent.isExcluded || !separateLocal(item.parent) else { return nil }
        if let row, row.kind == .directory {
            // A folder that a hostile cloud moves beyond the maximum depth waits without a place.
            guard let isWithin = try transaction.isWithinReach(parent.key, row.key) else { return nil }
            if isWithin {
                try undoMoves(from: parent.key, to: row.key)
                guard try transaction.isWithinReach(parent.key, row.key) == false else { return nil }
            }
        }
        let entry = ItemRow.Entry(parent: parent.key, name: item.name)
        guard let other = try transaction.child(of: parent.key, named: item.name), other.key != row?.key else {
            return entry
        }
        return try displace(other) ? entry : nil
    }

    /// Frees the name of an item that the cloud has elsewhere or has deleted. The item waits without an entry for its
    /// own place or its deletion. An item that has the name by a local change keeps it: the cloud decides between the
    /// two at the commit.
    private mutating func displace(_ other: ItemRow) throws -> Bool {
        if other.isExcluded {
            // An excluded item may be uploaded in a moment, if the ignore rules have changed too. It keeps its name
            // until the record has waited for a while.
            guard let name = other.entry?.name,
                movesLocalAside || transaction.isLocalEverywhere(name, other.kind)
            else { return false }
            return try moveAside(other)
        }
        if other.flags.contains(.lingering) { return try moveAside(other) }
        guard other.dirty.intersection([.created, .place]).isEmpty, let entry = other.entry else { return false }
        guard let remote = try transaction.remote(id: other.id) else {
            // The placeholder of another cloud stays, because its content may return. It only loses its name.
            return try movesLocalAside && transaction.isOfAnotherCloud(other) && moveAside(other)
        }
        if remote.isDeleted {
            switch try abandoned.contents(in: other) {
            case .changed: return false
            // The folder remains for the excluded items. Other items in it leave, perhaps to its name.
            case .excluded: return try moveAside(other)
            case .nothing: break
            }
        } else {
            let isElsewhere = try remote.name != entry.name || transaction.row(key: entry.parent)?.id != remote.parent
            guard isElsewhere else { return false }
        }
        try transaction.detach(other)
        return true
    }

    /// Undoes local moves that put `key` below `ancestor` if the cloud has moved `ancestor` below `key`: the cloud's
    /// move came first.
    private func undoMoves(from key: ItemKey, to ancestor: ItemKey) throws {
        var key = key
        for _ in 0..<Limits.maximumDepth where key != ancestor && key != .root {
            guard let row = try transaction.row(key: key), let entry = row.entry else { return }
            if row.dirty.contains(.place) { return try transaction.detach(row) }
            key = entry.parent
        }
    }

    // MARK: Content

    /// - Returns: false while a newer content waits to be downloaded in place of the local one.
    private mutating func followContent(_ item: RemoteItem, _ row: ItemRow) throws -> Bool {
        guard row.kind == .file, let content = item.content, !row.dirty.contains(.content) else { return true }
        if row.version == content.version {
            if row.contentState == .none, row.size != content.size {
                var resized = row
                resized.size = content.size
                try transaction.update(resized, before: row)
                transaction.note(.attributes, before: row, after: resized)
            }
            return true
        }
        switch row.contentState {
        case .complete: return false
        case .none, .partial:
            try becomePlaceholder(row, of: item, content)
            return true
        }
    }

    /// Makes the row show the record's version. Programs that read an older partial content keep their handle.
    mutating func becomePlaceholder(_ row: ItemRow, of item: RemoteItem, _ content: RemoteContent) throws {
        var next = row
        next.version = content.version
        next.size = content.size
        next.changedAt = now
        next.contentState = .none
        next.wantIgnoreFile()
        if !trustsPrivileges { next.dropPrivileges() }
        if !row.dirty.contains(.times) {
            next.modifiedAt = item.modifiedAt
            next.createdAt = item.createdAt
        }
        if let partial = row.content {
            try drop(partial)
            next.content = nil
        }
        // A new content is a new file, so that watchers are notified, even if no old content is here.
        next.ino = UInt64(transaction.newNumber())
        try transaction.update(next, before: row)
        transaction.note(.replaced, before: row, after: next)
        try transaction.noteOtherNames(of: next)
    }

    // MARK: Deletions

    private mutating func followDeletion(_ row: ItemRow, _ id: ItemID) throws -> Bool {
        if row.isDeleted {
            // The row is from an earlier deletion. A commit that restores the item may still be in flight and must be
            // stopped.
            if row.flags.contains(.creationSent) { return true }
            try transaction.delete(row)
            try transaction.forgetRemote(id)
            return true
        }
        // A local edit or a new child wins over the deletion: the cloud restores the item at the commit.
        if row.dirty.contains(.content) || row.dirty.contains(.created) { return true }
        if row.isWriting { return false }
        for content in try abandoned.removePlaceholders(in: row) { try drop(content) }
        if try transaction.hasChildren(row.key) { return try abandoned.linger(row) }
        if row.isLinked, try keepForOtherNames(row) { return false }
        if let content = row.content { try drop(content) }
        try transaction.delete(row)
        transaction.note(.removed, before: row, after: nil)
        try transaction.forgetRemote(id)
        try transaction.touchLinked(row.linkedID, now: now)
        return true
    }

    /// Whether a deleted item remains for another hard link. The link may be unknown to the cloud, which then restores
    /// the item, or its deletion may not be read yet. An excluded link takes over the item.
    private func keepForOtherNames(_ row: ItemRow) throws -> Bool {
        let links = try transaction.links(to: row.id)
        return try links.contains { !$0.isExcluded } || transaction.moveToOtherName(row, now: now)
    }
}
