package import UbiquityCore

/// A reader, or a transaction: both answer queries.
///
/// The methods lead other modules to the tables. The methods there have the same names, and the documentation.
package protocol IndexQueries {
    var reader: IndexReader { get }
}

// ItemTable
extension IndexQueries {
    package func row(key: ItemKey) throws -> ItemRow? { try reader.items.row(key: key) }
    package func row(ino: UInt64) throws -> ItemRow? { try reader.items.row(ino: ino) }
    package func child(of parent: ItemKey, named name: ItemName) throws -> ItemRow? {
        try reader.items.child(of: parent, named: name)
    }
    package func row(id: ItemID) throws -> ItemRow? { try reader.items.row(id: id) }
    package func row(content: ContentID) throws -> ItemRow? { try reader.items.row(content: content) }
    package func children(of parent: ItemKey, after name: ItemName?, limit: Int) throws -> [ItemRow] {
        try reader.items.children(of: parent, after: name, limit: limit)
    }
    package func hasChildren(_ parent: ItemKey) throws -> Bool { try reader.items.hasChildren(parent) }
    package func directoryCount(in parent: ItemKey) throws -> Int { try reader.items.directoryCount(in: parent) }
    package func path(of key: ItemKey) throws -> [ItemName]? { try reader.items.path(of: key) }
    package func row(path: [ItemName]) throws -> ItemRow? { try reader.items.row(path: path) }
    package func isWithin(_ key: ItemKey, _ ancestor: ItemKey) throws -> Bool {
        try reader.items.isWithin(key, ancestor)
    }
    package func isWithinReach(_ key: ItemKey, _ ancestor: ItemKey) throws -> Bool? {
        try reader.items.isWithinReach(key, ancestor)
    }
    package func itemCount() throws -> Int64 { try reader.items.itemCount() }
    package func named(_ row: ItemRow) throws -> ItemRow? { try reader.items.named(row) }
    package func links(to id: ItemID) throws -> [ItemRow] { try reader.items.links(to: id) }
    package func allLinks(to id: ItemID) throws -> [ItemRow] { try reader.items.allLinks(to: id) }
    package func linkCount(of row: ItemRow) throws -> Int { try reader.items.linkCount(of: row) }
    package func localFiles(after key: ItemKey, limit: Int) throws -> [ItemRow] {
        try reader.items.localFiles(after: key, limit: limit)
    }
    package func members(of package: ItemKey, limit: Int) throws -> [ItemRow] {
        try reader.items.members(of: package, limit: limit)
    }
    package func openForWriting() throws -> [ItemRow] { try reader.items.openForWriting() }
    package func hasWriters() throws -> Bool { try reader.items.hasWriters() }
    package func completeBytes(ofAtMost limit: Int64) throws -> Int64 {
        try reader.items.completeBytes(ofAtMost: limit)
    }
    package func partialContents() throws -> [(content: ContentID, size: Int64)] { try reader.items.partialContents() }
    package func hasSyncedChildren(_ parent: ItemKey) throws -> Bool { try reader.items.hasSyncedChildren(parent) }
    package func lingering(limit: Int) throws -> [ItemRow] { try reader.items.lingering(limit: limit) }
    package func allRows() throws -> [ItemRow] { try reader.items.allRows() }
    package func syncedItemCount() throws -> Int64 { try reader.items.syncedItemCount() }
}

// RemoteTable
extension IndexQueries {
    package func liveRecords() throws -> [ItemID: Revision] { try reader.remotes.liveRecords() }
    package func linksWaiting(for id: ItemID) throws -> [ItemID] { try reader.remotes.linksWaiting(for: id) }
    package func remoteOccupants(of parent: ItemID, named name: ItemName) throws -> [RemoteItem] {
        try reader.remotes.remoteOccupants(of: parent, named: name)
    }
    package func remoteChildren(of parent: ItemID, limit: Int) throws -> [ItemID] {
        try reader.remotes.remoteChildren(of: parent, limit: limit)
    }
    package func announced(by device: DeviceID) throws -> [ItemID] { try reader.remotes.announced(by: device) }
    package func remote(id: ItemID) throws -> RemoteItem? { try reader.remotes.remote(id: id) }
    package func remoteParent(of id: ItemID) throws -> ItemID? { try reader.remotes.remoteParent(of: id) }
    package func recordsWaiting(in parent: ItemID) throws -> [ItemID] { try reader.remotes.recordsWaiting(in: parent) }
    package func isRecord(_ id: ItemID, _ state: SettlingState) throws -> Bool {
        try reader.remotes.isRecord(id, state)
    }
    package func records(_ state: SettlingState, limit: Int) throws -> [ItemID] {
        try reader.remotes.records(state, limit: limit)
    }
    package func remotesMissingFromSnapshot(limit: Int) throws -> [RemoteItem] {
        try reader.remotes.remotesMissingFromSnapshot(limit: limit)
    }
    package func remotes(through revision: Revision) throws -> [RemoteItem] {
        try reader.remotes.remotes(through: revision)
    }
}

// ContentTable
extension IndexQueries {
    package func contentRecord(_ content: ContentID) throws -> ContentRecord? {
        try reader.contents.contentRecord(content)
    }
    package func unsyncedContents(notOf boot: [UInt8]) throws -> [ContentRecord] {
        try reader.contents.unsyncedContents(notOf: boot)
    }
    package func unsyncedContents(limit: Int) throws -> [ContentID] {
        try reader.contents.unsyncedContents(limit: limit)
    }
    package func isUnsynced(_ content: ContentID) throws -> Bool { try reader.contents.isUnsynced(content) }
    package func locations(of chunk: ChunkReference) throws -> [ChunkLocation] {
        try reader.contents.locations(of: chunk)
    }
    package func contentsInUse() throws -> ContentList { try reader.contents.contentsInUse() }
    package func hadItem(_ content: ContentID) throws -> Bool { try reader.contents.hadItem(content) }
    package func needsWhole(_ content: ContentID) throws -> Bool { try reader.contents.needsWhole(content) }
    package func replacedContents() throws -> [ReplacedContent] { try reader.contents.replacedContents() }
}

// VersionTable
extension IndexQueries {
    package func conflicts(of item: ItemID) throws -> [RemoteVersion] { try reader.versions.conflicts(of: item) }
    package func allConflicts(of item: ItemID) throws -> [RemoteVersion] { try reader.versions.allConflicts(of: item) }
    package func conflict(_ version: VersionID) throws -> (item: ItemID, version: RemoteVersion)? {
        try reader.versions.conflict(version)
    }
    package func conflictCount(of row: ItemRow) throws -> Int { try reader.versions.conflictCount(of: row) }
    package func conflictTotal() throws -> (items: Int, versions: Int, bytes: Int64) {
        try reader.versions.conflictTotal()
    }
    package func itemsInConflict(
        withPackages: Bool = false, after key: ItemKey = ItemKey(0), limit: Int
    ) throws -> [ItemRow] {
        try reader.versions.itemsInConflict(withPackages: withPackages, after: key, limit: limit)
    }
    package func itemsInConflict(below folder: ItemKey) throws -> [ItemRow] {
        try reader.versions.itemsInConflict(below: folder)
    }
    package func itemsInConflict(in folder: ItemKey) throws -> [ItemRow] {
        try reader.versions.itemsInConflict(in: folder)
    }
    package func childrenWithVersions(of parent: ItemKey, after name: ItemName?, limit: Int) throws -> [ItemRow] {
        try reader.versions.childrenWithVersions(of: parent, after: name, limit: limit)
    }
    package func itemsWithVersions(conflictsOnly: Bool) throws -> [ItemID] {
        try reader.versions.itemsWithVersions(conflictsOnly: conflictsOnly)
    }
    package func isSent(_ version: VersionID) throws -> Bool { try reader.versions.isSent(version) }
    package func versionActions(limit: Int) throws -> [PendingVersionAction] {
        try reader.versions.versionActions(limit: limit)
    }
    package func versionActionCount() throws -> Int { try reader.versions.versionActionCount() }
    package func itemsWithVersionActions(limit: Int) throws -> [ItemRow] {
        try reader.versions.itemsWithVersionActions(limit: limit)
    }
    package func decidedVersions(of item: ItemID) throws -> [VersionID: PendingVersionAction.Kind] {
        try reader.versions.decidedVersions(of: item)
    }
}

// PendingTable
extension IndexQueries {
    package func changedPackages(_ index: ItemIndex) throws -> Set<ItemKey> {
        try reader.pending.changedPackages(index)
    }
    package func dirtyRows(after order: Int64, limit: Int) throws -> [ItemRow] {
        try reader.pending.dirtyRows(after: order, limit: limit)
    }
    package func dirtyCount() throws -> Int { try reader.pending.dirtyCount() }
    package func unsentRows(limit: Int) throws -> [ItemRow] { try reader.pending.unsentRows(limit: limit) }
    package func unsentCount() throws -> Int { try reader.pending.unsentCount() }
    package func dirtyBytes() throws -> Int64 { try reader.pending.dirtyBytes() }
    package func evictable(
        after last: ItemRow? = nil, largerThan size: Int64 = 0, keeping kept: KeptContents = .none, limit: Int
    ) throws -> [ItemRow] {
        try reader.pending.evictable(after: last, largerThan: size, keeping: kept, limit: limit)
    }
    package func evictableParts(keeping kept: KeptContents = .none) throws -> [(key: ItemKey, content: ContentID)] {
        try reader.pending.evictableParts(keeping: kept)
    }
    package func evictableBytes(keeping kept: KeptContents = .none) throws -> Int64 {
        try reader.pending.evictableBytes(keeping: kept)
    }
    package func hasEvictable() throws -> Bool { try reader.pending.hasEvictable() }
    package func wanted(eager: Int64, after key: ItemKey, limit: Int) throws -> [ItemRow] {
        try reader.pending.wanted(eager: eager, after: key, limit: limit)
    }
    package func awaited(eager: Int64, limit: Int) throws -> [ItemKey] {
        try reader.pending.awaited(eager: eager, limit: limit)
    }
    package func wantedTotal(eager: Int64) throws -> (items: Int, bytes: Int64) {
        try reader.pending.wantedTotal(eager: eager)
    }
    package func isWanted(_ key: ItemKey, eager: Int64) throws -> Bool {
        try reader.pending.isWanted(key, eager: eager)
    }
}

// DeletionTable
extension IndexQueries {
    package func lastDirtyOrder() throws -> Int64 { try reader.deletions.lastDirtyOrder() }
    package func pendingDeletionMoments(after order: Int64) throws -> [DeletionMoment] {
        try reader.deletions.pendingDeletionMoments(after: order)
    }
    package func pendingDeletions(after order: Int64, limit: Int) throws -> [ItemRow] {
        try reader.deletions.pendingDeletions(after: order, limit: limit)
    }
    package func pendingDeletionCount(after order: Int64) throws -> Int {
        try reader.deletions.pendingDeletionCount(after: order)
    }
    package func hasHeldDeletions(after confirmed: Int64) throws -> Bool {
        try reader.deletions.hasHeldDeletions(after: confirmed)
    }
}

// MetaTable
extension IndexQueries {
    package func lastBoot() throws -> [UInt8]? { try reader.meta.lastBoot() }
    package func hasEnded() throws -> Bool { try reader.meta.hasEnded() }
    package func ignoreText(of folder: ItemKey) throws -> [UInt8]? { try reader.meta.ignoreText(of: folder) }
    package func lostContentsWait() throws -> Bool { try reader.meta.lostContentsWait() }
    package func confirmedDeletions() throws -> Int64 { try reader.meta.confirmedDeletions() }
    package func feedPosition() throws -> FeedPosition { try reader.meta.feedPosition() }
    package func hasBeenCaughtUp() throws -> Bool { try reader.meta.hasBeenCaughtUp() }
    package func isFeedBehind() throws -> Bool { try reader.meta.isFeedBehind() }
    package func linkCount(of item: ItemID) throws -> Int { try reader.meta.linkCount(of: item) }
}

// FolderTable
extension IndexQueries {
    package func sums(below folder: ItemKey) throws -> FolderSums { try reader.folders.sums(below: folder) }
}

// IndexExamination
extension IndexQueries {
    package func damagedFields() throws -> DamagedFields { try reader.examination.damagedFields() }
    package func rowsWithContent(after key: ItemKey, limit: Int) throws -> [ItemRow] {
        try reader.examination.rowsWithContent(after: key, limit: limit)
    }
    package func rowsOfUnknownContents(after key: ItemKey, limit: Int) throws -> [ItemRow] {
        try reader.examination.rowsOfUnknownContents(after: key, limit: limit)
    }
    package func cleanRows(after key: ItemKey, limit: Int) throws -> [ItemRow] {
        try reader.examination.cleanRows(after: key, limit: limit)
    }
    package func recordsWithoutItem(limit: Int) throws -> [ItemID] {
        try reader.examination.recordsWithoutItem(limit: limit)
    }
    package func rowsSharingContents(limit: Int) throws -> [ItemRow] {
        try reader.examination.rowsSharingContents(limit: limit)
    }
    package func rowsWithOwnContent(after key: ItemKey, limit: Int) throws -> [ItemRow] {
        try reader.examination.rowsWithOwnContent(after: key, limit: limit)
    }
    package func strayRows(limit: Int) throws -> [ItemRow] { try reader.examination.strayRows(limit: limit) }
    package func checkInvariants() throws { try reader.examination.checkInvariants() }
    package func contradictions(withTotals: Bool = true) throws -> [String] {
        try reader.examination.contradictions(withTotals: withTotals)
    }
}
